"""Finds files and folders of the user's that have the name of one of our packages: `bolts/` beside a topology (S21).

Our packages have everyday names, and `kedge` has Python find ours. So yours may be there, but nothing can import it:
who tries is told that by name, in place of "cannot import name 'MyBolt' from 'bolts'". Imports nothing of what it looks
for.
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

NAMED: Final = re.compile(r"'([^']+)'")  # in what Python says of a variable


def own_stream(error: BaseException) -> ConfigurationError | None:
    """What to raise where a declaration has raised this for a bolt that is given its own stream: its handle is there
    only once the bolt is. Else None."""
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
    for one in ast.walk(tree):
        if isinstance(one, ast.Assign | ast.AnnAssign) and one.lineno <= (at.lineno or 0) <= (one.end_lineno or 0):
            name = _bolt_reading(one, missing[1])
            if name:
                text = f"{at.filename}:{at.lineno}: the bolt {name!r:.80} is given its own stream as an input"
                return ConfigurationError(text, code=TOPOLOGY_CYCLE)
    return None


def _bolt_reading(one: ast.Assign | ast.AnnAssign, variable: str) -> str:
    """The name of the bolt that is declared here, bound to this variable, and given it; empty where none is."""
    call = one.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "bolt":
        return ""
    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
    bound = {target.id for target in targets if isinstance(target, ast.Name)}
    inputs = call.args[2:]  # behind the name and the bolt
    given = {part.id for argument in inputs for part in ast.walk(argument) if isinstance(part, ast.Name)}
    if variable not in bound & given:
        return ""
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else variable


THIS: Final = Path("topology", "cli", "hidden.py")  # what only a clone of Kedge has
COMPILED: Final = "__pycache__"
LOOKED_AT_MAX: Final = 1000  # entries of a folder that may be no package at all


def refuse_hidden(*names: str) -> None:
    """Raises ConfigurationError where an import of one of these packages of ours would find something else in a process
    that has not imported `kedge` before. Call it when sys.path is as the topology will have it."""
    for name in names or PACKAGES:
        if (yours := _yours(name)) is not None:
            first = f"because {yours.parent} comes first on Python's import path"
            text = f"{yours} hides Kedge's own package {name!r}, {first}"
            raise _mistake(text, yours)


def wanted_of_yours(error: BaseException) -> ConfigurationError | None:
    """The mistake, where an import of the user's has asked a package of ours for what a file of theirs with the same
    name may have; None for any other error."""
    asked = ""
    if isinstance(error, ImportError):
        asked = error.name or ""
    elif isinstance(error, AttributeError) and isinstance(error.obj, types.ModuleType):
        asked = error.obj.__name__
    name = asked.partition(".")[0]
    if name not in PACKAGES or (yours := _yours(name)) is None:
        return None
    text = f"{name!r} is a package of Kedge's own, so {yours} can't be imported under that name ({error})"
    return _mistake(text, yours)


def _mistake(text: str, yours: Path) -> ConfigurationError:
    return ConfigurationError(text, code=SHADOWED_MODULE, next=_advice(yours))


def _advice(yours: Path) -> str:
    if (yours.parent / THIS).is_file():
        return "keep the topology in a folder outside of that clone of Kedge, or pip install --editable the clone"
    return f"rename your {yours.name}, or keep the topology in another folder"


def _yours(name: str) -> Path | None:
    """What the import path alone has under this name, if it is not ours."""
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
    """Whether a folder without `__init__.py` has nothing but what Python or pytest have compiled: an earlier install,
    whose files are gone."""
    looked_at = 0
    for here, _, names in os.walk(folder):
        looked_at += 1 + len(names)
        if looked_at > LOOKED_AT_MAX or (names and os.path.basename(here) != COMPILED):
            return False
    return True
