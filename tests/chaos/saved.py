"""The topology of `tallied`, in processes that copy a file slowly, so that they can be killed while they do."""

import time
from pathlib import Path

import tallied

from topology import Topology
from topology.filesystem.files import DiskFiles

_copy = DiskFiles.copy


def topology(
    folder: str, count: int = 200_000, rate: int = 0, counts: int = 2, tasks: int = 1, copy_s: float = 0.0
) -> Topology:
    """`copy_s`: seconds that a copy takes longer."""

    def copy(self: DiskFiles, source: Path, target: Path) -> None:
        _copy(self, source, target)
        time.sleep(copy_s)

    DiskFiles.copy = copy  # type: ignore[method-assign]  # of this process, and only there
    return tallied.topology(folder, count, rate, tasks, counts)
