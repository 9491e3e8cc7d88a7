"""The output of the command line: the live view, progress lines, the summary, logs and tables.

`terminal` writes to the screen; the other files make lines. Must not know how a run works.

Imports nothing of: topology.runtime.worker, topology.runtime.supervisor, topology.runtime.embedded, topology.storage,
  topology.loading
"""
