"""Chooses which core runs the hot path: the compiled one, or the same sources in Python.

A compiled module lies beside its source, and Python would import it first. All of them are taken, or none: a compiled
module reads the memory of another one's objects. The variable KEDGE_CORE decides: `python`, `compiled` (or else
ImportError), or, where it is not set, whatever can run. Nothing imports one of them before it. Must not know what the
modules do.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

# All that is compiled. Each is <name>.py, with its types in <name>.pxd, or has a twin <name>.pyx.
COMPILED: Final = (
    "topology.core.tuples",
    "topology.runtime.hot.pending",
    "topology.runtime.hot.open_trees",
    "topology.runtime.hot.hot_path",
    "topology.runtime.hot.remote_acks",
    "topology.runtime.hot.tuple_columns",
    "topology.runtime.state.known_input",
    "topology.runtime.state.lookups",
    "topology.runtime.state.state_value",
    "topology.runtime.state.keyed_work",
)
VARIABLE: Final = "KEDGE_CORE"
PACKAGE: Final = Path(__file__).parents[1]
ROOT: Final = PACKAGE.parent
# The files that a compiled module is made of, or has to agree with.
INPUTS: Final = (
    *("topology/core/*.p*", "topology/runtime/hot/*.p*", "acker/hash64.p*", "acker/identity.py", "setup.py"),
    *(f"topology/runtime/state/{name}.p*" for name in ("known_input", "lookups", "state_value", "keyed_work")),
)


class PythonCore(MetaPathFinder):
    """Finds the sources of modules that are compiled too."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_file_location(fullname, source_of(fullname)) if fullname in COMPILED else None


def source_of(module: str) -> Path:
    """Return the file of a module of this package."""
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")


def _cannot_load() -> str:
    """Try the first one, which imports none of the others. If it was built for another system, all of them were."""
    try:
        import_module(COMPILED[0])
    except ImportError as error:
        return f"it can't be loaded here: {error}"
    return ""


def why_not() -> str:
    """Return why the compiled core can't run here; empty if it can."""
    built = []
    for module in COMPILED:
        found = [path for suffix in EXTENSION_SUFFIXES if (path := source_of(module).with_suffix(suffix)).exists()]
        if not found:
            return "it was not compiled"
        built.append(found[0].stat().st_mtime)
    if (ROOT / "setup.py").exists():  # a checkout: an installed package does not change
        newest = max((path for pattern in INPUTS for path in ROOT.glob(pattern)), key=lambda path: path.stat().st_mtime)
        if newest.stat().st_mtime > min(built):
            return f"{newest.name} has changed since it was compiled: make core"
    return _cannot_load()


def _chosen() -> tuple[str, str]:
    asked = os.environ.get(VARIABLE, "").lower()
    if asked not in ("", "python", "compiled"):
        raise ImportError(f"{VARIABLE} is python or compiled, not {asked!r}", name=VARIABLE)
    reason = f"{VARIABLE}=python" if asked == "python" else why_not()
    if asked == "compiled" and reason:
        raise ImportError(f"{VARIABLE}=compiled, but there is no compiled core to run: {reason}", name=VARIABLE)
    if not reason:
        return "compiled", ""
    sys.meta_path.insert(0, PythonCore())
    return "Python", reason


CORE, REASON = _chosen()  # "compiled" or "Python", and why it is not the compiled one
