"""Shared by both kinds of run: the state directory at the start, signals, the report at the end, the command socket.

`startup` opens and checks before anything is emitted. `remnants` ends workers that an earlier run has left. Must not
know how workers of this run are started, nor what they do.

Imports nothing of: topology.runtime.embedded, topology.runtime.process, topology.runtime.supervisor,
  topology.runtime.worker, topology.runtime.tasks, topology.runtime.links
"""
