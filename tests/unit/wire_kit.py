"""A plan whose streams carry every type that a record may have, and contents for it: what the wire's tests send."""

import enum
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from topology import Bolt, Message, Record, Spout, Topology
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.plan import plan
from topology.runtime.failures import Failure
from topology.runtime.hot.remote_acks import Acks
from topology.runtime.links.codec import WireCodec
from topology.runtime.links.protocol import Content


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Event(Record):
    text: str
    number: int = 0


class Rich(Record):
    at: datetime
    price: Decimal
    colour: Colour
    event: Event
    tags: frozenset[str]
    pairs: tuple[tuple[str, int], ...]
    ratio: float
    raw: bytes
    maybe: Event | None = None


class Nothing(Record):
    """A record without fields: one byte."""


class Tree(Record):
    children: tuple["Tree", ...] = ()


class Events(Spout):
    async def poll(self, limit: int) -> list[Message[Event]]:
        return []


class Enrich(Bolt):
    def process(self, event: Event) -> Iterator[Event | Rich | Nothing | Tree]:
        yield event


class Sink(Bolt):
    def process(self, record: Record) -> None:
        """Takes anything."""


def _declared() -> Topology:
    topology = Topology("wire")
    events = topology.spout("events", Events(), tasks=2)
    rich = topology.bolt("enrich", Enrich(), events.shuffle(), tasks=2)
    topology.bolt("sink", Sink(), rich[Event].fields("text"), rich[Rich].shuffle(), rich[Nothing].all(), tasks=3)
    topology.bolt("tap", Sink(), rich[Event].shuffle(), rich[Tree].global_(), events.shuffle())
    topology.validate()
    return topology


PLAN = plan(_declared(), 2)
CODEC = WireCodec(PLAN)
ADDRESSES = list(PLAN.placement)
SUBSCRIPTIONS = list(PLAN.subscriptions)


def index_of(emitter: str, cls: type[Record], subscriber: str) -> int:
    """The index of a subscription in the plan."""
    return next(
        index
        for index, one in enumerate(SUBSCRIPTIONS)
        if (one.emitter, one.cls, one.subscriber) == (emitter, cls, subscriber)
    )


def source_of(subscription: int) -> Source:
    """As an emitting task makes it, with a key function of its own."""
    one = SUBSCRIPTIONS[subscription]
    return Source(one.emitter, one.cls.__name__, one.tag, lambda record: b"")


ENRICH = index_of("events", Event, "enrich")
ENRICH_SOURCE = source_of(ENRICH)
ENRICH_ADDRESS = ADDRESSES.index(("enrich", 1))


def tup(record: Any, root: int = 1, others: tuple[int, ...] = (), source: Source = ENRICH_SOURCE) -> Tuple[Any]:
    """A tuple whose origin and identity follow from its root."""
    return Tuple(record, root + 1000, root + 2000, root, others, source)


def content(
    batches: list[tuple[int, list[Tuple[Any]]]] | None = None,
    fails: list[tuple[int, Failure]] | None = None,
    **others: Any,
) -> Content:
    """A Content with this in it, and nothing else."""
    empty: dict[str, Any] = {"acks": {}, "touches": set(), "queued": set(), "depths": {}, "checkpoint": 0}
    given = {**empty, **others}
    return Content(batches=batches or [], fails=fails or [], **{**given, "acks": Acks(given["acks"])})


def for_enrich(*tuples: Tuple[Any]) -> Content:
    """Tuples for one task of `enrich`, and nothing else."""
    return content([(ENRICH_ADDRESS, list(tuples))])


def told(*contents: Content) -> dict[str, Any]:
    """What all of these say, as plain values: tuples in order by task and source."""
    found: dict[str, Any] = {
        "tuples": {},
        "acks": {},
        "fails": [],
        "touches": set(),
        "queued": set(),
        "depths": {},
        "checkpoints": set(),
    }
    for one in contents:
        for address, tuples in one.batches:
            for each in tuples:
                source = each.source
                at = (address, source.component, source.stream, source.tag)
                value = (each.record, each.origin, each.identity, each.root, each.others)
                found["tuples"].setdefault(at, []).append(value)
        found["acks"].update(one.acks.items())
        found["fails"] += [(root, why.reason, why.component, why.text, why.traceback()) for root, why in one.fails]
        found["touches"] |= one.touches
        found["queued"] |= one.queued
        found["checkpoints"].add(one.checkpoint)
        found["depths"].update(one.depths)
    return found


def sent(one: Content) -> list[Content]:
    """What arrives of a Content, body for body; nothing of it fails."""
    bodies, failed = CODEC.encode(one)
    assert failed == []
    arrived = []
    for body in bodies:
        decoded, failed = CODEC.decode(body)
        assert failed == []
        arrived.append(decoded)
    return arrived
