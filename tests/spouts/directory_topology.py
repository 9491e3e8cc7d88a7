"""From files to a table, counted on the way; run by `test_directory_runs` as a user's file."""

from collections.abc import Iterator

from bolts import SqliteSink
from spouts import Paced
from spouts.directory.spout import Directory
from topology import Bolt, Config, Record, State, Topology
from topology.testing.sources import SourceItem


class Counted(Record):
    number: int
    times: int


class Count(Bolt):
    """Counts each number: what is processed twice would be a second row with another count."""

    def process(self, item: SourceItem, state: State[int]) -> Iterator[Counted]:
        times = state.get(0) + 1
        state.set(times)
        yield Counted(item.number, times)


def topology(pattern: str, out: str, after: str = "", follow: bool = False, rate: float = 1e6) -> Topology:
    topology = Topology("from-files", Config(checkpoint_s=0.1))
    files = Directory(pattern, value=SourceItem, follow=follow, quiet_s=0, after=after or None, poll_interval_s=0.05)
    items = topology.spout("items", Paced(files, rate), tasks=2)
    topology.bolt("store", SqliteSink(out), topology.bolt("count", Count(), items.fields("number"), tasks=2).shuffle())
    return topology
