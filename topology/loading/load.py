"""Loads a Topology from `MODULE-OR-FILE[:ATTRIBUTE]`. Every mistake is one ConfigurationError.

Runs the user's code, because importing does, and calls a factory. Validates nothing and knows no terminal. A file's
folder comes first on the import path, as for `python file.py`, so that the file finds its siblings. For a module, the
current folder comes first, as for `python -m`. Worker processes load with `again`, so imports here are light.
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
from topology.loading.hints import own_stream, refuse_hidden, shadowed_import
from topology.loading.settings import arguments, option_of, plain_secrets
from topology.user_frames import HOME, PACKAGES, text_of

ATTRIBUTE: Final = "topology"  # the default attribute
OF_EXTRAS: Final = {  # module that only an extra installs → that extra
    "psutil": "host",
    "psycopg": "postgres",
    "pyarrow": "spark",
    "pyspark": "spark",
}
MAIN: Final = "__main__"
SAID_MAX: Final = 500  # characters of a user's exception that an error message shows


@dataclass(frozen=True)
class LoadTarget:
    """The file or module that the user named: a file by its absolute path, or a dotted module if `file` is None."""

    where: str
    attribute: str
    file: Path | None

    def __str__(self) -> str:
        return f"{self.where}:{self.attribute}"


def target_of(text: str) -> LoadTarget:
    """Parse the argument. Raise ConfigurationError for a missing file or an invalid name."""
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
                f"{where} is the program that Python was started with, and not a module to run",
                code=MAIN_NOT_A_TOPOLOGY,
            )
        return LoadTarget(where, attribute, None)
    file = Path(where)
    try:
        _refuse_no_file(file, where)
        return LoadTarget(where, attribute, file.absolute())  # importing it may change the current folder
    except OSError as error:  # a folder in the path may not be entered, or a name is too long
        raise _unreadable(where, error) from error


def _refuse_no_file(file: Path, where: str) -> None:
    if file.is_dir():
        raise ConfigurationError(f"{where} is a folder", code=TARGET_IS_FOLDER)
    if not file.exists():
        beside = (str(file.parent / sibling.name) for sibling in sorted(file.parent.glob("*.py")))
        raise ConfigurationError(f"there is no file {where}{did_you_mean(where, beside)}", code=FILE_NOT_FOUND)


def _unreadable(where: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{where} can't be read: {error.strerror or error}", code=UNREADABLE_FILE)


def load(
    target: LoadTarget,
    given: Mapping[str, str],
    exposed: Callable[[list[str]], object] = len,
    absent: list[str] | None = None,
) -> Graph:
    """Import the target and, if it is a factory, call it with the values of `--set`. Calls `exposed` with the keys
    whose values are secrets in plain text. `absent`: see `settings.arguments`."""
    found = _attribute(_imported(target), target)
    if isinstance(found, Graph):
        if given:
            key = next(iter(given))
            text = f"{option_of(given, '--set')} {key}=… sets no parameter: {target} is a Topology"
            raise ConfigurationError(text, code=SET_WITHOUT_FACTORY)
        return found
    if not callable(found) or (isinstance(found, type) and not issubclass(found, Graph)):
        kind = "a class" if isinstance(found, type) else f"of type {type(found).__name__}"
        raise ConfigurationError(
            f"{target} is {kind}; name a Topology, or a function that returns one", code=NOT_A_TOPOLOGY
        )
    exposed(plain_secrets(found, given))
    return _called(found, target, (), arguments(found, given, str(target), absent))


def made_of(target: LoadTarget, args: Sequence[Any], keywords: Mapping[str, Any]) -> Graph:
    """Import the target, a function, and call it with these values. Raises as `load` does."""
    return _called(_attribute(_imported(target), target), target, args, keywords)


def _called(make: Callable[..., Any], target: LoadTarget, args: Sequence[Any], keywords: Mapping[str, Any]) -> Graph:
    try:
        with only_declaring(str(target)):
            made = make(*args, **keywords)
    except (KedgeError, KeyboardInterrupt):
        raise
    except (
        BaseException
    ) as error:  # also SystemExit and the user's own classes: none may end the command without a message
        if wrong := own_stream(error) or shadowed_import(error):
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
    """Return the arguments for `again`, as plain data for msgpack. `config`: the final settings."""
    return {
        "where": target.where,
        "attribute": target.attribute,
        "file": str(target.file) if target.file else None,
        "given": dict(given),
        "config": {field.name: getattr(config, field.name) for field in fields(Config)},
    }


def again(
    where: str,
    attribute: str,
    file: str | None,
    given: Mapping[str, str],
    config: Mapping[str, Any],
    engine: str = "",
) -> Graph:
    """Load the same topology in another process, with the same values and the final settings. Ignores the settings in
    this process's environment. `engine`: return the topology that Kedge runs in its place. Raises as `load` does."""
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
    refuse_hidden("kedge")  # workers find kedge by the import path, and kedge finds the other packages
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
    """Return the error for an exception of an import; if a module is missing, with the way to install it."""
    if wrong := own_stream(error) or shadowed_import(error):
        return wrong
    text = f"{target.where} can't be imported: {_described(error, target)}"
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    first = missing.partition(".")[0]
    if first in PACKAGES:
        return ConfigurationError(text, code=UNKNOWN_KEDGE_MODULE)
    if brought := _of_an_extra(text, error):
        return brought
    if missing:
        where = f"install the package that has {first!r} where this kedge runs ({sys.executable}), or fix the name"
        return ConfigurationError(text, code=IMPORT_NOT_INSTALLED, next=where)
    return ConfigurationError(text, code=IMPORT_RAISED)


