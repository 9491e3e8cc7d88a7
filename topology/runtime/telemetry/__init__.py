"""Counters, latencies, the bottleneck, the reason for a stall, and log entries of a run.

`metrics` counts. `bottleneck` and `stall` turn counts into one sentence. Must not know terminals.

Imports nothing of: topology.cli, topology.runtime.tasks, topology.runtime.worker, rich, structlog
"""
