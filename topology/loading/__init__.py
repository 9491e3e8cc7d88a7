"""Loads a topology from `MODULE-OR-FILE[:ATTRIBUTE]` and its settings, for commands, worker processes and the bridge.

`load.target_of` parses the name, `load.load` imports the module and calls the factory, and `load.again` repeats that in
another process. Must not know a terminal, nor how a topology runs.

Imports nothing of: topology.runtime, topology.storage, topology.cli, rich, typer
"""
