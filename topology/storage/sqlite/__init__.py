"""A worker's store in SQLite: one file, one writer, and one transaction per commit.

`store.SqliteStore` is the store. Below it are the `database`, its `schema`, one module per kind of table, and the
write-ahead log (`wal`). Must not know what a value means.

Imports nothing of: topology.components, topology.groupings, topology.plan, topology.records,
  topology.storage.directory, topology.storage.rescale
"""
