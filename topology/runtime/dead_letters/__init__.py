"""Dead letters: messages that are no longer replayed, stored with the reason, read by bolts, and replayed on demand.

Start at `dead_letters`, which joins the parts. `letter_store` keeps the letters of a worker. `deliveries` and
`subscribers` bring a letter to bolts that read it. `replay` emits its message again. `queries` answers commands. Must
not know how a store is written.

Imports nothing of: topology.storage.sqlite, topology.storage.directory, topology.runtime.links,
  topology.runtime.worker, topology.runtime.run
"""
