"""Bolts to use as they are: sinks, and rules that count.

`bolts.sinks` has the idempotent sinks. Must not know any spout, nor how a topology runs.

Imports nothing of: spouts, bridge, topology.runtime, topology.storage, topology.cli
"""

from bolts.count_within import Burst, CountWithin
from bolts.print import Print
from bolts.sinks.jsonlines import JsonLinesSink
from bolts.sinks.postgres.sink import PostgresSink
from bolts.sinks.sqlite.sink import SqliteSink

__all__ = ["Burst", "CountWithin", "JsonLinesSink", "PostgresSink", "Print", "SqliteSink"]
