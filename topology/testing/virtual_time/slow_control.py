"""Between the supervisor of a crashing run and its workers: orders and answers take a moment, each its own.

Orders to one worker arrive in order, as over a socket. Must not know when a worker dies, nor what takes its place.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from random import Random
from typing import Any, Final

from topology.runtime.poison.trials import Fallen
from topology.testing.virtual_time.mortal_worker import MortalWorker

ORDER_S: Final = 0.005  # that an order takes at most, from the supervisor to a worker; so does an answer
LATE_S: Final = 0.5  # that a late order takes at most
AGAIN_S: Final = 0.5  # seconds between the two times that an answer arrives, at most


class SlowControl:
    """Orders and answers. `outside` is a context of no worker's life. `workers` are those that live. `ends` returns
    True once the run ends; then only orders and answers with `at_end` arrive. `order_s` is how long one takes at
    most. `late` is the share of the orders that take up to LATE_S. `twice` is the share of the answers that arrive once
    more: as a late answer to what was given up does, the second one may meet another question."""

    def __init__(self, outside: Context, random: Random, workers: Sequence[Any], ends: Callable[[], bool]) -> None:
        self.order_s, self.late, self.twice = ORDER_S, 0.0, 0.0
        self._loop = asyncio.get_running_loop()
        self._outside, self._random, self._workers, self._ends = outside, random, workers, ends
        self._due: dict[int, float] = {}  # owner → when the order that it was given last arrives

    def tell(self, worker: MortalWorker, order: Callable[[], Any], *, at_end: bool = False) -> None:
        """Have the order arrive a little later, after those that were given before."""
        is_late = self.late and self._random.random() < self.late
        after_s = self._random.uniform(0, LATE_S) if is_late else self.takes_s()
        at = max(self._due.get(worker.owner, 0.0) + 1e-6, self._loop.time() + after_s)
        self._due[worker.owner] = at
        life = worker.life  # a late order may come when the run is over, and the worker has let go of all that it had

        def arrives() -> None:
            if at_end or not self._ends():  # at the end the dead are buried
                life.reach(order)

        self._loop.call_at(at, arrives, context=self._outside)  # of no worker: one that dies takes no order with it

    def hear(self, worker: MortalWorker, say: Callable[[], object], *, at_end: bool = False) -> None:
        """Have what a worker says arrive a little later, unless it dies meanwhile."""

        def arrives() -> None:
            if (at_end or not self._ends()) and worker in self._workers:
                say()

        after_s = self.takes_s()
        self._loop.call_later(after_s, arrives, context=self._outside)
        if self.twice and self._random.random() < self.twice:
            self._loop.call_later(after_s + self._random.uniform(0, AGAIN_S), arrives, context=self._outside)

    def grant(self, owner: int) -> None:
        """Tell a worker that it is its turn to try messages."""
        worker = next(other for other in self._workers if other.owner == owner)
        self.tell(worker, partial(worker.life.call, worker.trials.turns.granted))

    def takes_s(self) -> float:
        """Return the seconds that something takes."""
        return self._random.uniform(0, self.order_s)


class Generations:
    """The generations of a run. `number` is the present one; each worker hears of it at its own time. `give_up` is
    called with the reason for the next one, before it tells any worker."""

    def __init__(self, control: SlowControl, workers: Sequence[Any], give_up: Callable[[str], None]) -> None:
        self.number = 1
        self._control, self._workers, self._give_up = control, workers, give_up
        self._unanswered: set[tuple[int, int]] = set()  # (owner, generation that `_tell` has told it to begin)

    @property
    def settled(self) -> bool:
        """Return True if all that live are in the present generation."""
        return not self._unanswered

    def left(self, owner: int) -> None:
        """Take note that this worker is dead."""
        self._unanswered = {pair for pair in self._unanswered if pair[0] != owner}

    def begin(self, why: str, fallen: Fallen | None = None) -> None:
        """Tell all that live to begin the next one. `fallen`: the dead worker, if one has died."""
        self._give_up(why)
        self.number += 1
        for worker in self._workers:
            self._tell(worker, self.number, why, fallen)

    def _tell(self, worker: MortalWorker, number: int, why: str, fallen: Fallen | None) -> None:
        self._unanswered.add((worker.owner, number))

        def begins() -> None:
            gone = fallen.owner if fallen is not None else None
            worker.begin_generation(number, why, lambda left: None, fallen, gone=gone)
            self._control.hear(worker, lambda: self._unanswered.discard((worker.owner, number)))

        self._control.tell(worker, begins)
