"""Finds the user's files and folders that have the name of one of Kedge's packages: `bolts/` beside a topology (S21).

Kedge's packages have everyday names, and `kedge` makes Python find Kedge's. So a user's file of such a name may exist,
but nothing can import it. An import of it raises an error that names the file, instead of "cannot import name 'MyBolt'
from 'bolts'". Must not import the files that it looks for.
"""

import ast
import importlib
import os
import re
import traceback
import types
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from topology.codes.command_line import SHADOWED_MODULE
from topology.codes.declarations import TOPOLOGY_CYCLE
from topology.errors import ConfigurationError
from topology.user_frames import HOME, PACKAGES, text_of

NAMED: Final = re.compile(r"'([^']+)'")  # the variable in the message of a NameError


def own_stream(error: BaseException) -> ConfigurationError | None:
    """Return the error to raise if this NameError comes from a bolt that gets its own stream as an input; else None.
    The variable of its handle exists only after the bolt is declared."""
    if not isinstance(error, NameError):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    missing = NAMED.search(text_of(error))
    if not frames or missing is None:
        return None
    at = frames[-1]
    try:
        tree = ast.parse(Path(at.filename).read_bytes())
    except (OSError, ValueError, SyntaxError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= (at.lineno or 0) <= (node.end_lineno or 0):
            name = _bolt_reading(node, missing[1])
            if name:
                text = f"{at.filename}:{at.lineno}: the bolt {name!r:.80} is given its own stream as an input"
                return ConfigurationError(text, code=TOPOLOGY_CYCLE)
    return None


def _bolt_reading(one: ast.Assign | ast.AnnAssign, variable: str) -> str:
    """Return the name of the bolt that this assignment binds to the variable and that reads it; empty if none."""
    call = one.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "bolt":
        return ""
    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
    bound = {target.id for target in targets if isinstance(target, ast.Name)}
    inputs = call.args[2:]  # after the name and the bolt
    given = {part.id for argument in inputs for part in ast.walk(argument) if isinstance(part, ast.Name)}
    if variable not in bound & given:
        return ""
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else variable


THIS: Final = Path("topology", "cli", "hidden.py")  # a file that only a clone of Kedge has
COMPILED: Final = "__pycache__"
LOOKED_AT_MAX: Final = 1000  # entries of a folder that are checked


def refuse_hidden(*names: str) -> None:
    """Raise ConfigurationError if an import of one of Kedge's packages would find another file in a process that has
    not imported `kedge` before. Call it after sys.path is set up for the topology."""
    for name in names or PACKAGES:
        if (own_module := _own_module(name)) is not None:
            first = f"because {own_module.parent} comes first on Python's import path"
            text = f"{own_module} hides Kedge's own package {name!r}, {first}"
            raise _mistake(text, own_module)


def shadowed_import(error: BaseException) -> ConfigurationError | None:
    """Return the mistake if the user's import asked a package of Kedge for a name, and a file of the user with the same
    name as the package exists; None for any other error."""
    asked = ""
    if isinstance(error, ImportError):
        asked = error.name or ""
    elif isinstance(error, AttributeError) and isinstance(error.obj, types.ModuleType):
        asked = error.obj.__name__
    name = asked.partition(".")[0]
    if name not in PACKAGES or (own_module := _own_module(name)) is None:
        return None
    text = f"{name!r} is one of Kedge's own packages, so {own_module} can't be imported under that name ({error})"
    return _mistake(text, own_module)


def _mistake(text: str, own_module: Path) -> ConfigurationError:
    return ConfigurationError(text, code=SHADOWED_MODULE, next=_advice(own_module))


def _advice(own_module: Path) -> str:
    if (own_module.parent / THIS).is_file():
        return "keep the topology in a folder outside of that clone of Kedge, or pip install --editable the clone"
    return f"rename your {own_module.name}, or keep the topology in another folder"


def _own_module(name: str) -> Path | None:
    """Return the file that the import path alone has under this name, if it is not Kedge's."""
    importlib.invalidate_caches()
    spec = PathFinder.find_spec(name)
    if spec is None:
        return None
    found = spec.origin or next(iter(spec.submodule_search_locations or ()), None)
    if found is None or HOME in Path(found).resolve().parents:
        return None
    path = Path(found)
    if spec.origin is None and _only_compiled(path):
        return None
    return path.parent if path.name == "__init__.py" else path


def _only_compiled(folder: Path) -> bool:
    """Return True if a folder without `__init__.py` has only files compiled by Python or pytest: the rest of an earlier
    installation."""
    looked_at = 0
    for here, _, names in os.walk(folder):
        looked_at += 1 + len(names)
        if looked_at > LOOKED_AT_MAX or (names and os.path.basename(here) != COMPILED):
            return False
    return True
