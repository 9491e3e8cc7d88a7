"""Idempotent sinks: a record that a replay brings again is stored once.

`contract` says what a store promises, `batching` gathers inputs and acks them when they are durable; each sink has a
file or a room. Must not know spouts.
"""
