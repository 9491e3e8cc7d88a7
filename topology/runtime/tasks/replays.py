"""The messages of one spout task that wait for their replay: when each is due, oldest first.

Must not know spouts, nor how a message is emitted again.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable
from random import Random
from sys import maxsize
from typing import Final, Generic, TypeVar

from topology.runtime.hot.message_tree import MessageTree

BACKOFF_FIRST_S: Final = 0.05
BACKOFF_MAX_S: Final = 30.0
HURRIED_MAX_S: Final = 2.0  # once nothing more comes


M = TypeVar("M", bound=MessageTree)


class Replays(Generic[M]):
    """`again` is called with what is due, oldest first; never after `close`, and between `hold` and `release` only with
    what `alone` is asked for.

    `room` returns how many may be replayed now. `crowded`: more are due than there was room for; call `look` once there
    may be more."""

    def __init__(
        self, random: Random, again: Callable[[list[M]], None], room: Callable[[], int] = lambda: maxsize
    ) -> None:
        self.crowded = False
        self._random = random
        self._again = again
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._later: list[tuple[float, int, M]] = []  # a heap: (due, root, message)
        self._timer: asyncio.Handle | None = None
        self._closed = False
        self._held = False
        self._all = False  # whether nothing is to wait any longer
        self._most_s = BACKOFF_MAX_S

    def __len__(self) -> int:
        return len(self._later)

    def trees(self) -> list[M]:
        """Return the messages that wait, in no promised order."""
        return [tree for _, _, tree in self._later]

    def add(self, tree: M) -> None:
        """The first replay for reasons around it is at once (E8); the others back off, doubling, with jitter."""
        times = tree.own + tree.others - 1
        delay = min(self._most_s, BACKOFF_FIRST_S * 2.0 ** min(times, 20)) * (0.5 + self._random.random() / 2)
        if not tree.own and tree.others == 1:
            delay = 0.0
        heapq.heappush(self._later, (self._loop.time() + delay, tree.root, tree))
        if self._later[0][2] is tree:
            self._set_timer()
        self.look()

    def all_now(self) -> None:
        """Nothing waits any longer: the run drains."""
        self._all = True
        self._all_due()

    def hurry(self) -> None:
        """Make all due now. What fails from now on waits for HURRIED_MAX_S at most: no more messages come."""
        self._most_s = HURRIED_MAX_S
        self._all_due()

    def put(self, trees: Iterable[M]) -> None:
        """These are due now; for what has not been emitted yet."""
        for tree in trees:
            heapq.heappush(self._later, (self._loop.time(), tree.root, tree))
        self._set_timer()
        self.look()

    def hold(self) -> None:
        """Keep what is due waiting until `release`."""
        self._held = True

    def release(self) -> None:
        """Replay what has become due meanwhile."""
        self._held = False
        if self._all:
            self._all_due()
        else:
            self._due()

    def look(self) -> None:
        """There may be more room: emit what is due, at the next turn of the loop."""
        if self.crowded and self._timer is None and not self._closed and not self._held:
            self._timer = self._loop.call_soon(self._due)

    def alone(self, tree: M) -> None:
        """Has this one replayed now."""
        self._later = [later for later in self._later if later[2] is not tree]
        heapq.heapify(self._later)
        self._again([tree])

    def close(self) -> None:
        """Replays nothing any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self._later and not self._closed and not self._held and not self.crowded
        self._timer = self._loop.call_at(self._later[0][0], self._due) if due else None

    def _all_due(self) -> None:
        now = self._loop.time()
        self._later = sorted((now, tree.root, tree) for _, _, tree in self._later)
        self._due()

    def _due(self) -> None:
        if self._held or self._closed:
            return
        now, room = self._loop.time(), self._room()
        due: list[M] = []
        while self._later and self._later[0][0] <= now and len(due) < room:
            due.append(heapq.heappop(self._later)[2])
        self.crowded = bool(self._later) and self._later[0][0] <= now
        self._set_timer()
        self._again(sorted(due, key=lambda one: one.root))
