"""Identity: each line goes through a bolt into a JSON Lines file.

kedge run benchmarks.peers.with_kedge.identity --set path=LINES --set store=OUT
"""

from collections.abc import Iterator
from typing import Literal

from bolts import JsonLinesSink
from spouts import FileTail, Line
from topology import Bolt, Config, Record, Topology

Durability = Literal["disk", "process", "checkpoint"]


class Text(Record):
    """A line without its line end."""

    text: str


class Same(Bolt):
    """Line → the same text."""

    def process(self, line: Line) -> Iterator[Text]:
        yield Text(line.text)


def topology(path: str, store: str, durability: Durability = "disk") -> Topology:
    topology = Topology("identity", Config(durability=durability))
    lines = topology.spout("lines", FileTail(path))
    same = topology.bolt("same", Same(), lines.shuffle())
    topology.bolt("store", JsonLinesSink(store), same.shuffle())
    return topology
