"""The due times of one task's timers, so that each of its firings has a time, and so an identity, of its own (B15).

Remembers how far the clock had come when timers fired, over restarts too. Must not know queues, trees or bolts.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from topology.records import Record
from topology.runtime.state.value import due_of
from topology.storage.encoding.fired_timers import HaveFired, have_fired, marks_of
from topology.storage.values import Mark


class Due(Record):
    """A timer that is due, as an input of its task."""

    key: bytes
    name: str
    due: int  # microseconds since 1970, UTC


class DueTimes:
    """The due times of one task's timers, in microseconds since 1970, UTC. `utc` returns the time of the wall clock."""

    def __init__(self, task: int, known_as: str, utc: Callable[[], datetime]) -> None:
        self._task, self._known_as, self._utc = task, known_as, utc
        self._past = 0  # the due time of the last timer that was set for a time in the past
        self._latest = 0  # the latest due time of all timers that have fired, in any life of the task
        self._stepped_back = 0  # timers that were set for a time before `_latest`, after the clock was stepped back
        self._kept = self._sent = HaveFired()  # the last two as the store has them, and as the current commit has them

    def now(self) -> int:
        return due_of(self._utc())

    def due(self, at: int, before: int | None) -> int:
        """Return when a timer that is set for `at` is due. `before` is the time for which its key has it already.

        A time in the past becomes now, each at another microsecond: the timer may have fired for its time, and what it
        emits again must not have the same identity. The same holds for a time that is in the future only because the
        clock was stepped back.
        """
        now = max(self.now(), self._past)
        if at > now:
            self._stepped_back += at <= self._latest
            return at if at > self._latest else at + self._stepped_back
        if before is not None and before <= now:
            return before  # a due timer moves no more; otherwise inputs that set it again and again would delay it
        self._past = now + (now in (self._past, self._latest))
        return self._past

    def fired(self, due: int) -> None:
        """Take note that a timer fires."""
        self._latest = max(self._latest, due)

    # -- what is kept

    @property
    def have_fired(self) -> HaveFired:
        """The progress of this task's timers now."""
        return HaveFired(self._latest, self._stepped_back)

    def resume(self, marks: Iterable[Mark]) -> None:
        """Take up what earlier lives of any task have left: the clock may have been stepped back since (B15)."""
        self._kept = self._sent = fired = have_fired(marks, self._known_as)
        self._latest, self._stepped_back = fired

    def gather(self) -> list[Mark]:
        """Return what the next commit is to store; nothing if nothing has fired since the last one."""
        self._sent = HaveFired(self._latest, self._stepped_back)
        return marks_of(self._known_as, self._task, self._sent) if self._sent != self._kept else []

    def kept(self) -> None:
        """Take note that what `gather` returned is durable."""
        self._kept = self._sent
