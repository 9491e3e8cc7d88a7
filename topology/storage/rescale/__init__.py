"""Moves stored rows to the stores that need them, before a run with other tasks, workers or another shape than the last
run.

`assign` decides, `move` copies, and `positions` and `journal` say what belongs together. If interrupted, the next start
completes it. Must not know the runtime.

Imports nothing of: topology.runtime, topology.storage.offline, apsw
"""
