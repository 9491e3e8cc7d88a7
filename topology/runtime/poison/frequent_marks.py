"""After a death of this worker: store its marks often, and keep its spouts close to them (E7). A part of the group
commit.

At the next death, the marks must say what was in flight; otherwise no message could be suspected. Must not know which
messages are suspects, nor how a mark is made.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.poison.records import TrialNotes
from topology.runtime.poison.suspects import PartitionEpoch, Task, beyond, under_way
from topology.runtime.tasks.spout_task import SpoutTask
from topology.storage.values import Changes, Loaded, Mark

HURRY_S: Final = 5.0  # seconds after a death of this worker for which commits are hurried at least
HURRY_MOST_S: Final = 60.0  # seconds for which they are hurried at most, if what was in flight at the death still is
HURRIED_S: Final = 0.02  # seconds between two hurried commits
AHEAD_MAX: Final = 128  # messages that a task may then be ahead of its stored mark when it begins to poll
# messages that may have been emitted since the mark: one poll returns at most AHEAD_MAX more
UNKEPT_MAX: Final = 2 * AHEAD_MAX


class CloseMarks:
    """A `NotedPart`; add it after the part of the marks. `window` is how many messages of one task may be
    in flight."""

    def __init__(
        self, readers: Sequence[SpoutTask], checkpoints: WorkerCheckpoints, notes: TrialNotes, *, window: int
    ) -> None:
        self._marks: dict[tuple[Task, PartitionEpoch], Mark] = {}
        self._readers = readers
        self._checkpoints = checkpoints
        self._notes = notes
        self._ahead_max = min(window, AHEAD_MAX)
        self._hurried = False
        self._next: asyncio.TimerHandle | None = None
        self._unkept = False  # True until the first commit of this life, which others wait for
        self._reached: dict[int, int] = {}  # reader → messages that it had emitted when its marks were stored last
        self._given: dict[int, int] = {}  # the same for the commit in progress
        self._sent: list[Mark] = []  # the marks of the commit in progress
        checkpoints.add(self)

    def begin(self, loaded: Loaded) -> None:
        """Load what an earlier life left. Its notes are stored again before anything is read."""
        self._marks = {_place(mark): mark for mark in loaded.marks}
        self._unkept = self._notes.waiting
        if loaded.deaths:
            loop = asyncio.get_running_loop()
            self._hurry(loop, loop.time())

    def _hurry(self, loop: asyncio.AbstractEventLoop, since: float) -> None:
        passed_s = loop.time() - since
        self._hurried = passed_s < HURRY_S or (passed_s < HURRY_MOST_S and self._behind())
        if self._hurried:
            self._checkpoints.want()
            self._next = loop.call_later(HURRIED_S, self._hurry, loop, since)

    def close(self) -> None:
        """Stop hurrying commits."""
        if self._next is not None:
            self._next.cancel()

    def _behind(self) -> bool:
        """Return True if something is still in flight that was in flight when this worker died."""
        for row in self._notes.rows.values():
            mark = self._marks.get(((row.component, row.task), (row.partition, row.epoch)))
            if not row.running and mark is not None and under_way(mark) and not beyond(mark.position, row.id):
                return True
        return False

    def holds(self, reader: SpoutTask) -> str:
        """Return the reason why this spout task must not read, or an empty text."""
        if self._unkept:  # otherwise the next death could not be compared with the last one
            why = "its position at the death of its worker is not stored yet"
        elif self._hurried and reader.counters.emitted - self._reached.get(id(reader), 0) >= self._ahead_max:
            why = "its position is not stored yet, and its worker has died a moment ago"
        else:
            return ""
        self._checkpoints.want()
        return self._checkpoints.why_full or why

    def gather(self, changes: Changes) -> None:
        self._given = {id(reader): reader.counters.emitted for reader in self._readers}
        self._sent = list(changes.marks)

    def kept(self) -> None:
        self._marks.update({_place(mark): mark for mark in self._sent})
        self._reached = self._given
        if self._unkept:
            self._unkept = False
            for reader in self._readers:
                reader.wake()

    def not_kept(self) -> None:
        """Do nothing: the next commit has the marks as they are by then."""


def _place(mark: Mark) -> tuple[Task, PartitionEpoch]:
    return (mark.component, mark.task), (mark.partition, mark.epoch)
