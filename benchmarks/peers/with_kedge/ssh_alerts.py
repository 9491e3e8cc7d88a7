"""SSH alerts: the example, except that its alerts go into a JSON Lines file.

kedge run benchmarks.peers.with_kedge.ssh_alerts --set path=LINES --set store=OUT
"""

from typing import Literal

from bolts import JsonLinesSink
from examples.ssh_alerts import DetectBruteForce, ParseFailures
from spouts import FileTail
from topology import Config, Topology

REFERENCE = "2025-12-31T23:59:59"  # the lines are of that year

Durability = Literal["disk", "process", "checkpoint"]


def topology(path: str, store: str, durability: Durability = "disk") -> Topology:
    topology = Topology("ssh-alerts", Config(durability=durability))
    lines = topology.spout("lines", FileTail(path))
    failures = topology.bolt("failures", ParseFailures(path, REFERENCE), lines.shuffle())
    alerts = topology.bolt("alerts", DetectBruteForce(limit=5, within_s=60), failures.fields("source_ip"), tasks=2)
    topology.bolt("store", JsonLinesSink(store), alerts.global_())
    return topology
