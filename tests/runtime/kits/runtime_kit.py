"""What the runtime's tests share: small records, bolts that misbehave in one way each, and topologies of one line.

All of it goes through the public test kit, so through the real runtime on virtual time.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from topology import Bolt, Collector, Config, Record, State, Task, Topology, Tuple
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run.report import Report
from topology.runtime.worker.worker import Worker
from topology.testing import Captured


class Number(Record):
    n: int


class Pair(Record):
    left: int
    right: int


class Same(Bolt):
    """Gives what it takes."""

    def process(self, number: Number) -> Iterator[Number]:
        yield number


class Flaky(Bolt):
    """Raises for a share of its inputs, drawn from the task's own randomness, and else gives what it takes."""

    def __init__(self, share: float) -> None:
        self.share = share

    def open(self, task: Task) -> None:
        self.random = task.random

    def process(self, number: Number) -> Iterator[Number]:
        if self.random.random() < self.share:
            raise ValueError(f"unlucky {number.n}")
        yield number


class Poisoned(Bolt):
    """Raises `error()` for one number; for the others gives what it takes."""

    def __init__(self, n: int, error: Callable[[], BaseException]) -> None:
        self.n, self.error = n, error

    def process(self, number: Number) -> list[Number]:
        if number.n == self.n:
            raise self.error()
        return [number]


class AsyncPoisoned(Poisoned):
    async def process(self, number: Number) -> list[Number]:  # type: ignore[override]
        return Poisoned.process(self, number)


class Totals(Bolt):
    """The state of each key is how many inputs it had; gives the count."""

    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        yield Number(state.get(0))


class Doing(Bolt):
    """`execute` is the function that was given."""

    def __init__(self, function: Callable[[Any, Tuple[Number], Any], Any]) -> None:
        self.function = function
        self.kept: list[Tuple[Number]] = []  # for functions that hold tuples back

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> Any:
        return self.function(self, tup, out)


class Overlapping(Bolt):
    """Pairs each with the one before, so that trees overlap."""

    def __init__(self) -> None:
        self.last: Tuple[Number] | None = None

    def execute(self, tup: Tuple[Number], out: Collector[Pair]) -> None:
        last, self.last = self.last, tup
        if last is not None:
            out.emit(Pair(last.record.n, tup.record.n), anchors=[last, tup])
            out.ack(last)

    def flush(self, out: Collector[Pair]) -> None:
        if self.last is not None:
            out.ack(self.last)


class Given(Bolt):
    """`process` is the function that was given; it takes and gives numbers."""

    def __init__(self, function: Callable[[Number], Any]) -> None:
        self.function = function

    def process(self, number: Number) -> Iterator[Number]:
        return self.function(number)  # type: ignore[no-any-return]


def numbers(count: int) -> list[Number]:
    return [Number(n) for n in range(count)]


def line(
    spout: Any, *bolts: Any, config: Config | None = None, by: str | None = None, tasks: int = 1, concurrency: int = 1
) -> tuple[Topology, Captured[Number]]:
    """spout → bolts, one after the other, all with `tasks` → captured. `concurrency` is that of the first bolt, `by` a
    fields grouping."""
    topology = Topology("line", config)
    stream: Any = topology.spout("numbers", spout)
    for index, bolt in enumerate(bolts):
        read = stream.fields(by) if by else stream.shuffle()
        stream = topology.bolt(f"bolt{index or ''}", bolt, read, tasks=tasks, concurrency=1 if index else concurrency)
    captured = Captured[Number]()
    topology.bolt("captured", captured, stream.shuffle())
    return topology, captured


async def built(run: EmbeddedRun) -> Worker:
    """The first worker of a run, once it is there: for what is done beside a run, which may begin before it."""
    while not run.workers:  # noqa: ASYNC110 – virtual time, and nothing tells
        await asyncio.sleep(0)
    return run.workers[0]


def balanced(report: Report) -> bool:
    """Whether each message is accounted for: emitted = acked + dead + pending."""
    total = report.snapshot.total
    return total("emitted") == total("acked") + total("dead") + total("pending")
