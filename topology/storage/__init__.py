"""Data that survives every process: the state directory, one store per worker, and the byte forms of their content.

A run opens the `directory`, checks its files and compares the topology's shape. `rescale` moves rows for a changed
number of tasks or workers. Each worker then commits `values` to its `sqlite` store. Must not know the runtime that
calls it.

Imports nothing of: topology.runtime, topology.cli, topology.loading
"""
