"""`SqliteSink`: records in tables of an SQLite file that only this sink writes.

`sink` is the bolt, `writer` writes a batch, `file` owns the file, `table` is one table. Must not know batching.
"""
