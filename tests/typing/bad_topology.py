"""Mistakes that a type checker finds before anything runs. Each line that has to be refused is marked."""

from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from typing import Any, Never

from bolts import Burst, CountWithin
from topology import Bolt, Collector, Message, Record, Spout, State, Topology, Tuple, bolt


class Line(Record):
    text: str


class Failure(Record):
    source_ip: str


class Malformed(Record):
    why: str


class Unsaid(CountWithin[Failure, Malformed]):
    def at(self, failure: Failure) -> datetime:
        return datetime.fromisoformat("2026-01-01T00:00:00Z")


class Counts(Unsaid):
    def raised(self, failure: Failure, burst: Burst) -> Malformed:
        return Malformed(failure.source_ip)


class Lines(Spout):
    async def records(self) -> AsyncIterator[Message[Line]]:
        yield Message(Line("a"), 1)


class Numbers(Spout):
    async def poll(self, limit: int) -> list[int]:
        return [1]


class Blocking(Spout):
    def poll(self, limit: int) -> list[Message[Line]]:
        return []


class NoSource(Spout):
    """Defines neither `records` nor `poll`."""


class Parse(Bolt):
    def process(self, line: Line) -> Iterator[Failure | Malformed]:
        yield Failure(line.text)


class Detect(Bolt):
    def process(self, failure: Failure, state: State[int]) -> Iterator[Malformed]:
        yield Malformed(failure.source_ip)


class Both(Bolt):
    def process(self, record: Failure | Malformed) -> None:
        """Takes two classes."""


class Holding(Bolt):
    def execute(self, tup: Tuple[Failure], out: Collector[Malformed]) -> None:
        out.ack(tup)


class Emitting(Bolt):
    def execute(self, tup: Tuple[Failure], out: Collector[Malformed]) -> None:
        out.emit(tup.record)  # E
        out.emit(Malformed("w"), anchors=[tup.record])  # E
        out.ack(tup.record)  # E
        out.emit("text")  # E


class Sink(Bolt):
    def execute(self, tup: Tuple[Record], out: Collector[Never]) -> None:
        out.emit(tup.record)  # E


class Silent(Bolt):
    """Defines neither `process` nor `execute`."""


class OneRecord(Bolt):
    def process(self, line: Line) -> Failure:
        return Failure(line.text)


class Texts(Bolt):
    def process(self, line: Line) -> Iterator[str]:
        yield line.text


class NoRecord(Bolt):
    def process(self, text: str) -> None:
        """Takes what no stream has."""


class ThreeParameters(Bolt):
    def process(self, line: Line, state: State[int], more: int) -> None:
        """Takes one parameter too many."""


class YieldsAnother(Bolt):
    def process(self, line: Line) -> Iterator[Failure]:
        yield Malformed(line.text)  # E


class StatesAnother(Bolt):
    def process(self, line: Line, state: State[int]) -> None:
        state.set(line.text)  # E
        state.get("")  # E
        state.get() + 1  # E


@bolt
def shout(line: Line) -> Iterator[Failure]:
    yield Failure(line.text)


@bolt  # E
def texts(line: Line) -> Iterator[str]:
    yield line.text


@bolt  # E
def takes_text(text: str) -> Iterator[Line]:
    yield Line(text)


@bolt  # E
def takes_two(line: Line, more: int) -> Iterator[Line]:
    yield line


topology = Topology("bad")
lines = topology.spout("lines", Lines())
parsed = topology.bolt("parsed", Parse(), lines.shuffle())
failures, malformed = parsed[Failure], parsed[Malformed]

# spouts
topology.spout("numbers", Numbers())  # E
topology.spout("blocking", Blocking())  # E
topology.spout("no_source", NoSource())  # E
topology.spout("class", Lines)  # E
topology.spout("bolt", Parse())  # E

# the wrong stream
topology.bolt("a", Parse(), failures.shuffle())  # E
topology.bolt("b", Detect(), lines.fields("text"))  # E
topology.bolt("c", Holding(), malformed.shuffle())  # E
topology.bolt("d", shout, failures.shuffle())  # E
topology.bolt("e", NoRecord(), lines.shuffle())  # E

topology.bolt("dead", Parse(), lines.dead.shuffle())  # E

# of several inputs, one
topology.bolt("f", Both(), failures.shuffle(), lines.shuffle())  # E
topology.bolt("g", Both(), lines.shuffle(), malformed.shuffle())  # E
topology.bolt("h", Both(), failures.shuffle(), malformed.shuffle(), lines.shuffle())  # E
topology.bolt("i", Detect(), failures.global_(), malformed.global_())  # E
topology.bolt("j", Parse(), lines.all(), lines.all(), lines.all(), failures.all())  # E

# a stream of two classes, and none chosen
topology.bolt("k", Detect(), parsed.fields("source_ip"))  # E
topology.bolt("l", Holding(), parsed.shuffle())  # E

# no input
topology.bolt("m", Parse(), lines)  # E
topology.bolt("n", Parse(), lines.shuffle)  # E
topology.bolt("o", Parse(), "lines")  # E
topology.bolt("p", Parse(), None)  # E

# no bolt
topology.bolt("q", Parse, lines.shuffle())  # E
topology.bolt("r", Silent(), lines.shuffle())  # E
topology.bolt("s", Lines(), lines.shuffle())  # E
topology.bolt("t", None, lines.shuffle())  # E
topology.bolt("u", OneRecord(), lines.shuffle())  # E
topology.bolt("v", Texts(), lines.shuffle())  # E
topology.bolt("w", ThreeParameters(), lines.shuffle())  # E

topology.bolt("counts", Counts(5, 60), lines.fields("text"))  # E
Unsaid(5, 60)  # E

# streams and groupings
parsed["Failure"]  # E
parsed[str]  # E
lines.fields(3)  # E
lines.partial_key()  # E
lines.custom(None)  # E
lines.shufle()  # E

# options
topology.bolt("x", Parse(), lines.shuffle(), tasks="2")  # E
topology.bolt("y", Parse(), lines.shuffle(), every=10)  # E
topology.bolt("z", Parse(), lines.shuffle(), task=2)  # E
Topology(3)  # E
Topology("a", config={"max_pending": 5})  # E

# records and messages
Line(3)  # E
Line("a", 2)  # E
Line("a").text = "b"  # E
Message(Line("a"), 1.5)  # E
Message("text", 1)  # E


def reads_on(anything: Any) -> Iterable[Failure]:
    """What is read of a chosen stream has its class."""
    topology.bolt("right", Detect(), failures.global_())
    return [Malformed("no")]  # E
