"""A topology of every kind of spout and bolt: nothing in it may be refused."""

from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Generic, Never, assert_type

from typing_extensions import TypeVar

from bolts import Burst, CountWithin
from topology import (
    Bolt,
    Collector,
    Config,
    DeadLetter,
    Grouping,
    Message,
    Record,
    Spout,
    State,
    Stream,
    Topology,
    Tuple,
    bolt,
)

R = TypeVar("R", bound=Record)


class Line(Record):
    text: str
    number: int = 0


class Failure(Record):
    source_ip: str


class Malformed(Record):
    why: str


class Alert(Record):
    text: str


class Generated(Spout):
    async def records(self) -> AsyncIterator[Message[Line]]:
        yield Message(Line("a"), 1)


class Polled(Spout):
    async def poll(self, limit: int) -> list[Message[Line]]:
        return [Message(Line(text="a", number=1), "id", partition="p")]


class Of(Spout, Generic[R]):
    def __init__(self, *items: R) -> None:
        self.items = items

    async def poll(self, limit: int) -> Sequence[Message[R]]:
        return [Message(item, number) for number, item in enumerate(self.items)]

    def emits(self) -> Sequence[type[Record]]:
        return [*{type(item) for item in self.items}]


class Parse(Bolt):
    def process(self, line: Line) -> Iterator[Failure | Malformed]:
        yield Failure(line.text) if line.number else Malformed(line.text)


class Detect(Bolt):
    def process(self, failure: Failure, state: State[int]) -> Iterable[Alert] | None:
        count = state.get(0) + 1
        state.set(count)
        assert_type(state.get(), int | None)
        return [Alert(failure.source_ip)] if count > 5 else None


class Counts(CountWithin[Failure, Alert]):
    def at(self, failure: Failure) -> datetime:
        return datetime.fromisoformat("2026-01-01T00:00:00Z")

    def raised(self, failure: Failure, burst: Burst) -> Alert:
        assert_type(burst.last_at, datetime)
        return Alert(f"{failure.source_ip}: {burst.count}")


class Both(Bolt):
    def process(self, record: Failure | Malformed) -> Iterator[Alert]:
        yield Alert(record.source_ip if isinstance(record, Failure) else record.why)


class Three(Bolt):
    def process(self, record: Failure | Malformed | Line) -> Iterator[Alert]:
        yield Alert(str(record))


class Asynchronous(Bolt):
    async def process(self, line: Line) -> list[Alert]:
        return [Alert(line.text)]


class AsyncGenerated(Bolt):
    async def process(self, line: Line) -> AsyncIterator[Alert]:
        yield Alert(line.text)


class Later(Bolt):
    def process(self, line: Line) -> Awaitable[list[Alert]]:
        raise NotImplementedError


class Join(Bolt):
    async def execute(self, tup: Tuple[Failure | Line], out: Collector[Alert]) -> None:
        out.emit(Alert(str(tup.record)), anchors=[tup], key="k", task=0)
        out.touch(tup)
        await out.drain()
        out.ack(tup)


class Holding(Bolt):
    def execute(self, tup: Tuple[Record], out: Collector[Never]) -> None:
        out.fail(tup, "why")


class Pass(Bolt):
    """Gives what it takes, whatever it is."""

    def process(self, record: R) -> Iterator[R]:
        yield record


class Store(Bolt):
    def process(self, record: Record) -> None:
        """Takes any record."""

    def tick(self, now: datetime) -> None:
        """Called every now and then."""


class Page(Bolt):
    def process(self, letter: DeadLetter) -> Iterator[Alert]:
        yield Alert(f"{letter.name}: {letter.problem}")


class ByLength(Grouping):
    def choose(self, record: object, tasks: int) -> Sequence[int]:
        return [0]


@bolt
def shout(line: Line) -> Iterator[Alert]:
    yield Alert(line.text.upper())


@bolt
def quiet(line: Line) -> None:
    return None


@bolt
async def fetched(line: Line) -> list[Alert]:
    return [Alert(line.text)]


topology = Topology("good", config=Config(max_pending=10))
lines = topology.spout("lines", Generated())
more = topology.spout("more", Polled(), tasks=2)
given = topology.spout("given", Of(Failure("192.0.2.1")))
assert_type(lines, Stream[Line])
assert_type(more, Stream[Line])
assert_type(given, Stream[Failure])

parsed = topology.bolt("parsed", Parse(), lines.shuffle(), more.local_or_shuffle())
assert_type(parsed, Stream[Failure | Malformed])
assert_type(parsed[Failure], Stream[Failure])
alerts = topology.bolt("alerts", Detect(), parsed[Failure].fields("source_ip"), given.fields("source_ip"), tasks=4)
assert_type(alerts, Stream[Alert])
assert_type(topology.bolt("counts", Counts(5, within_s=60), given.fields("source_ip")), Stream[Alert])

assert_type(topology.bolt("both", Both(), parsed[Failure].shuffle(), parsed[Malformed].all()), Stream[Alert])
three = topology.bolt("three", Three(), parsed[Failure].all(), parsed[Malformed].all(), lines.global_())
assert_type(three, Stream[Alert])
one_of_both = topology.bolt("one_of_both", Both(), parsed[Malformed].shuffle())
assert_type(topology.bolt("async", Asynchronous(), lines.shuffle(), concurrency=64), Stream[Alert])
assert_type(topology.bolt("generated", AsyncGenerated(), lines.partial_key("text")), Stream[Alert])
assert_type(topology.bolt("later", Later(), lines.custom(ByLength())), Stream[Alert])
assert_type(topology.bolt("join", Join(), parsed[Failure].fields("source_ip"), lines.fields("text")), Stream[Alert])
assert_type(topology.bolt("shout", shout, lines.shuffle()), Stream[Alert])
assert_type(topology.bolt("fetched", fetched, lines.shuffle()), Stream[Alert])
assert_type(topology.bolt("passed", Pass(), lines.shuffle()), Stream[Line])

assert_type(lines.dead, Stream[DeadLetter])
assert_type(topology.bolt("page", Page(), lines.dead.shuffle(), more.dead.shuffle()), Stream[Alert])
topology.bolt("quiet", quiet, lines.shuffle())
topology.bolt("holding", Holding(), alerts.global_())
topology.bolt("store", Store(), alerts.global_(), three.global_(), every="10s")
topology.bolt("store_more", Store(), alerts.global_(), lines.global_(), parsed[Malformed].global_(), every="1m")
shout(Line("called like the function that it is"))
