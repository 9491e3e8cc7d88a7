"""Decisions about worker processes: which one is healthy, when a dead one starts again, and when it has died too often.

Pure: times come in, words and numbers go out. Must not know processes, sockets or a plan.
"""

import enum
from collections import deque
from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 60.0  # seconds in which restarts are counted
BACKOFF_S: Final = 0.1  # seconds before a worker's second restart within the window; the first is at once
BACKOFF_MAX_S: Final = 5.0
# seconds before the first new attempt if something outside is missing; doubled up to BACKOFF_MAX_S
OUTSIDE_S: Final = 0.5

LOOK_S: Final = 0.25  # seconds between two looks at all workers
PAUSED_S: Final = 1.0  # seconds: a look that is later than this shows that the supervisor itself was paused
SILENT_S: Final = 3.0  # seconds without a beat after which a worker counts as stuck
# seconds before its tasks run: an interpreter has to start, and an import may hold up all its threads
STARTING_S: Final = 30.0
BLOCKED_S: Final = 5.0  # seconds for which a loop is blocked before that is reported
AGAIN_S: Final = 30.0  # seconds between two reports of it


class Restarts:
    """The budget of restarts, and the back-off. `total` counts the deaths of the whole run."""

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._deaths: deque[tuple[float, int]] = deque()
        # worker → when it was last held up by something outside, and how often
        self._outside: dict[int, tuple[float, int]] = {}

    def died(self, worker: int, now: float, *, outside: bool = False) -> float | None:
        """Note a death. Return after how many seconds the worker may start again, or None if it may not.

        `outside` is True if it could not start for lack of space or descriptors. Such an attempt is repeated and not
        counted.
        """
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
        before = sum(other == worker for _, other in self._deaths) - 1
        return min(BACKOFF_S * 2.0 ** min(before - 1, 32), BACKOFF_MAX_S) if before else 0.0

    def verdict(self, why: str) -> str:
        """Return the sentence for the death that was one too many. `why` is how that worker died, "was killed by
        SIGSEGV"."""
        worker = self._deaths[-1][1]
        count = len(self._deaths)
        if count == 1:
            return f"worker {worker} {why}, and max_restarts = {self._most} allows no restart"
        if all(other == worker for _, other in self._deaths):
            return f"worker {worker} died {count} times within a minute; the last time it {why}"
        return f"workers died {count} times within a minute; the last one, worker {worker}, {why}"


class Health(enum.Enum):
    """The result of a look at a worker."""

    WELL = enum.auto()
    SLOW = enum.auto()  # its loop is blocked, and it is time to report it
    SILENT = enum.auto()  # no beat: kill it
    BLOCKED = enum.auto()  # its loop is blocked for longer than allowed: kill it


@dataclass
class BeatRecord:
    """The known beats of one worker. Times are the supervisor's."""

    beaten_at: float  # the last beat, or since when one is expected
    turned_at: float  # when its loop was known to turn last
    reported_at: float | None = None
    started: bool = False  # only a worker that has started its tasks is stuck, or blocked for too long
    blocked_s: float = 0.0
    where: str = ""


class Vigil:
    """Judge the beats of all workers. Call `look` each LOOK_S. A late call shows that the supervisor itself was paused;
    then all workers get their full time again (F4, F5)."""

    def __init__(self, blocked_timeout_s: float, now: float) -> None:
        self.pauses = 0
        self._blocked_timeout_s = blocked_timeout_s
        self._looked_at = now
        self._pulses: dict[int, BeatRecord] = {}

    def expect(self, worker: int, now: float) -> None:
        """Note that a process was started for this worker."""
        self._pulses[worker] = BeatRecord(now, now)

    def forget(self, worker: int) -> None:
        """Note that it has ended."""
        self._pulses.pop(worker, None)

    def started(self, worker: int, now: float) -> None:
        """Note that its tasks run from now on, so its loop must turn."""
        pulse = self._pulses[worker]
        pulse.started, pulse.beaten_at, pulse.turned_at = True, now, now

    def beat(self, worker: int, blocked_s: float, where: str, now: float) -> None:
        """Note a beat of the worker."""
        pulse = self._pulses[worker]
        pulse.beaten_at = now
        if not blocked_s:
            pulse.turned_at = now
        pulse.where = where
        # Its report counts only for the time in which it was watched: it may have been paused, together with the
        # supervisor.
        pulse.blocked_s = min(blocked_s, now - pulse.turned_at)

    def look(self, now: float) -> list[tuple[int, Health, str]]:
        """Return the workers that are not well, with a sentence: "its loop has been blocked for 7 s, in …"."""
        late_s = now - self._looked_at - LOOK_S
        self._looked_at = now
        if late_s > PAUSED_S:
            self.pauses += 1
            for pulse in self._pulses.values():
                pulse.beaten_at = pulse.turned_at = now
                pulse.blocked_s = 0.0
            return []
        found = ((worker, *self._judged(pulse, now)) for worker, pulse in self._pulses.items())
        return [judged for judged in found if judged[1] is not Health.WELL]

    def blocked(self) -> dict[int, str]:
        """Return worker → "its loop has been blocked for 7 s, in …", for workers whose last beat said so."""
        return {worker: _described(pulse) for worker, pulse in self._pulses.items() if _is_blocked(pulse)}

    def _judged(self, pulse: BeatRecord, now: float) -> tuple[Health, str]:
        silent_s = now - pulse.beaten_at
        if silent_s > (SILENT_S if pulse.started else STARTING_S):
            return Health.SILENT, f"it gave no sign of life for {silent_s:.1f} s"
        if not _is_blocked(pulse):
            pulse.reported_at = None
            return Health.WELL, ""
        text = _described(pulse)
        if pulse.blocked_s > self._blocked_timeout_s:
            return Health.BLOCKED, text
        if pulse.reported_at is not None and now - pulse.reported_at < AGAIN_S:
            return Health.WELL, ""
        pulse.reported_at = now
        return Health.SLOW, text


def _is_blocked(pulse: BeatRecord) -> bool:
    return pulse.started and pulse.blocked_s > BLOCKED_S


def _described(pulse: BeatRecord) -> str:
    return f"its loop has been blocked for {pulse.blocked_s:.0f} s" + (f", in {pulse.where}" if pulse.where else "")
