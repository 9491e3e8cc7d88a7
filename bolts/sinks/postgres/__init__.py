"""`PostgresSink`: records in tables of a PostgreSQL server, one transaction for each batch.

`sink` is the bolt, `writer` writes a batch, `connection` keeps one connection, `table` is one table. psycopg is an
extra, imported when the sink opens. Only `sink` knows batching; a writer must not know who calls it.

Only sink imports: bolts.sinks.batching
Imports nothing of: asyncio
"""
