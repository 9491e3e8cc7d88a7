"""Find the message that takes its worker down: try suspects one at a time, and give up the guilty one.

`trials` runs the trials of one worker, `suspects` decides which messages are tried, and `turns` lets one worker try at
a time. Must not know how a process dies.

Imports nothing of: os, signal, topology.runtime.os_process, topology.runtime.process, topology.runtime.supervisor,
  topology.runtime.links
"""
