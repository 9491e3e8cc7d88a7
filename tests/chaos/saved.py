"""The topology of `tallied`, in processes that copy a store slowly, so that they can be killed while they do."""

import time
from pathlib import Path

import tallied

from topology import Topology
from topology.storage.sqlite.database import Database

_copy = Database._copy_pages


def topology(
    folder: str, count: int = 200_000, rate: int = 0, counts: int = 2, tasks: int = 1, copy_s: float = 0.0
) -> Topology:
    """`copy_s`: seconds that a copy takes longer."""

    def copy(self: Database, target: Path) -> None:
        _copy(self, target)
        time.sleep(copy_s)

    Database._copy_pages = copy  # type: ignore[method-assign]  # of this process, and only there
    return tallied.topology(folder, count, rate, tasks, counts)
