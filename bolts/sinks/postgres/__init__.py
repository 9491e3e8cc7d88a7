"""`PostgresSink`: records in tables of a PostgreSQL server, one transaction for each batch.

`sink` is the bolt, `writer` writes a batch, `connection` keeps one connection, `table` is one table. psycopg is an
extra, imported when the sink opens. Must not know batching.
"""
