"""The files that are done, by their marks. Small sets are in the task's notes, and larger ones in files of the run.

The runtime remembers the positions of the last 1,000 files that are done; older ones are known here alone. Must not
know what a file is.
"""

import base64
import binascii
import os
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from topology.codes.startup import DAMAGED_FILE_LIST
from topology.components import Task
from topology.errors import NotesAway, StartError
from topology.filesystem.sync import sync_file, sync_folder

NOTED_MAX: Final = 900  # marks in the notes, of all tasks: 11 characters each
NOTED_LEAST: Final = 50  # marks in the notes of one task, however many tasks there are
TASKS_MAX: Final = 1_000  # notes of tasks that are looked for
MARK_BYTES: Final = 8
NONE: Final[frozenset[int]] = frozenset()


class FinishedFiles:
    """The marks of one task, and all that other tasks had noted when it began. About 70 bytes of memory per file.

    `noted` and `filed` are the two ways to keep more; `fits` says which one it is. Raises StartError for notes that are
    damaged.
    """

    def __init__(self, task: Task) -> None:
        self._task, self._name = task, f"finished files of {task.known_as or task.component}"
        self._most = max(NOTED_LEAST, NOTED_MAX // task.tasks)
        self._own: set[int] = set()
        self._others: set[int] = set()
        self._is_filed = False
        for index in range(TASKS_MAX):
            text = task.notes.get(self._note(index))
            if text is None and index >= task.tasks:
                break
            marks = self._read(index, text or "")
            (self._own if index == task.index else self._others).update(marks)

    def __contains__(self, mark: int) -> bool:
        return mark in self._own or mark in self._others

    def own(self) -> frozenset[int]:
        """Return the marks of this task that are in its notes."""
        return NONE if self._is_filed else frozenset(self._own)

    def fits(self, more: int, gone: Iterable[int]) -> bool:
        """Return True if so many more marks fit into the notes. If there is no room, marks in `gone` are forgotten:
        those of files that are no longer there."""
        if not self._is_filed and len(self._own) + more > self._most:
            self._own.difference_update(gone)
        return not self._is_filed and len(self._own) + more <= self._most

    def noted(self, marks: Iterable[int]) -> bool:
        """Keep marks in the notes. Return False if other notes have taken the room. Blocks for a note's fsync; call it
        on the loop. Raises NotesAway."""
        kept = self._own | {*marks}
        try:
            self._task.notes.set(self._note(self._task.index), _packed(kept))
        except NotesAway:
            raise
        except StartError:
            return False
        self._own = kept
        return True

    def filed(self, marks: Iterable[int]) -> None:
        """Keep marks in a file of the run. Blocks for an fsync. Raises OSError, StartError."""
        more = {*marks}
        path = self._path(self._task.index)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size % MARK_BYTES:  # a write that a crash has cut
                os.ftruncate(descriptor, size - size % MARK_BYTES)
            content = array("Q", more if self._is_filed else self._own | more).tobytes()
            while content:
                content = content[os.write(descriptor, content) :]
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(path.parent)
        sync_folder(path.parent.parent)
        self._own |= more

    def now_filed(self) -> None:
        """Note that the marks are in a file from now on; after the first `filed`. Blocks for a note's fsync; call it on
        the loop. Raises NotesAway."""
        if not self._is_filed:
            self._task.notes.set(self._note(self._task.index), FILED)
            self._is_filed = True

    def _note(self, index: int) -> str:
        return f"{self._name}, task {index}"

    def _path(self, index: int) -> Path:
        return self._task.folder / (self._task.known_as or self._task.component) / f"finished-{index}"

    def _read(self, index: int, text: str) -> Iterable[int]:
        try:
            if text != FILED:
                return _unpacked(base64.b64decode(text, validate=True))
            self._is_filed |= index == self._task.index
            return _unpacked(self._path(index).read_bytes())
        except (OSError, binascii.Error) as error:
            text = f"the list of {self._note(index)!r} is damaged: {error}"
            raise StartError(text, code=DAMAGED_FILE_LIST) from error


FILED: Final = "in a file"


def _packed(marks: Iterable[int]) -> str:
    return base64.b64encode(array("Q", marks).tobytes()).decode()


def _unpacked(content: bytes) -> Iterable[int]:
    marks = array("Q")
    marks.frombytes(content[: len(content) - len(content) % MARK_BYTES])
    return marks
