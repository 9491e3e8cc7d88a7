"""Idempotent sinks: a record that a replay delivers again is stored once.

`contract` states what a store promises. `batching` gathers inputs and acks them when they are durable. Each sink has a
file or a folder. Must not know spouts.

Imports nothing of: spouts, topology.runtime, topology.storage, bolts.count_within, bolts.print
"""
