"""SSH alerts: failed logins are found, counted by address, and bursts go into a JSON Lines file.

python -m bytewax.run "benchmarks.peers.with_bytewax.ssh_alerts:flow('LINES', 'OUT')"
"""

from collections.abc import Iterable

import bytewax.operators as op
from bytewax.connectors.files import FileSink, FileSource
from bytewax.dataflow import Dataflow

from benchmarks.peers.work import Attempts, BruteForce, Failure, failure, to_json


def detect(attempts: Attempts | None, found: Failure) -> tuple[Attempts, Iterable[BruteForce]]:
    attempts = attempts or Attempts()
    alert = attempts.add(found)
    return attempts, (alert,) if alert else ()


def flow(path: str, out: str) -> Dataflow:
    flow = Dataflow("ssh-alerts")
    lines = op.input("lines", flow, FileSource(path))
    failures = op.filter_map("failures", lines, failure)
    by_address = op.key_on("address", failures, lambda found: found.source_ip)
    alerts = op.stateful_flat_map("detect", by_address, detect)
    rows = op.map_value("json", alerts, lambda alert: to_json(alert).decode())
    op.output("out", rows, FileSink(out))
    return flow
