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
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from topology.cli.hidden import HOME, refuse_hidden
from topology.cli.settings import arguments, option_of
from topology.config import Config
from topology.errors import ConfigurationError, KedgeError, did_you_mean
from topology.graph import Topology

ATTRIBUTE: Final = "topology"  # what is looked for where none is named


@dataclass(frozen=True)
class Target:
    """What the user named: a file, by its absolute path, or a dotted module where `file` is None."""

    where: str
    attribute: str
    file: Path | None

    def __str__(self) -> str:
        return f"{self.where}:{self.attribute}"


def target_of(text: str) -> Target:
    """Reads the argument. Raises ConfigurationError for a file that is not there."""
    where, attribute = text, ATTRIBUTE
    head, colon, tail = text.rpartition(":")
    if colon and head and (tail.isidentifier() or not tail):
        where, attribute = head, tail or ATTRIBUTE
    if not (where.endswith(".py") or "/" in where or "\\" in where):
        if not all(part.isidentifier() for part in where.split(".")):
            raise ConfigurationError(f"{where!r} is neither a Python file (….py) nor the dotted name of a module")
        return Target(where, attribute, None)
    file = Path(where)
    if file.is_dir():
        raise ConfigurationError(f"{where} is a folder; name the Python file in it that has the topology")
    if not file.exists():
        beside = (str(file.parent / one.name) for one in sorted(file.parent.glob("*.py")))
        raise ConfigurationError(f"there is no file {where}{did_you_mean(where, beside)}")
    return Target(where, attribute, file.absolute())  # importing it may change the current folder


def load(target: Target, given: Mapping[str, str]) -> Topology:
    """Imports the target, and calls the factory where it is one, with the values of `--set`."""
    found = _attribute(_imported(target), target)
    if isinstance(found, Topology):
        if given:
            key = next(iter(given))
            raise ConfigurationError(
                f"{option_of(given, '--set')} {key}=… has nowhere to go: {target} is a Topology; values are the "
                "parameters of a function that makes one"
            )
        return found
    if not callable(found) or (isinstance(found, type) and not issubclass(found, Topology)):
        kind = "a class" if isinstance(found, type) else f"a {type(found).__name__}"
        raise ConfigurationError(f"{target} is {kind}; a Topology, or a function that returns one, is wanted")
    values = arguments(found, given, str(target))
    try:
        made = found(**values)
    except KedgeError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{target} raised {_described(error, target)}") from error
    if not isinstance(made, Topology):
        if inspect.iscoroutine(made):
            made.close()
        raise ConfigurationError(f"{target} returned a {type(made).__name__}; it has to return a Topology")
    return made


def recipe(target: Target, given: Mapping[str, str], config: Config) -> dict[str, Any]:
    """Arguments for `again`, as plain data that msgpack carries. `config`: the settings that were decided on."""
    return {
        "where": target.where,
        "attribute": target.attribute,
        "file": str(target.file) if target.file else None,
        "given": dict(given),
        "config": {one.name: getattr(config, one.name) for one in fields(Config)},
    }


def again(
    where: str, attribute: str, file: str | None, given: Mapping[str, str], config: Mapping[str, Any]
) -> Topology:
    """The same topology once more, in another process: with the same values, and with the settings that were decided
    on, whatever this process' environment says. Raises as `load` does."""
    topology = load(Target(where, attribute, Path(file) if file else None), given)
    topology.config = Config(**config)
    return topology


def _imported(target: Target) -> types.ModuleType:
    folder = str(target.file.resolve().parent) if target.file else str(Path.cwd())
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    refuse_hidden()
    try:
        return _from_file(target.file, target.where) if target.file else importlib.import_module(target.where)
    except KedgeError:
        raise
    except SyntaxError as error:
        raise ConfigurationError(f"{error.filename or target.where}:{error.lineno or 1}: {error.msg}") from error
    except OSError as error:
        if target.file and error.filename == str(target.file.resolve()):
            raise ConfigurationError(f"{target.where} can't be read: {error.strerror}") from error
        raise ConfigurationError(f"{target.where} can't be imported: {_described(error, target)}") from error
    except ModuleNotFoundError as error:
        if not target.file and error.name and (target.where + ".").startswith(error.name + "."):
            raise ConfigurationError(_no_module(target.where, error.name)) from error
        raise ConfigurationError(f"{target.where} can't be imported: {_described(error, target)}") from error
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{target.where} can't be imported: {_described(error, target)}") from error


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
        raise ConfigurationError(f"{where} is not a Python file; its name should end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _attribute(module: types.ModuleType, target: Target) -> Any:
    try:
        return getattr(module, target.attribute)
    except AttributeError:
        pass
    topologies = [name for name, value in vars(module).items() if isinstance(value, Topology) or _makes_one(value)]
    if target.attribute == ATTRIBUTE and topologies:
        raise ConfigurationError(f"{target.where} has no {ATTRIBUTE!r}; did you mean {target.where}:{topologies[0]}?")
    near = did_you_mean(target.attribute, [name for name in vars(module) if not name.startswith("_")])
    advice = near or f"; name what it has instead: {target.where}:NAME"
    raise ConfigurationError(f"{target.where} has no {target.attribute!r}{advice}")


def _makes_one(value: Any) -> bool:
    if not inspect.isfunction(value):
        return False
    return value.__annotations__.get("return") in (Topology, "Topology", "topology.Topology")


def _described(error: BaseException, target: Target) -> str:
    """An exception of the user's in a sentence, with the last line of theirs that it went through."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    folder = target.file.resolve().parent if target.file else Path.cwd()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        ours = HOME / "topology" in path.parents
        if folder in path.parents and not ours and "site-packages" not in path.parts:
            return f"{text} ({path}:{frame.lineno})"
    return text
