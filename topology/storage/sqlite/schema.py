"""Tables of a worker's file, and the creation of a new file. Must not know what is in them.

Docs: explanation/state-format.
"""

import contextlib
from pathlib import Path
from typing import Final

from topology.filesystem.files import Files
from topology.storage.sqlite import state_table, tables
from topology.storage.sqlite.database import APPLICATION, Damaged, Database, Unusable
from topology.storage.sqlite.errors import can_not_open
from topology.storage.sqlite.header import Own, create_own
from topology.storage.store import StoreBroken, StoreFull

FORMAT: Final = 3  # of worker-N.db
ID_BYTES: Final = 16
# tables by the format that they came with; contents: letters' records and tracebacks; components: the numbers that rows
# of state have; prepared: a checkpoint that is not decided yet
_SINCE: Final = {
    1: ("marks", "begun", "trials", "letters", "contents"),
    2: ("components",),
    3: ("entries", "prepared"),
}
_FORMER: Final = ("journal", "floors")  # tables that only format 2 has


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
                add_tables(database, 0)
                create_own(database, Own(id, number, commits=1, next_letter=first_letter))
            database.checkpoint()
        finally:
            database.close()
        files.sync_directory(path.parent)
    except (Damaged, Unusable, StoreFull, StoreBroken) as error:
        can_not_open(path, str(error))


def add_tables(database: Database, format: int) -> None:
    """Add the tables that a file of this format lacks, within a transaction, and remove those that it has no more; the
    file then has the present format."""
    for since, names in _SINCE.items():
        for name in names if since > format else ():
            tables.create(database, name)
    if format < 2:
        state_table.create(database)
    for name in _FORMER if format == 2 else ():
        database.run(f"DROP TABLE {name}")
    database.run(f"PRAGMA user_version = {FORMAT}")
