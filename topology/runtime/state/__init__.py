"""Executors of bolts with state: the value of a key, the inputs that changed it, what they emitted, and timers.

`keyed_executor` runs one input of a key at a time; `committed`, `in_memory` and `rebuilt` keep state in a store, in
memory, or rebuild it from inputs. Must not know how a commit is written.

Imports nothing of: topology.storage.sqlite.store, topology.storage.directory, topology.runtime.links,
  topology.runtime.worker, apsw
"""
