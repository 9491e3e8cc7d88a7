"""The byte forms of stored values. Golden files in the tests fix them; a change needs a new format number.

`packing` is the main one; `state`, `journal`, `floors` and `letter_pages` have one kind each. Must not know SQLite, nor
when anything is stored.

Imports nothing of: topology.storage.sqlite, topology.storage.directory, topology.filesystem, apsw, sqlite3
"""
