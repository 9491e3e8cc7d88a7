"""A worker's store in SQLite: one file, one writer, and one transaction for each commit.

`store.SqliteStore` is the store; below it are the `database`, its `schema`, a table in each file, and the log (`wal`).
Must not know what a value means.
"""
