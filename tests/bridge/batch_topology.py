"""Numbered records joined with the history of their keys' owners, by a batch job, into a table."""

from bolts import SqliteSink
from bridge import batch_joined
from spouts import Items
from topology import Record, Topology

OWNED = 5  # of the seven keys


class Numbered(Record):
    number: int
    key: str


class Owner(Record):
    key: str
    owner: str


class Matched(Record):
    number: int
    owner: str | None
    job: int


def numbered(count: int) -> list[Numbered]:
    return [Numbered(one, f"key{one % 7}") for one in range(count)]


def owners() -> list[Owner]:
    return [Owner(f"key{one}", f"owner {one}") for one in range(OWNED)]


def topology(store: str, count: int = 3_000, every: str = "") -> Topology:
    topology = Topology("matched")
    stream = topology.spout("numbered", Items(numbered(count)))
    other = topology.spout("owners", Items(owners()))
    matched = batch_joined(
        topology,
        "matched",
        stream,
        other=other,
        on="key",
        how="left",
        every=every,
        output=Matched,
        revision="job",
        tasks=2,
    )
    topology.bolt("store", SqliteSink(store), matched.global_())
    return topology
