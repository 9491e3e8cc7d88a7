"""From a port to a table, for whole runs; run by `test_listener_runs`."""

import time
from collections.abc import Iterator

from bolts import SqliteSink
from spouts.listeners.lines import Socket
from spouts.listeners.syslog import Syslog
from spouts.listeners.syslog_format import SyslogMessage
from topology import Bolt, Record, State, Topology
from topology.testing.sources import SourceItem


class Counted(Record):
    number: int
    times: int


class Count(Bolt):
    """Counts each number: what is processed twice would be a second row with another count."""

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s

    def process(self, item: SourceItem, state: State[int]) -> Iterator[Counted]:
        time.sleep(self.pause_s)
        times = state.get(0) + 1
        state.set(times)
        yield Counted(item.number, times)


class Said(Record):
    app: str
    text: str


class Parse(Bolt):
    def process(self, message: SyslogMessage) -> Iterator[Said]:
        yield Said(message.app, message.text)


def topology(port: int, out: str = "out.db", pause_s: float = 0.0, scheme: str = "socket") -> Topology:
    topology = Topology("listeners")
    if scheme == "socket":
        source = Socket(f"tcp://127.0.0.1:{port}", value=SourceItem)
        counted = topology.bolt("count", Count(pause_s), topology.spout("items", source).fields("number"), tasks=2)
        topology.bolt("store", SqliteSink(out), counted.shuffle())
        return topology
    messages = topology.spout("messages", Syslog(f"{scheme}://127.0.0.1:{port}"))
    topology.bolt("store", SqliteSink(out), topology.bolt("parse", Parse(), messages.shuffle()).shuffle())
    return topology
