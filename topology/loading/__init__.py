"""Loads a topology from `MODULE-OR-FILE[:ATTRIBUTE]` and its settings, for commands, worker processes and the bridge.

`load.target_of` reads what the user named, `load.load` imports it and calls its factory, `load.again` repeats that in
another process. Must not know a terminal, nor how anything runs.
"""
