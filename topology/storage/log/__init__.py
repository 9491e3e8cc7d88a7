"""The log of one worker: records of what happened since its last checkpoint, in two preallocated files used by turns.

`log.WorkerLog` appends, syncs, marks checkpoints and cuts. `open_log` in `opening` checks what is there; `recovery`
finds where the log ends, and `reading` reads it. `layout` has the bytes. Must not know what a record means, nor SQLite.

Imports nothing of: topology.storage.sqlite, topology.runtime
"""
