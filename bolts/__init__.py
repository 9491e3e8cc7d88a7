"""Bolts and idempotent sinks to use as they are. Knows `topology` and `acker`, and no spout."""

from bolts.counting import Burst, CountWithin
from bolts.jsonlines import JsonLinesSink
from bolts.postgres import PostgresSink
from bolts.printing import Print
from bolts.sqlite import SqliteSink

__all__ = ["Burst", "CountWithin", "JsonLinesSink", "PostgresSink", "Print", "SqliteSink"]
