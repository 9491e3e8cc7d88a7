"""A sink that keeps what it gets, where the test can see it. Knows the contracts, nothing that runs them."""

from typing import Any, Final, Generic, Never

from topology.components import Bolt, Collector, R, Task, Tuple

SHOWN_MAX: Final = 3  # records in its repr


class Captured(Bolt, Generic[R]):
    """Acks and keeps every tuple. All its tasks are this one object, so that the test reads what they got.

    `tuples` are all deliveries in their order, replays included; `times` are their loop times; `records` are their
    records. `distinct` is what a sink holds that drops replays by (origin, identity); `divergent` are the tuples whose
    key was there before with another record: an output that was not a function of its input (B2). Compare what should
    be stored once with `distinct`, in a topology with failures or crashes; `records` has replays.

        alerts = Captured[Alert]()
        topology.bolt("captured", alerts, stream.shuffle())
    """

    def __init__(self) -> None:
        self.tuples: list[Tuple[R]] = []
        self.times: list[float] = []
        self.distinct: dict[tuple[int, int], R] = {}
        self.divergent: list[Tuple[R]] = []

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
        self.tuples.append(tup)
        self.times.append(self._clock.monotonic())
        if self.distinct.setdefault((tup.origin, tup.identity), tup.record) != tup.record:
            self.divergent.append(tup)
        out.ack(tup)
