"""Figures and words about a run: counters, latencies, the bottleneck, why nothing moves, and log entries.

`metrics` counts, `bottleneck` and `stall` turn counts into one sentence. Must not know terminals.
"""
