"""Finds folders of the user's that hide one of our packages: `bolts/` beside a topology, say (S21).

Our packages have everyday names, and Python takes the first it finds. Unsaid, that ends in "cannot import name
'SqliteSink' from 'bolts'". Imports nothing of what it looks for.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

from topology.codes.loading import K130
from topology.errors import ConfigurationError
from topology.frames import HOME, PACKAGES

THIS = Path("topology", "cli", "hidden.py")  # what only a clone of Kedge has


def refuse_hidden() -> None:
    """Raises ConfigurationError where an import of one of our packages would find something else. Call it when
    sys.path is as the topology will have it."""
    importlib.invalidate_caches()
    for name in PACKAGES:
        spec = _first(name)
        if spec is None:
            continue
        found = spec.origin or next(iter(spec.submodule_search_locations or ()), None)
        if found is None or _ours(Path(found)) or (spec.origin is None and name in sys.modules):
            continue  # a folder without __init__.py gives way to what is imported already
        path = Path(found)
        what = path.parent if path.name == "__init__.py" else path
        raise ConfigurationError(
            f"{what} hides Kedge's own package {name!r}, because {what.parent} comes first on Python's import path",
            code=K130,
            next="keep the topology in a folder outside of that clone of Kedge, or pip install --editable the clone"
            if (what.parent / THIS).is_file()
            else f"rename your {what.name}, or keep the topology in another folder",
        )


def _first(name: str) -> ModuleSpec | None:
    """What an import would find now, were the name not imported yet. (`importlib.util.find_spec` asks sys.modules.)"""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(name, None) if find is not None else None
        if spec is not None:
            return spec
    return None


def _ours(found: Path) -> bool:
    return HOME in found.resolve().parents
