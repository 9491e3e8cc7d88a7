"""Checkpoints: one cut of the whole run, five times a second, decides what can come again.

`coordinator` asks all workers for their notes, sends the frontier to all, and decides once all have kept their part.
`worker_checkpoints` is a worker's end of that; `log_commit` lets outputs leave once the log has their inputs. The cut
is that of Chandy and Lamport (1985). Must not know what a part keeps, nor how orders travel.

Imports nothing of: topology.components, topology.runtime.tasks, topology.runtime.state, topology.runtime.dead_letters,
  topology.runtime.poison, topology.storage.sqlite, topology.runtime.supervisor
"""
