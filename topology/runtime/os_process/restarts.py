"""Decisions about worker processes: whether one lives, when one that has died begins again, and when it is too often.

Pure: times come in, words and numbers go out. Must not know processes, sockets or a plan.
"""

import enum
from collections import deque
from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 60.0  # in which restarts are counted
BACKOFF_S: Final = 0.1  # before a worker's second restart within the window; the first is at once
BACKOFF_MAX_S: Final = 5.0
OUTSIDE_S: Final = 0.5  # before the first new try where something outside is away; doubled up to the same

LOOK_S: Final = 0.25  # between two looks at all workers
PAUSED_S: Final = 1.0  # a look that is later than this: the supervisor itself stood still
SILENT_S: Final = 3.0  # without a beat; then a worker hangs
STARTING_S: Final = 30.0  # before its tasks run: an interpreter has to start, and an import may hold up all its threads
BLOCKED_S: Final = 5.0  # of a loop; then it is worth a word,
AGAIN_S: Final = 30.0  # and another one after each of these


class Restarts:
    """The budget of restarts, and the back-off. `total` counts the deaths of the whole run."""

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._deaths: deque[tuple[float, int]] = deque()
        self._outside: dict[int, tuple[float, int]] = {}  # worker → when it was last held up so, and how often

    def died(self, worker: int, now: float, *, outside: bool = False) -> float | None:
        """Takes note of a death. Returns after how many seconds the worker may begin again; None where it may not.
        `outside`: it could not begin for want of room or descriptors. That is waited for, and spends nothing."""
        if outside:
            at, times = self._outside.get(worker, (now, 0))
            times = times if now - at < WINDOW_S else 0
            self._outside[worker] = now, times + 1
            return min(OUTSIDE_S * 2.0 ** min(times, 32), BACKOFF_MAX_S)
        self.total += 1
        while self._deaths and now - self._deaths[0][0] >= WINDOW_S:
            self._deaths.popleft()
        self._deaths.append((now, worker))
        if len(self._deaths) > self._most:
            return None
        before = sum(one == worker for _, one in self._deaths) - 1
        return min(BACKOFF_S * 2.0 ** min(before - 1, 32), BACKOFF_MAX_S) if before else 0.0

    def verdict(self, why: str) -> str:
        """The sentence for the death that was one too many. `why`: how that worker died, "was killed by SIGSEGV"."""
        worker = self._deaths[-1][1]
        count = len(self._deaths)
        if count == 1:
            return f"worker {worker} {why}, and max_restarts = {self._most} allows no restart"
        if all(one == worker for _, one in self._deaths):
            return f"worker {worker} died {count} times within a minute; the last time it {why}"
        return f"workers died {count} times within a minute; the last one, worker {worker}, {why}"


class Health(enum.Enum):
    """What a look finds."""

    WELL = enum.auto()
    SLOW = enum.auto()  # its loop is blocked, and it is time to say so
    SILENT = enum.auto()  # no beat: kill it
    BLOCKED = enum.auto()  # its loop is blocked for longer than allowed: kill it


@dataclass
class BeatRecord:
    """What is known of one worker's beats. Times are the supervisor's."""

    beaten_at: float  # the last beat, or since when one is expected
    turned_at: float  # when its loop was known to turn last
    told_at: float | None = None
    started: bool = False  # only a worker that has started its tasks hangs, or is blocked for too long
    blocked_s: float = 0.0
    where: str = ""


class Vigil:
    """Judges the beats of all workers. Call `look` each LOOK_S: one that comes late tells that the supervisor was
    paused itself, and then everybody is given their time anew (F4, F5)."""

    def __init__(self, blocked_timeout_s: float, now: float) -> None:
        self.pauses = 0
        self._blocked_timeout_s = blocked_timeout_s
        self._looked_at = now
        self._pulses: dict[int, BeatRecord] = {}

    def expect(self, worker: int, now: float) -> None:
        """A process was begun for this worker."""
        self._pulses[worker] = BeatRecord(now, now)

    def forget(self, worker: int) -> None:
        """It has ended."""
        self._pulses.pop(worker, None)

    def started(self, worker: int, now: float) -> None:
        """Its tasks run from now on, so its loop has to turn."""
        pulse = self._pulses[worker]
        pulse.started, pulse.beaten_at, pulse.turned_at = True, now, now

    def beat(self, worker: int, blocked_s: float, where: str, now: float) -> None:
        """The worker says that it lives."""
        pulse = self._pulses[worker]
        pulse.beaten_at = now
        if not blocked_s:
            pulse.turned_at = now
        pulse.where = where
        # What it says counts only as far as it was watched: it may have been paused, together with the supervisor.
        pulse.blocked_s = min(blocked_s, now - pulse.turned_at)

    def look(self, now: float) -> list[tuple[int, Health, str]]:
        """Who is not well, and how so: "its loop has been blocked for 7 s, in …"."""
        late_s = now - self._looked_at - LOOK_S
        self._looked_at = now
        if late_s > PAUSED_S:
            self.pauses += 1
            for pulse in self._pulses.values():
                pulse.beaten_at = pulse.turned_at = now
                pulse.blocked_s = 0.0
            return []
        found = ((worker, *self._judged(pulse, now)) for worker, pulse in self._pulses.items())
        return [one for one in found if one[1] is not Health.WELL]

    def blocked(self) -> dict[int, str]:
        """worker → "its loop has been blocked for 7 s, in …", of those that the last beat said so of."""
        return {worker: _described(pulse) for worker, pulse in self._pulses.items() if _is_blocked(pulse)}

    def _judged(self, pulse: BeatRecord, now: float) -> tuple[Health, str]:
        silent_s = now - pulse.beaten_at
        if silent_s > (SILENT_S if pulse.started else STARTING_S):
            return Health.SILENT, f"it gave no sign of life for {silent_s:.1f} s"
        if not _is_blocked(pulse):
            pulse.told_at = None
            return Health.WELL, ""
        text = _described(pulse)
        if pulse.blocked_s > self._blocked_timeout_s:
            return Health.BLOCKED, text
        if pulse.told_at is not None and now - pulse.told_at < AGAIN_S:
            return Health.WELL, ""
        pulse.told_at = now
        return Health.SLOW, text


def _is_blocked(pulse: BeatRecord) -> bool:
    return pulse.started and pulse.blocked_s > BLOCKED_S


def _described(pulse: BeatRecord) -> str:
    return f"its loop has been blocked for {pulse.blocked_s:.0f} s" + (f", in {pulse.where}" if pulse.where else "")
