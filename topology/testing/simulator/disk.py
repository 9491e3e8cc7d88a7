"""A disk in memory that does what real ones may: it forgets what was not synced, tears writes, fails a sync, runs full.

Processes see all that was written, whoever wrote it; a loss of power leaves what was synced, and of the rest what its
seed says. Paths are names only, nothing on the real disk is touched. Must not know SQLite or what is in the files.
"""

import errno
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

SECTOR: Final = 512  # bytes that are written whole or not at all
ROOT: Final = Path("/simulated")


@dataclass(eq=False)
class FileNode:
    """A file, whatever its names. `unsynced` are the writes since its last sync: an offset and bytes, or, with None,
    the length that it was cut to."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)


Change = dict[str, FileNode | None]  # names in one directory: what each stands for now, None for nothing


@dataclass
class Directory:
    names: dict[str, FileNode] = field(default_factory=dict)
    durable: dict[str, FileNode] = field(default_factory=dict)
    unsynced: list[Change] = field(default_factory=list)  # in their order


class SimulatedDisk:
    """`full` has every file keep its length; `failing_syncs` is how many syncs from now on fail, whose writes are then
    gone for good, though processes still see them (F18). `hits` counts what came of the faults, by their names."""

    def __init__(self, random: Random) -> None:
        self.full = False
        self.failing_syncs = 0
        self.hits: Counter[str] = Counter()
        self._random = random
        self._directories: dict[Path, Directory] = {ROOT: Directory()}

    # -- what processes do

    def directory(self, path: Path) -> Directory:
        try:
            return self._directories[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

    def is_directory(self, path: Path) -> bool:
        return path in self._directories

    def make_directory(self, path: Path) -> None:
        if path in self._directories or self.node(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self.directory(path.parent)
        self._directories[path] = Directory()  # its own name is taken for durable: it is made once, before a run

    def node(self, path: Path) -> FileNode | None:
        found = self._directories.get(path.parent)
        return found.names.get(path.name) if found is not None else None

    def change(self, path: Path, changed: Change) -> None:
        """Names in a directory stand for something else from now on, all at once."""
        directory = self.directory(path)
        for name, node in changed.items():
            if node is None:
                directory.names.pop(name, None)
            else:
                directory.names[name] = node
        directory.unsynced.append(changed)

    def write(self, node: FileNode, offset: int, data: bytes) -> None:
        """Raises OSError (ENOSPC) where the disk is full."""
        if self.full and offset + len(data) > len(node.content):
            self.hits["full"] += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _apply(node.content, offset, data)
        node.unsynced.append((offset, data))

    def truncate(self, node: FileNode, size: int) -> None:
        _apply(node.content, size, None)
        node.unsynced.append((size, None))

    def sync(self, node: FileNode) -> None:
        """Raises OSError (EIO) where that fails; what was to be synced is not, and a later sync says nothing of it."""
        if self.failing_syncs:
            self.failing_syncs -= 1
            self.hits["sync fails"] += 1
            node.unsynced.clear()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for offset, data in node.unsynced:
            _apply(node.durable, offset, data)
        node.unsynced.clear()

    def sync_directory(self, path: Path) -> None:
        directory = self.directory(path)
        directory.durable = dict(directory.names)
        directory.unsynced.clear()

    # -- what happens to it

    def lose_power(self) -> None:
        """Leaves what was synced. Of unsynced writes any may be there, and the last of those in part; of unsynced names
        those up to some moment. Nobody may have anything open when this is called."""
        for directory in self._directories.values():
            kept = self._random.randint(0, len(directory.unsynced))
            for changed in directory.unsynced[:kept]:
                for name, node in changed.items():
                    if node is None:
                        directory.durable.pop(name, None)
                    else:
                        directory.durable[name] = node
            there = dict.fromkeys([*directory.durable.values(), *directory.names.values()])  # in one order always
            for node in there:
                self._lose(node)
            directory.names = dict(directory.durable)
            directory.unsynced.clear()

    def _lose(self, node: FileNode) -> None:
        chance = self._random.choice([0.0, 0.5, 0.9])
        for offset, data in node.unsynced:
            if self._random.random() < chance:
                _apply(node.durable, offset, data)
            elif data and self._random.random() < chance:
                cut = self._random.randint(0, len(data) // SECTOR) * SECTOR
                _apply(node.durable, offset, data[:cut])
                self.hits["torn write"] += 1
            else:
                self.hits["lost write"] += 1
        node.unsynced.clear()
        node.content = bytearray(node.durable)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
