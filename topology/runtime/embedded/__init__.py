"""A run in one process: one worker in the caller's event loop, started, watched, drained and closed.

`run.EmbeddedRun` is the whole of it. It starts companions, and no worker process. Must not know worker processes, nor
the command line.

Imports nothing of: topology.runtime.process, topology.runtime.supervisor, topology.runtime.links.zeromq, subprocess,
  topology.cli
"""
