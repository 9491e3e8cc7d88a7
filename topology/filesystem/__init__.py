"""The file operations that all durable data goes through: synced, atomic, locked, and safe in a shared folder.

One place for each: `sync` (fsync, and F_FULLFSYNC on macOS), `safe_files` (a file is written beside its place and
renamed, and no planted link is followed), `files` (the operations that a simulated disk can stand in for) and
`lock_holders`. Must not know what is in a file, nor what a failure means for a run.

Imports nothing of: topology, acker, apsw, sqlite3
"""
