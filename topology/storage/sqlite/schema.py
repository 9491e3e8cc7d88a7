"""Tables of a worker's file, and the creation of a new file. Must not know what is in them.

Docs: explanation/state-format.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from topology.filesystem.files import Files
from topology.storage.sqlite import state_table, tables
from topology.storage.sqlite.database import APPLICATION, Damaged, Database, Unusable
from topology.storage.sqlite.errors import can_not_open
from topology.storage.sqlite.header import Own, create_own
from topology.storage.store import StoreBroken, StoreFull

FORMAT: Final = 2  # of worker-N.db
ID_BYTES: Final = 16
SINCE_2: Final = ("components", "journal", "floors")  # components: the numbers that rows of state have

_TABLES: Final = ("marks", "begun", "trials", "letters", "contents")  # contents: letters' records and tracebacks


def create_store(files: Files, path: Path, *, id: bytes, number: int, first_letter: int = 1) -> None:
    """Create a new, empty file, durable on return. The remains of an earlier try at `path` are replaced: the caller
    knows that nothing was ever kept in them. Raises StartError."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-journal"):
        with contextlib.suppress(FileNotFoundError):
            files.remove(path.with_name(name))
    files.create(path, b"")
    try:
        database = Database(files, path, new=True)
        try:
            with database.transaction():
                database.run(f"PRAGMA application_id = {APPLICATION}")
                add_tables(database, (*_TABLES, *SINCE_2))
                create_own(database, Own(id, number, commits=1, next_letter=first_letter))
            database.checkpoint()
        finally:
            database.close()
        files.sync_directory(path.parent)
    except (Damaged, Unusable, StoreFull, StoreBroken) as error:
        can_not_open(path, str(error))


def add_tables(database: Database, names: Sequence[str]) -> None:
    """Add tables within a transaction; the file then has this format."""
    for name in names:
        tables.create(database, name)
    state_table.create(database)
    database.run(f"PRAGMA user_version = {FORMAT}")
