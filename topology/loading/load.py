"""From `MODULE-OR-FILE[:ATTRIBUTE]` to a Topology. Whatever is wrong with it is one ConfigurationError.

Runs the user's code, as importing does, and calls a factory; validates nothing and knows no terminal. A file's folder
comes first on the import path, as it does for `python file.py`, so that the file finds its siblings; for a module the
current folder does, as for `python -m`. Worker processes load with `again`, so nothing heavy is imported here.
"""

import importlib
import importlib.util
import inspect
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from topology.codes.command_line import (
    ATTRIBUTE_NOT_FOUND,
    EXTRA_NOT_INSTALLED,
    FACTORY_RAISED,
    FACTORY_RETURNED_NO_TOPOLOGY,
    FILE_NOT_FOUND,
    IMPORT_NOT_INSTALLED,
    IMPORT_RAISED,
    INVALID_TARGET,
    MAIN_NOT_A_TOPOLOGY,
    MODULE_NOT_FOUND,
    NOT_A_TOPOLOGY,
    NOT_PYTHON_FILE,
    SET_WITHOUT_FACTORY,
    SYNTAX_ERROR,
    TARGET_IS_FOLDER,
    TOPOLOGY_ONLY_IN_MAIN,
    UNKNOWN_KEDGE_MODULE,
    UNREADABLE_FILE,
)
from topology.config import Config
from topology.errors import ConfigurationError, KedgeError, did_you_mean
from topology.exact_types import check_when_made
from topology.graph import Graph, only_declaring
from topology.loading.hints import own_stream, refuse_hidden, wanted_of_yours
from topology.loading.settings import arguments, option_of, plain_secrets
from topology.user_frames import HOME, PACKAGES, text_of

ATTRIBUTE: Final = "topology"  # what is looked for where none is named
OF_EXTRAS: Final = {  # modules that only an extra brings → that extra
    "psutil": "host",
    "psycopg": "postgres",
    "pyarrow": "spark",
    "pyspark": "spark",
}
MAIN: Final = "__main__"
SAID_MAX: Final = 500  # characters of what an exception of the user's says, in a sentence


@dataclass(frozen=True)
class LoadTarget:
    """What the user named: a file, by its absolute path, or a dotted module where `file` is None."""

    where: str
    attribute: str
    file: Path | None

    def __str__(self) -> str:
        return f"{self.where}:{self.attribute}"


def target_of(text: str) -> LoadTarget:
    """Reads the argument. Raises ConfigurationError for a file that is not there."""
    where, attribute = text, ATTRIBUTE
    head, colon, tail = text.rpartition(":")
    if colon and head and (tail.isidentifier() or not tail):
        where, attribute = head, tail or ATTRIBUTE
    if not (where.endswith(".py") or "/" in where or "\\" in where):
        if not all(part.isidentifier() for part in where.split(".")):
            raise ConfigurationError(
                f"{where!r} is neither a Python file (….py) nor the dotted name of a module", code=INVALID_TARGET
            )
        if where.split(".")[-1] == MAIN:
            raise ConfigurationError(
                f"{where} is what Python was started with, and no module to run", code=MAIN_NOT_A_TOPOLOGY
            )
        return LoadTarget(where, attribute, None)
    file = Path(where)
    try:
        _refuse_no_file(file, where)
        return LoadTarget(where, attribute, file.absolute())  # importing it may change the current folder
    except OSError as error:  # a folder on the way that may not be entered, a name that is too long
        raise _unreadable(where, error) from error


def _refuse_no_file(file: Path, where: str) -> None:
    if file.is_dir():
        raise ConfigurationError(f"{where} is a folder", code=TARGET_IS_FOLDER)
    if not file.exists():
        beside = (str(file.parent / one.name) for one in sorted(file.parent.glob("*.py")))
        raise ConfigurationError(f"there is no file {where}{did_you_mean(where, beside)}", code=FILE_NOT_FOUND)


