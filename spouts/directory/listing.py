"""The files that a glob pattern matches, as they are at the moment. Knows names and the system's status of a file.

Must not know what a file contains, nor which of them are done.
"""

import glob
import heapq
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

CANDIDATES_MAX: Final = 10_000  # files that one look returns, the first by name


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it was found.

    name  Its path below the pattern's root, as a text.
    mark  A number of 64 bits that no other file has, nor this one once it has changed.
    """

    name: str
    path: str
    inode: int
    size: int
    changed_ns: int
    mark: int

    def is_at(self, status: os.stat_result) -> bool:
        """Return True if this status is that of this file, unchanged."""
        return (self.inode, self.size, self.changed_ns) == (status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class FoundFiles:
    """The result of one look.

    files   The files that are wanted, by name, 10,000 at most.
    done    Of the files that are done and still there: all marks.
    left    Of those: 10,000 files at most.
    """

    files: list[FoundFile]
    done: set[int]
    left: list[FoundFile]


def root_of(pattern: str) -> str:
    """Return the folder that a pattern begins with: its longest beginning without a wildcard."""
    folder = os.path.dirname(pattern)
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    return glob_unescaped(folder) or os.curdir


def glob_unescaped(path: str) -> str:
    """Return the path itself of a part of a pattern that has no wildcard."""
    return path.replace("[[]", "[").replace("[*]", "*").replace("[?]", "?")


class Listing:
    """The files of one pattern that belong to one of `tasks` tasks. `but`: a folder whose files are not looked at.

    Methods block. Raises OSError if the root cannot be read.
    """

    def __init__(self, pattern: str, *, index: int, tasks: int, but: str | None) -> None:
        self.root = root_of(pattern)
        self._pattern, self._index, self._tasks = pattern, index, tasks
        self._but = os.path.join(os.path.realpath(but), "") if but is not None else None

    def look(self, is_done: Callable[[int], bool], is_wanted: Callable[[int], bool]) -> FoundFiles:
        """Return the files that are there. Both functions get a mark; `is_wanted` that of a file that is not done."""
        with os.scandir(self.root):  # the glob is silent about a folder that is missing
            pass
        done, left = set[int](), list[FoundFile]()

        def wanted() -> Iterator[FoundFile]:
            for file in self._mine():
                if is_done(file.mark):
                    done.add(file.mark)
                    if len(left) < CANDIDATES_MAX:
                        left.append(file)
                elif is_wanted(file.mark):
                    yield file

        files = heapq.nsmallest(CANDIDATES_MAX, wanted(), key=lambda file: file.name)
        return FoundFiles(files, done, left)

    def _mine(self) -> Iterator[FoundFile]:
        for path in glob.iglob(self._pattern, recursive=True):
            name = self._name(path)
            if self._tasks > 1 and xxh3_64_intdigest(name.encode()) % self._tasks != self._index:
                continue
            try:
                status = os.stat(path)
            except OSError:  # gone meanwhile, or a link that leads nowhere
                continue
            if not stat.S_ISREG(status.st_mode) or self._is_left_out(path):
                continue
            facts = status.st_ino, status.st_size, status.st_mtime_ns
            yield FoundFile(name, path, *facts, xxh3_64_intdigest(json.dumps([name, *facts]).encode()))

    def _is_left_out(self, path: str) -> bool:
        return self._but is not None and os.path.realpath(path).startswith(self._but)

    def _name(self, path: str) -> str:
        name = os.path.relpath(path, self.root)
        try:
            name.encode()
        except UnicodeEncodeError:  # bytes that are no UTF-8: two such names must not become one
            content = os.fsencode(name)
            return f"{content.decode(errors='replace')} {xxh3_64_hexdigest(content)}"
        return name