def _of_an_extra(text: str, error: BaseException) -> ConfigurationError | None:
    """Return the error for a missing module of an extra, with the command that installs it; None for other errors."""
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    install = how_to_install(missing.partition(".")[0])
    return ConfigurationError(text, code=EXTRA_NOT_INSTALLED, next=install) if install else None


def how_to_install(module: str) -> str:
    """Return the command that installs a module of an extra; empty for other modules."""
    extra = OF_EXTRAS.get(module)
    return f"{sys.executable} -m pip install 'kedge-streams[{extra}]'" if extra is not None else ""


def _no_module(where: str, missing: str) -> str:
    file = Path(*where.split(".")).with_suffix(".py")
    meant = f"; did you mean the file {file}?" if file.exists() else f"; looked in {Path.cwd()} and Python's own path"
    inside = f" (there is no {missing!r})" if missing != where else ""
    return f"there is no module {where!r}{inside}{meant}"


def _from_file(file: Path, where: str) -> types.ModuleType:
    """Import a file under its own name, so that siblings find the same module; under another if the name is taken."""
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
        text = (
            f"{target.where} makes its topology under `if __name__ == '__main__'` only, so an import does not make it"
        )
        raise ConfigurationError(text, code=TOPOLOGY_ONLY_IN_MAIN)
    raise ConfigurationError(
        f"{target.where} has no {target.attribute!r}{near}",
        code=ATTRIBUTE_NOT_FOUND,
        next=f"name one of its attributes: {target.where}:NAME",
    )


def _made_when_main(module: types.ModuleType, attribute: str) -> bool:
    """Return True if the module makes a topology, or binds this name, under `if __name__ == "__main__"`."""
    import ast

    try:
        tree = ast.parse(Path(module.__file__ or "").read_bytes())
    except (OSError, ValueError, SyntaxError):
        return False
    return any(
        getattr(part, "id", getattr(part, "attr", "")) in (attribute, "Topology")  # a name, or t.Topology
        for top in tree.body
        if isinstance(top, ast.If) and {MAIN} & {x.value for x in ast.walk(top.test) if isinstance(x, ast.Constant)}
        for part in ast.walk(top)
    )


def _makes_one(value: Any) -> bool:
    if not inspect.isfunction(value):
        return False
    made = value.__annotations__.get("return")
    if isinstance(made, type):
        return issubclass(made, Graph)
    return made in ("Topology", "topology.Topology", "kedge.Topology")


def _described(error: BaseException, target: LoadTarget) -> str:
    """Return a sentence on a user's exception, with the last line of the user's code in its traceback."""
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
