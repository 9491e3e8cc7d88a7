"""The topology of the tests of sources that can't note anything: lines of one file that grows are stored."""

from collections.abc import Iterator
from pathlib import Path

from numbered import Silent, Word

from bolts import SqliteSink
from spouts import FileTail, Line
from topology import Bolt, Topology


class Numbered(Bolt):
    def process(self, line: Line) -> Iterator[Word]:
        yield Word(int(line.text.split()[0]), 0, line.text)


def topology(folder: str, name: str = "tailing") -> Topology:
    place = Path(folder)
    topology = Topology(name)
    silent = topology.spout("silent", Silent())
    lines = topology.spout("lines", FileTail(place / "lines.log", follow=True))
    words = topology.bolt("pick", Numbered(), lines.shuffle())
    topology.bolt("store", SqliteSink(place / "store.db", records=[Word]), silent.global_(), words.global_())
    return topology
