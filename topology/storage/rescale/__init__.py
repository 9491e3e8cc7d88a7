"""Moves stored rows to the stores that need them, before a run with other tasks, workers or another shape than the last
run.

`resolve` makes the last decided checkpoint what stores have. `assign` decides, `move` copies, and `positions` and
`known_inputs` say what belongs together. If interrupted, the next start completes it. Must not know the runtime.

Imports nothing of: topology.runtime, topology.storage.offline, apsw
"""
