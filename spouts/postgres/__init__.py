"""`PostgresSource`: the rows of a table of PostgreSQL, or of a query, as messages.

`source` is what a user declares; `growing` reads rows by a growing number, and `outbox` reads rows and deletes those
that are settled. `statements` makes the SQL, `session` is one connection, `address` a connection string, `wakeups`
hears NOTIFY, and `table_checks` looks at what is to be read. psycopg is an extra, imported when a source is opened.
Must not know how a row becomes a record.

Imports nothing of: spouts.servers, spouts.file_tail, topology.runtime
"""
