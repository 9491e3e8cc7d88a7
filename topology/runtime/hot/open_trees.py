"""The table of a ledger's open trees, by root.

This is the Python core's: a dict. `open_trees.pyx` has the compiled one, with those of a dict's methods that a ledger
needs: no object for a root, and 16 bytes a place. Must not know what a tree is.
"""

from typing import Any, TypeAlias

OpenTrees: TypeAlias = dict[int, Any]
