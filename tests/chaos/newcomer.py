"""The SSH alerts of the examples, but for their state, which a death takes: each failed login is a row.

lines (FileTail) ─ Line ─► failures (as in the example) ─ Failure ─► store (SqliteSink)
"""

from bolts import SqliteSink
from examples.ssh_alerts import Failure, ParseFailures
from spouts import FileTail, Paced
from topology import Topology


def topology(path: str, store: str, rate: float = 0.0) -> Topology:
    topology, tail = Topology("newcomer"), FileTail(path)
    lines = topology.spout("lines", Paced(tail, rate) if rate else tail)
    failures = topology.bolt("failures", ParseFailures(path), lines.shuffle())
    topology.bolt("store", SqliteSink(store, records=[Failure]), failures.global_())
    return topology
