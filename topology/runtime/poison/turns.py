"""Turns: at most one worker of a run has a trial under way (`trials`): who decides it, and who asks.

Pure. Must not know messages, processes or sockets.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

# How long all workers have to run before a turn: one that has died of a message of its own reads that again at once,
# and would die of it while another one's message is tried.
SETTLED_S: Final = 1.0


class TrialTurns(Protocol):
    """Whose turn it is for a trial, over all workers of the run, as one of them sees it."""

    def want(self, granted: Callable[[], None]) -> None:
        """`granted` is called once it is this worker's turn, at once or later."""

    def over(self) -> None:
        """It is not any more."""


class Alone:
    """Turns of a run that has one worker."""

    def want(self, granted: Callable[[], None]) -> None:
        granted()

    def over(self) -> None:
        pass


class TurnsOfAll:
    """Owners ask and give back; `grant` is called with the one whose turn it is, in the order in which they asked.

    `ready`: whether all workers run, and everybody knows of every death. A turn begins only then, and SETTLED_S after
    the last of them has `begun`. Call `look` now and then, as nobody tells when that has become so.
    """

    def __init__(self, grant: Callable[[int], None], ready: Callable[[], bool], now: Callable[[], float]) -> None:
        self._grant = grant
        self._ready = ready
        self._now = now
        self._begun_at = now()
        self._waiting: deque[int] = deque()  # one entry an owner, so as many as there are workers
        self._holder: int | None = None

    def of(self, owner: int) -> "TurnsOfOne":
        """The turns of one owner that lives in the same process."""
        return TurnsOfOne(lambda: self.wanted(owner), lambda: self.over(owner))

    def begun(self) -> None:
        """A worker's tasks are started."""
        self._begun_at = self._now()

    def wanted(self, owner: int) -> None:
        """This one asks for its turn."""
        if owner not in self._waiting:
            self._waiting.append(owner)
        self.look()

    def over(self, owner: int) -> None:
        """Its turn is over, or it does not want one any more."""
        if owner in self._waiting:
            self._waiting.remove(owner)
        if owner == self._holder:
            self._holder = None
        self.look()

    def look(self) -> None:
        """Begins the next turn, if it can."""
        if self._holder is None and self._waiting and self._ready() and self._now() - self._begun_at >= SETTLED_S:
            self._holder = self._waiting.popleft()
            self._grant(self._holder)


class TurnsOfOne:
    """`TrialTurns` of one worker of several: `asks` and `gives_back` tell whoever sees all, who calls `granted`."""

    def __init__(self, asks: Callable[[], None], gives_back: Callable[[], None]) -> None:
        self._asks = asks
        self._gives_back = gives_back
        self._granted: Callable[[], None] = lambda: None

    def want(self, granted: Callable[[], None]) -> None:
        self._granted = granted
        self._asks()

    def granted(self) -> None:
        """It is this worker's turn."""
        self._granted()

    def over(self) -> None:
        self._gives_back()
