"""A sink that keeps what it gets, where the test can see it. Knows the contracts, nothing that runs them."""

from collections.abc import Iterable
from typing import Any, Final, Generic, Never

from topology.components import Bolt, Collector, R, Task
from topology.core.tuples import Tuple

SHOWN_MAX: Final = 3  # records in its repr


class Captured(Bolt, Generic[R]):
    """Ack and keep every tuple. All its tasks are this one object, so that the test reads what they got.

    `tuples` are all deliveries in their order, including replays. `times` are their loop times, and `records` their
    records. `distinct` is what a sink holds that drops replays by (origin, identity). `divergent` are the tuples whose
    key was there before with another record: an output that was not a function of its input (B2). In a topology with
    failures or crashes, compare what should be stored once with `distinct`, because `records` has replays.

    `by_record` treats equal records as one, whatever their identities, like a sink that upserts by a key of its own.
    Use it for outputs whose identity differs between runs, for example an output that is anchored to several inputs
    that happened to be present. `by_pair` has the same by (origin, identity), whatever `by_record` says. `unstable` are
    the tuples whose (origin, identity) was there before with another record, with or without `by_record`.

        alerts = Captured[Alert]()
        topology.bolt("captured", alerts, stream.shuffle())
    """

    def __init__(self, *, by_record: bool = False) -> None:
        self.by_record = by_record
        self.restore(())

    def __deepcopy__(self, memo: dict[int, Any]) -> "Captured[R]":
        return self

    @property
    def records(self) -> list[R]:
        return [tup.record for tup in self.tuples]

    def __repr__(self) -> str:
        more = f", {len(self.divergent)} divergent" * bool(self.divergent)
        return f"<Captured: {len(self.tuples)} tuples, {len(self.distinct)} distinct{more}: {self.records[:SHOWN_MAX]}>"

    def open(self, task: Task) -> None:
        self._clock = task.clock

    def execute(self, tup: Tuple[R], out: Collector[Never]) -> None:
        self._keep(tup, self._clock.monotonic())
        out.ack(tup)

    def restore(self, deliveries: Iterable[tuple[Tuple[R], float]]) -> None:
        """Hold these tuples, each with its loop time, and nothing else."""
        self.tuples: list[Tuple[R]] = []
        self.times: list[float] = []
        self.distinct: dict[Any, R] = {}  # by (origin, identity), or by the record
        self.by_pair: dict[tuple[int, int], R] = {}
        self.divergent: list[Tuple[R]] = []
        self.unstable: list[Tuple[R]] = []
        self._first: dict[tuple[int, int], R] = {}
        for tup, at in deliveries:
            self._keep(tup, at)

    def _keep(self, tup: Tuple[R], at: float) -> None:
        self.tuples.append(tup)
        self.times.append(at)
        pair = tup.origin, tup.identity
        if self._first.setdefault(pair, tup.record) != tup.record:
            self.unstable.append(tup)
        record = self.compared(tup)
        self.by_pair.setdefault(pair, record)
        if self.distinct.setdefault(record if self.by_record else pair, record) != record:
            self.divergent.append(tup)

    def compared(self, tup: Tuple[R]) -> R:
        """Return what is compared of a tuple: its record. Override it if a record has parts that may differ between
        runs."""
        return tup.record
