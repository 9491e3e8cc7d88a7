"""`SqliteSink`: records in tables of an SQLite file that only this sink writes.

`sink` is the bolt, `writer` writes a batch, `file` owns the file, `table` is one table. Only `sink` knows batching; a
writer must not know who calls it.

Only sink imports: bolts.sinks.batching
Imports nothing of: asyncio
"""