def _unreadable(where: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{where} can't be read: {error.strerror or error}", code=UNREADABLE_FILE)


def load(
    target: LoadTarget,
    given: Mapping[str, str],
    exposed: Callable[[list[str]], object] = len,
    absent: list[str] | None = None,
) -> Graph:
    """Imports the target, and calls the factory where it is one, with the values of `--set`. `exposed` is told the keys
    of those that are secrets, and were given as they are. `absent`: as of `settings.arguments`."""
    found = _attribute(_imported(target), target)
    if isinstance(found, Graph):
        if given:
            key = next(iter(given))
            text = f"{option_of(given, '--set')} {key}=… has nowhere to go: {target} is a Topology"
            raise ConfigurationError(text, code=SET_WITHOUT_FACTORY)
        return found
    if not callable(found) or (isinstance(found, type) and not issubclass(found, Graph)):
        kind = "a class" if isinstance(found, type) else f"of type {type(found).__name__}"
        raise ConfigurationError(
            f"{target} is {kind}; a Topology, or a function that returns one, is wanted", code=NOT_A_TOPOLOGY
        )
    exposed(plain_secrets(found, given))
    return _called(found, target, (), arguments(found, given, str(target), absent))


def made_of(target: LoadTarget, args: Sequence[Any], keywords: Mapping[str, Any]) -> Graph:
    """Imports the target, a function, and calls it with these values. Raises as `load` does."""
    return _called(_attribute(_imported(target), target), target, args, keywords)


def _called(make: Callable[..., Any], target: LoadTarget, args: Sequence[Any], keywords: Mapping[str, Any]) -> Graph:
    try:
        with only_declaring(str(target)):
            made = make(*args, **keywords)
    except (KedgeError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit, or a class of the user's own: none of them ends the command unsaid
        if wrong := own_stream(error) or wanted_of_yours(error):
            raise wrong from error
        text = f"{target} raised {_described(error, target)}"
        raise _of_an_extra(text, error) or ConfigurationError(text, code=FACTORY_RAISED) from error
    if not isinstance(made, Graph):
        if inspect.iscoroutine(made):
            made.close()
        raise ConfigurationError(
            f"{target} returned a value of type {type(made).__name__}; it has to return a Topology",
            code=FACTORY_RETURNED_NO_TOPOLOGY,
        )
    return made


def recipe(target: LoadTarget, given: Mapping[str, str], config: Config) -> dict[str, Any]:
    """Arguments for `again`, as plain data that msgpack carries. `config`: the settings that were decided on."""
    return {
        "where": target.where,
        "attribute": target.attribute,
        "file": str(target.file) if target.file else None,
        "given": dict(given),
        "config": {one.name: getattr(config, one.name) for one in fields(Config)},
    }


def again(
    where: str,
    attribute: str,
    file: str | None,
    given: Mapping[str, str],
    config: Mapping[str, Any],
    engine: str = "",
) -> Graph:
    """The same topology once more, in another process: with the same values, and with the settings that were decided
    on, whatever this process' environment says; or what `engine` has Kedge run in its place. Raises as `load` does."""
    if config.get("check_types"):
        check_when_made()
    topology = load(LoadTarget(where, attribute, Path(file) if file else None), given)
    topology.config = Config(**config)
    if not engine:
        return topology
    from topology.engines import derived

    plain = {"where": where, "attribute": attribute, "file": file, "given": given, "config": config}
    return derived(topology, engine, plain)


def _imported(target: LoadTarget) -> types.ModuleType:
    folder = str(target.file.resolve().parent) if target.file else str(Path.cwd())
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    refuse_hidden("kedge")  # workers find it by the import path; it has the others be found
    try:
        with only_declaring(target.where):
            return _from_file(target.file, target.where) if target.file else importlib.import_module(target.where)
    except (KedgeError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        text = f"{error.filename or target.where}:{error.lineno or 1}: {error.msg}"
        raise ConfigurationError(text, code=SYNTAX_ERROR) from error
    except OSError as error:
        if target.file and error.filename == str(target.file.resolve()):
            raise _unreadable(target.where, error) from error
        raise _not_imported(target, error) from error
    except ModuleNotFoundError as error:
        if not target.file and error.name and (target.where + ".").startswith(error.name + "."):
            raise ConfigurationError(_no_module(target.where, error.name), code=MODULE_NOT_FOUND) from None
        raise _not_imported(target, error) from error
    except BaseException as error:
        raise _not_imported(target, error) from error


def _not_imported(target: LoadTarget, error: BaseException) -> ConfigurationError:
    """What is raised for what an import has raised; where a module is missing, with where to get it."""
    if wrong := own_stream(error) or wanted_of_yours(error):
        return wrong
    text = f"{target.where} can't be imported: {_described(error, target)}"
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    first = missing.partition(".")[0]
    if first in PACKAGES:
        return ConfigurationError(text, code=UNKNOWN_KEDGE_MODULE)
    if brought := _of_an_extra(text, error):
        return brought
    if missing:
        where = f"install what brings {first!r} to where this kedge runs ({sys.executable}), or mend the name"
        return ConfigurationError(text, code=IMPORT_NOT_INSTALLED, next=where)
    return ConfigurationError(text, code=IMPORT_RAISED)


def _of_an_extra(text: str, error: BaseException) -> ConfigurationError | None:
    """The error for a module that an extra brings, with what installs that; None for any other one."""
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    install = how_to_install(missing.partition(".")[0])
    return ConfigurationError(text, code=EXTRA_NOT_INSTALLED, next=install) if install else None


def how_to_install(module: str) -> str:
    """The command that brings a module of an extra's; empty for others."""
    extra = OF_EXTRAS.get(module)
    return f"{sys.executable} -m pip install 'kedge-streams[{extra}]'" if extra is not None else ""


def _no_module(where: str, missing: str) -> str:
    file = Path(*where.split(".")).with_suffix(".py")
    meant = f"; did you mean the file {file}?" if file.exists() else f"; looked in {Path.cwd()} and Python's own path"
    inside = f" (there is no {missing!r})" if missing != where else ""
    return f"there is no module {where!r}{inside}{meant}"


def _from_file(file: Path, where: str) -> types.ModuleType:
    """Imports a file under its own name, so that siblings find the same module; under another where that is taken."""
    name = file.stem
    if not name.isidentifier() or name in sys.modules or name in sys.stdlib_module_names:
        name = "kedge_file_" + "".join(c if c.isalnum() else "_" for c in name)
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{where} is not a Python file", code=NOT_PYTHON_FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _attribute(module: types.ModuleType, target: LoadTarget) -> Any:
    try:
        return getattr(module, target.attribute)
    except AttributeError:
        pass
    topologies = [name for name, value in vars(module).items() if isinstance(value, Graph) or _makes_one(value)]
    near = did_you_mean(target.attribute, [name for name in vars(module) if not name.startswith("_")])
    if target.attribute == ATTRIBUTE and topologies:
        near = f"; did you mean {target.where}:{topologies[0]}?"
    elif _made_when_main(module, target.attribute):
        text = f"{target.where} makes its topology under `if __name__ == '__main__'` only, so it is not there on import"
        raise ConfigurationError(text, code=TOPOLOGY_ONLY_IN_MAIN)
    raise ConfigurationError(
        f"{target.where} has no {target.attribute!r}{near}",
        code=ATTRIBUTE_NOT_FOUND,
        next=f"name what it has: {target.where}:NAME",
    )


def _made_when_main(module: types.ModuleType, attribute: str) -> bool:
    """Whether the module makes a topology, or binds this name, under `if __name__ == "__main__"`."""
    import ast

    try:
        tree = ast.parse(Path(module.__file__ or "").read_bytes())
    except (OSError, ValueError, SyntaxError):
        return False
    return any(
        getattr(part, "id", getattr(part, "attr", "")) in (attribute, "Topology")  # a name, or t.Topology
        for one in tree.body
        if isinstance(one, ast.If) and {MAIN} & {x.value for x in ast.walk(one.test) if isinstance(x, ast.Constant)}
        for part in ast.walk(one)
    )


def _makes_one(value: Any) -> bool:
    if not inspect.isfunction(value):
        return False
    made = value.__annotations__.get("return")
    if isinstance(made, type):
        return issubclass(made, Graph)
    return made in ("Topology", "topology.Topology", "kedge.Topology")


def _described(error: BaseException, target: LoadTarget) -> str:
    """An exception of the user's in a sentence, with the last line of theirs that it went through."""
    said = text_of(error)
    first = said.split("\n")[0][:SAID_MAX]  # the traceback has all of it
    text = f"{type(error).__name__}: {first}{' …' * (first != said)}" if said else type(error).__name__
    folder = target.file.resolve().parent if target.file else Path.cwd()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        ours = HOME / "topology" in path.parents
        if folder in path.parents and not ours and "site-packages" not in path.parts:
            return f"{text} ({path}:{frame.lineno})"
    return text
