"""The executor of a bolt that takes many inputs in one call, and acks them in batches, as sinks do.

It does what `CollectingExecutor` does, for a third of the time: nothing is made for an input until the bolt asks for
more than its ack. A bolt has `inputs_room` and `take_inputs` beside `execute`; if a nearer class has its own `execute`,
that is called. Must not know batches, stores, trees or spouts.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

from acker.frontier import Decided
from acker.roots import NUMBER_SHIFT
from topology.components import Collector
from topology.core.tuples import Tuple
from topology.runtime.failures import Reason
from topology.runtime.hot.hot_path import ack_given
from topology.runtime.tasks.collector import CollectingExecutor, Open, TaskCollector
from topology.runtime.tasks.stale import refused

_others: Final[Callable[[Any], tuple[int, ...]]] = attrgetter("others")


class TakesMany(Protocol):
    """A bolt that has these methods beside `execute`."""

    def inputs_room(self) -> int:
        """Return how many inputs it can take now; for less than one `execute` is called, which waits for room."""
        ...

    def take_inputs(self, tuples: Sequence[Tuple[Any]], out: Collector[Any]) -> None:
        """As `execute` for each of these inputs, which are no more than there is room for. Where it raises, it has
        taken none."""
        ...


def takes_many(bolt: Any) -> bool:
    """Return whether it is a `TakesMany` whose inputs may come many at once: not where a nearer class, or the object
    itself, has another `execute`."""
    own = next((cls for cls in type(bolt).__mro__ if {"execute", "take_inputs"} & vars(cls).keys()), object)
    return "take_inputs" in vars(own) and hasattr(bolt, "inputs_room") and "execute" not in vars(bolt)


class BatchExecutor(CollectingExecutor):
    """Drives a bolt's `take_inputs`; `given` are the inputs of which nothing but the ack has been asked yet.

    How long they are held is counted for all of them together: what is finished counts as the one that came first.
    """

    bolt: Any

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.given: dict[int, Tuple[Any]] = {}  # id of the tuple → it
        self._given_at: deque[tuple[float, int]] = deque()  # the loop's time then, and how many; oldest first
        self._out = TaskCollector(self, None)

    def slice(self, count: int) -> int:
        if (count := min(count, self._room())) < 1:
            return super().slice(1)  # it waits for room there
        popleft = self.queue.popleft
        tuples = [popleft() for _ in range(count)]
        if self.decided is not None:
            tuples = self._fresh(tuples, self.decided)
        if tuples:
            started_at = self._loop.time()
            self.given.update(zip(map(id, tuples), tuples, strict=True))
            self._given_at.append((started_at, len(tuples)))
            bolt: TakesMany = self.bolt
            try:
                bolt.take_inputs(tuples, self._out)
            except BaseException as error:
                for tup in tuples:
                    self._unfold(tup, kept=False)
                    self.raised(tup, error)
        self.executed += len(tuples)
        return count

    def _room(self) -> int:
        """For how many inputs; for none where the bolt has an `execute` of its own by now, or says nonsense: that
        fails one input then, and not the run (F6)."""
        try:
            return 0 if "execute" in vars(self.bolt) else int(self.bolt.inputs_room())
        except Exception:
            return 0

    def _fresh(self, tuples: list[Tuple[Any]], decided: Decided) -> list[Tuple[Any]]:
        """Those of finished trees left out (D5)."""
        roots = [tup.root for tup in tuples]
        first, last = min(roots) >> NUMBER_SHIFT, max(roots) >> NUMBER_SHIFT
        if decided.refuses_none(first, last) and not any(map(_others, tuples)):
            return tuples
        refuses = decided.refuses
        fresh = []
        for tup in tuples:
            if any(refuses(root >> NUMBER_SHIFT) for root in tup.roots):
                refused(tup, self.home, decided, self.component)
            else:
                fresh.append(tup)
        self.stale += len(tuples) - len(fresh)
        return fresh

    @property
    def in_hand(self) -> int:
        return len(self.given) + len(self.opened)

    def held(self) -> list[Tuple[Any]]:
        return [*self.given.values(), *super().held()]

    def open_of(self, tup: Tuple[Any], act: str) -> Open:
        self._unfold(tup)
        return super().open_of(tup, act)

    def fail_input(self, tup: Tuple[Any], error: BaseException | None, reason: Reason, text: str = "") -> None:
        self._unfold(tup)
        super().fail_input(tup, error, reason, text)

    def ack_all(self, tuples: Iterable[Tuple[Any]]) -> list[Tuple[Any]]:
        tuples = [*tuples]
        done, others = ack_given(self.given, tuples, self.home)
        acked = len(tuples) - len(others)
        self.kept_s += acked * self._loop.time() - self._since(acked)
        self.kept += acked
        if done:
            self.home.completed(done)
        return super().ack_all(others) if others else others

    def _since(self, count: int) -> float:
        """Forget when the oldest of those were given that were given. Return the sum of these times."""
        since, given_at = 0.0, self._given_at
        while count:
            at, given = given_at.popleft()
            if given > count:
                given_at.appendleft((at, given - count))
                given = count
            since, count = since + at * given, count - given
        return since

    def _unfold(self, tup: Tuple[Any], *, kept: bool = True) -> None:
        """Has one of those that were given among the open ones, which may do all that an input may."""
        if self.given.pop(id(tup), None) is not None:
            self.opened[id(tup)] = opened = Open(tup)
            since = self._since(1)
            opened.kept_since = since if kept else None
