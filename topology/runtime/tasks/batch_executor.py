"""The executor of a bolt that takes many inputs in one call, and acks them in batches: the sinks of ours.

It does what `CollectingExecutor` does, for a third of the time: nothing is made for an input until the bolt asks for
more than its ack. Between the runtime and bolts that have `inputs_room` and `take_inputs`; users write `execute`, and
where a class of theirs has its own, that is called. Must not know batches, stores, trees or spouts.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, Final, Protocol

from acker.floors import Floors
from acker.identity import edge
from acker.roots import NUMBER_SHIFT
from topology.components import Collector, Tuple
from topology.runtime.failures import Reason
from topology.runtime.tasks.collector import CollectingExecutor, Open, TaskCollector

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
    """Drives a bolt's `take_inputs`; `given` are the inputs of which nothing but the ack has been asked yet."""

    bolt: Any

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.given: dict[int, tuple[Tuple[Any], float]] = {}  # id of the tuple → it, and the loop's time then
        self._out = TaskCollector(self, None)

    def slice(self, count: int) -> int:
        if (count := min(count, self._room())) < 1:
            return super().slice(1)  # it waits for room there
        popleft = self.queue.popleft
        tuples = [popleft() for _ in range(count)]
        if self.floors is not None:
            tuples = self._fresh(tuples, self.floors)
        if tuples:
            started_at = self._loop.time()
            self.given.update(zip(map(id, tuples), zip(tuples, repeat(started_at)), strict=True))
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

    def _fresh(self, tuples: list[Tuple[Any]], floors: Floors) -> list[Tuple[Any]]:
        """Those of finished trees left out (D5)."""
        roots = [tup.root for tup in tuples]
        first, last = min(roots) >> NUMBER_SHIFT, max(roots) >> NUMBER_SHIFT
        if floors.refuses_none(first, last) and not any(map(_others, tuples)):
            return tuples
        fresh = [tup for tup in tuples if not any(floors.refuses(root >> NUMBER_SHIFT) for root in tup.roots)]
        self.stale += len(tuples) - len(fresh)
        return fresh

    @property
    def in_hand(self) -> int:
        return len(self.given) + len(self.opened)

    def held(self) -> list[Tuple[Any]]:
        return [*(tup for tup, _ in self.given.values()), *super().held()]

    def open_of(self, tup: Tuple[Any], act: str) -> Open:
        self._unfold(tup)
        return super().open_of(tup, act)

    def fail_input(self, tup: Tuple[Any], error: BaseException | None, reason: Reason, text: str = "") -> None:
        self._unfold(tup)
        super().fail_input(tup, error, reason, text)

    def ack_all(self, tuples: Iterable[Tuple[Any]]) -> list[Tuple[Any]]:
        given, ack = self.given, self.home.ack
        done, others, acked, since = [], [], 0, 0.0
        for tup in tuples:
            one = given.pop(id(tup), None)
            if one is None:
                others.append(tup)
                continue
            acked += 1
            since += one[1]
            if not (root := tup.root):
                continue
            tag = tup.source.tag
            value = edge(tup.identity, tag) if tag else tup.identity
            for each in tup.roots if tup.others else (root,):
                if (tree := ack(each, value)) is not None:
                    done.append(tree)
        kept_s = acked * self._loop.time() - since
        self.kept, self.kept_s = self.kept + acked, self.kept_s + kept_s
        if done:
            self.home.completed(done)
        return super().ack_all(others) if others else others

    def _unfold(self, tup: Tuple[Any], *, kept: bool = True) -> None:
        """Has one of those that were given among the open ones, which may do all that an input may."""
        if (one := self.given.pop(id(tup), None)) is not None:
            self.opened[id(tup)] = opened = Open(tup)
            opened.kept_since = one[1] if kept else None
