"""A disk in memory that fails like real disks: it forgets what was not synced, tears writes, fails a sync, runs full.

Processes see all writes of all processes. A loss of power leaves what was synced, and a part of the rest that the seed
determines. Paths are only names; nothing on the real disk is touched. Must not know SQLite or what is in the files.
"""

import errno
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final
from weakref import WeakSet

SECTOR: Final = 512  # bytes that are written as a whole or not at all
ROOT: Final = Path("/simulated")


@dataclass(eq=False)
class FileNode:
    """A file, under any names. `unsynced` are the writes since its last sync: an offset and bytes, or, with None, the
    length that it was cut to."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)


Change = dict[str, FileNode | None]  # names in one directory → what each refers to now; None for nothing


@dataclass
class SimulatedDirectory:
    names: dict[str, FileNode] = field(default_factory=dict)
    durable: dict[str, FileNode] = field(default_factory=dict)
    unsynced: list[Change] = field(default_factory=list)  # in their order


class SimulatedDisk:
    """The disk. While `full`, every file keeps its length; one that `copies` on each write takes none at all, as there
    is no room for the copy. `failing_syncs` is how many of the next syncs fail.

    The writes of a failed sync are lost for good, although processes still see them (F18). `hits` counts the effects of
    faults, by their names.
    """

    def __init__(self, random: Random) -> None:
        self.full = self.copies = False
        self.failing_syncs = 0
        self.hits: Counter[str] = Counter()
        self.boots = 1  # starts of the machine
        self._random = random
        self._directories: dict[Path, SimulatedDirectory] = {ROOT: SimulatedDirectory()}
        self._nodes: WeakSet[FileNode] = WeakSet()  # all that had a name

    def release(self) -> None:
        """Forget the content of all files: dead processes have them open, and are never garbage."""
        for node in self._nodes:
            node.content, node.durable, node.unsynced = bytearray(), bytearray(), []
        self._directories.clear()

    # -- operations of processes

    def directory(self, path: Path) -> SimulatedDirectory:
        try:
            return self._directories[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

    def is_directory(self, path: Path) -> bool:
        return path in self._directories

    def directories_in(self, path: Path) -> list[str]:
        """Return the names of the directories in a directory."""
        return [each.name for each in self._directories if each.parent == path]

    def make_directory(self, path: Path) -> None:
        if path in self._directories or self.node(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self.directory(path.parent)
        self._directories[path] = SimulatedDirectory()  # its own name counts as durable: it is made once, before a run

    def remove_directory(self, path: Path) -> None:
        if self.directory(path).names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        del self._directories[path]

    def node(self, path: Path) -> FileNode | None:
        found = self._directories.get(path.parent)
        return found.names.get(path.name) if found is not None else None

    def change(self, path: Path, changed: Change) -> None:
        """Make names in a directory refer to something else from now on, all at once."""
        directory = self.directory(path)
        for name, node in changed.items():
            if node is None:
                directory.names.pop(name, None)
            else:
                directory.names[name] = node
                self._nodes.add(node)
        directory.unsynced.append(changed)

    def write(self, node: FileNode, offset: int, data: bytes) -> None:
        """Write to a file. Raises OSError (ENOSPC) if the disk is full."""
        if self.full and (self.copies or offset + len(data) > len(node.content)):
            self.hits["full"] += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _apply(node.content, offset, data)
        node.unsynced.append((offset, data))

    def allocate(self, node: FileNode, size: int) -> None:
        """Make a file longer, by bytes of 0. Raises OSError (ENOSPC) if the disk is full."""
        if size > len(node.content):
            if self.full:
                self.hits["full"] += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            _apply(node.content, size, b"")
            node.unsynced.append((size, b""))

    def truncate(self, node: FileNode, size: int) -> None:
        _apply(node.content, size, None)
        node.unsynced.append((size, None))

    def sync(self, node: FileNode) -> None:
        """Sync a file. Raises OSError (EIO) if that fails; then its writes are lost, and a later sync does not report
        it."""
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

    # -- faults

    def lose_power(self) -> None:
        """Leave what was synced. Of unsynced writes any may remain, and the last of those in part; of unsynced names,
        those up to some moment. No process may have anything open when this is called."""
        self.boots += 1
        for directory in self._directories.values():
            kept = self._random.randint(0, len(directory.unsynced))
            for changed in directory.unsynced[:kept]:
                for name, node in changed.items():
                    if node is None:
                        directory.durable.pop(name, None)
                    else:
                        directory.durable[name] = node
            nodes = dict.fromkeys([*directory.durable.values(), *directory.names.values()])  # always in one order
            for node in nodes:
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
