"""Turns: at most one worker of a run has a trial in progress (`trials`). Here a turn is requested and granted.

Pure. Must not know messages, processes or sockets.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

# Seconds for which all workers have to run before a turn. A worker that died of a message of its own reads it again at
# once, and would otherwise die of it while another worker's message is tried.
SETTLED_S: Final = 1.0


class TrialTurns(Protocol):
    """Turns for trials, over all workers of the run, as one worker sees them."""

    def want(self, granted: Callable[[], None]) -> None:
        """Request a turn. `granted` is called once it is this worker's turn, at once or later."""

    def over(self) -> None:
        """End this worker's turn."""


class Alone:
    """Turns of a run that has one worker."""

    def want(self, granted: Callable[[], None]) -> None:
        granted()

    def over(self) -> None:
        pass


class TurnsOfAll:
    """Turns of all owners. They request turns and give them back. `grant` is called with the owner whose turn it is, in
    the order of the requests.

    `ready` returns True if all workers run and each knows of every death. A turn begins only then, and SETTLED_S after
    the last worker has `begun`. Call `look` now and then, because nothing reports when `ready` changes.
    """

    def __init__(self, grant: Callable[[int], None], ready: Callable[[], bool], now: Callable[[], float]) -> None:
        self._grant = grant
        self._ready = ready
        self._now = now
        self._started_at = now()
        self._waiting: deque[int] = deque()  # one entry per owner, so at most as many as there are workers
        self._holder: int | None = None

    def of(self, owner: int) -> "TurnsOfOne":
        """Return the turns of one owner that lives in the same process."""
        return TurnsOfOne(lambda: self.wanted(owner), lambda: self.over(owner))

    def begun(self) -> None:
        """Note that a worker's tasks have started."""
        self._started_at = self._now()

    def wanted(self, owner: int) -> None:
        """Note that this owner requests its turn."""
        if owner not in self._waiting:
            self._waiting.append(owner)
        self.look()

    def over(self, owner: int) -> None:
        """Note that the owner's turn is over, or that it needs none any more."""
        if owner in self._waiting:
            self._waiting.remove(owner)
        if owner == self._holder:
            self._holder = None
        self.look()

    def look(self) -> None:
        """Begin the next turn, if possible."""
        if self._holder is None and self._waiting and self._ready() and self._now() - self._started_at >= SETTLED_S:
            self._holder = self._waiting.popleft()
            self._grant(self._holder)


class TurnsOfOne:
    """`TrialTurns` of one of several workers. `asks` and `gives_back` tell the supervisor, which calls `granted`."""

    def __init__(self, asks: Callable[[], None], gives_back: Callable[[], None]) -> None:
        self._asks = asks
        self._gives_back = gives_back
        self._granted: Callable[[], None] = lambda: None

    def want(self, granted: Callable[[], None]) -> None:
        self._granted = granted
        self._asks()

    def granted(self) -> None:
        """Begin this worker's turn."""
        self._granted()

    def over(self) -> None:
        self._gives_back()
