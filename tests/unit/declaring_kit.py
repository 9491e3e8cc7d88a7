"""Records, spouts and bolts that tests of declarations declare, and the sentences that come of it.

Parameters are wild on purpose: what type checkers refuse has to be a sentence, too, for those who do not run one.
"""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

from topology import Bolt, Collector, Message, Record, Spout, State, Topology, Tuple
from topology.checks.declaration import mistakes


class Line(Record):
    text: str
    number: int = 0


class Failure(Record):
    source_ip: str
    user: str
    port: int
    load: float
    tags: frozenset[str]
    maybe_port: int | None = None


class Malformed(Record):
    why: str


class Lines(Spout):
    async def poll(self, limit: int) -> list[Message[Line]]:
        return []


class Parse(Bolt):
    def process(self, line: Line) -> Iterator[Failure | Malformed]:
        yield Malformed(line.text)


class Sink(Bolt):
    def process(self, record: Record) -> None:
        """Takes anything, gives nothing."""


class Count(Bolt):
    def process(self, failure: Failure, state: State[int]) -> Iterator[Malformed]:
        state.set(state.get(0) + 1)
        yield Malformed(failure.user)


class CountAny(Bolt):
    def process(self, record: Record, state: State[int]) -> None:
        state.set(state.get(0) + 1)


class Waiting(Bolt):
    async def process(self, line: Line) -> AsyncIterator[Malformed]:
        yield Malformed(line.text)


class Holding(Bolt):
    def execute(self, tup: Tuple[Line], out: Collector[Malformed]) -> None:
        out.ack(tup)


class Ticking(Bolt):
    def process(self, line: Line) -> None:
        """Takes lines, gives nothing."""

    def tick(self, now: datetime) -> None:
        """Called every so often."""


class Declaring:
    """A topology with a spout `lines` that is read; `bolt` declares more, whatever it is given."""

    def __init__(self, **options: Any) -> None:
        topology: Any = Topology("declaring", **options)
        self.topology = topology
        self.lines = self.spout("lines", Lines())
        self.parse = self.bolt("parse", Parse(), self.lines.shuffle())

    def spout(self, *args: Any, **options: Any) -> Any:
        return self.topology.spout(*args, **options)

    def bolt(self, *args: Any, **options: Any) -> Any:
        return self.topology.bolt(*args, **options)

    def said(self) -> list[str]:
        """The sentences of all mistakes."""
        return [mistake.text for mistake in mistakes(self.topology)]

    def one(self) -> str:
        """The sentence of the only mistake."""
        (said,) = self.said()
        return said
