"""The conformance suite of idempotent sinks, for Kedge's own and for yours.

`SinkSubject` says how a sink is made and read. `check_sink` runs one of `SINK_CHECKS` on it. Must not know pytest.

Imports nothing of: pytest, bolts
"""

from topology.testing.sinks.suite import SINK_CHECKS, SinkItem, SinkSubject, check_sink

__all__ = ["SINK_CHECKS", "SinkItem", "SinkSubject", "check_sink"]
