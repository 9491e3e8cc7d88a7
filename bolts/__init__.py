"""Bolts and idempotent sinks to use as they are. Knows `topology` and `acker`, and no spout."""
