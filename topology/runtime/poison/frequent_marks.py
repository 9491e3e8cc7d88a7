"""After a death of this worker its marks are kept often, and its spouts stay close to them: at the next death they have
to say what was under way, or nobody could be suspected (E7). A part of the keeper.

Must not know who is suspected, nor how a mark is made.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from topology.runtime.commits.group_commit import GroupCommit
from topology.runtime.poison.records import TrialNotes
from topology.runtime.poison.suspects import PartitionEpoch, Task, beyond, under_way
from topology.storage.values import Changes, Loaded, Mark

HURRY_S: Final = 5.0  # how long after a death of this worker commits are hurried at least,
HURRY_MOST_S: Final = 60.0  # and at most, where what was under way then is so still,
HURRIED_S: Final = 0.02  # and between two of them
AHEAD_MAX: Final = 128  # messages that a task may then be ahead of what is kept, when it begins to poll
UNKEPT_MAX: Final = 2 * AHEAD_MAX  # so as many may have been given since: a poll gives at most as many


class MarkReader(Protocol):
    """A spout task, as far as it is seen from here."""

    emitted: int
    holds: list[Callable[[], str]]

    def wake(self) -> None: ...


class CloseMarks:
    """A `keeping.Part`, added after that of the marks. `window`: how many messages of one task may be under way at a
    time."""

    def __init__(
        self, readers: Sequence[MarkReader], group_commit: GroupCommit, notes: TrialNotes, *, window: int
    ) -> None:
        self._marks: dict[tuple[Task, PartitionEpoch], Mark] = {}
        self._readers = readers
        self._keeper = group_commit
        self._notes = notes
        self._ahead_max = min(window, AHEAD_MAX)
        self._hurried = False
        self._next: asyncio.TimerHandle | None = None
        self._unkept = False  # whether the first commit of this life is still to come, which others wait for
        self._reached: dict[int, int] = {}  # reader → messages that it had given when its marks were kept last
        self._given: dict[int, int] = {}  # the same, of the commit under way,
        self._sent: list[Mark] = []  # and its marks
        group_commit.add(self)

    def begin(self, loaded: Loaded) -> None:
        """Takes up what an earlier life has left; what the notes say of that is kept before anything is read."""
        self._marks = {_place(one): one for one in loaded.marks}
        self._unkept = self._notes.waiting
        if loaded.deaths:
            loop = asyncio.get_running_loop()
            self._hurry(loop, loop.time())

    def _hurry(self, loop: asyncio.AbstractEventLoop, since: float) -> None:
        passed_s = loop.time() - since
        self._hurried = passed_s < HURRY_S or (passed_s < HURRY_MOST_S and self._behind())
        if self._hurried:
            self._keeper.want()
            self._next = loop.call_later(HURRIED_S, self._hurry, loop, since)

    def close(self) -> None:
        """Hurries nothing any more."""
        if self._next is not None:
            self._next.cancel()

    def _behind(self) -> bool:
        """Whether something is under way still that was so when this worker died."""
        for row in self._notes.rows.values():
            mark = self._marks.get(((row.component, row.task), (row.partition, row.epoch)))
            if not row.running and mark is not None and under_way(mark) and not beyond(mark.position, row.id):
                return True
        return False

    def holds(self, reader: MarkReader) -> str:
        """Why this one reads nothing; empty where it may."""
        if self._unkept:  # or the next death could not be compared with the last one
            why = "it is not kept yet how far it was when its worker died"
        elif self._hurried and reader.emitted - self._reached.get(id(reader), 0) >= self._ahead_max:
            why = "it is not kept yet how far it is, and its worker has died a moment ago"
        else:
            return ""
        self._keeper.want()
        return self._keeper.why_full or why

    def gather(self, changes: Changes) -> None:
        self._given = {id(one): one.emitted for one in self._readers}
        self._sent = list(changes.marks)

    def kept(self) -> None:
        self._marks.update({_place(one): one for one in self._sent})
        self._reached = self._given
        if self._unkept:
            self._unkept = False
            for one in self._readers:
                one.wake()

    def not_kept(self) -> None:
        """The next commit has it as it is by then."""


def _place(mark: Mark) -> tuple[Task, PartitionEpoch]:
    return (mark.component, mark.task), (mark.partition, mark.epoch)
