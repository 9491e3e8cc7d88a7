"""Executors of bolts with state: the value of a key, the inputs that changed it, what they emitted, and timers.

`keyed_executor` runs one input of a key at a time. `keyed_work` is the way of an input, and may be compiled, with
`lookups`, `known_input` and `state_value`, which it looks up and makes. `state_executor` drives bolts whose state lives
in `key_values` and whose inputs are in `known_inputs`; `logged_work` waits for the log. `rebuilt` makes state of the
inputs that there are. Must not know how a checkpoint is written.

Imports nothing of: topology.storage.sqlite.store, topology.storage.directory, topology.runtime.links,
  topology.runtime.worker, apsw
"""
