"""The tables that only format 2 has: the journal, whose rows are those of known inputs, and floors, which are void."""

from typing import Final

from topology.storage.encoding import packing
from topology.storage.sqlite import tables
from topology.storage.sqlite.database import Database

FORMAT: Final = 2
_JOURNAL, _FLOORS = "journal", "floors"


class FormerRows:
    """The rows of these tables; none in a file of another format. Raises Damaged, ValueError, StoreBroken."""

    def __init__(self, database: Database, format: int) -> None:
        there = format == FORMAT
        self.tables = [tables.RowTable(name) for name in (_JOURNAL, _FLOORS)] if there else []
        found = {table.name: dict(tables.loaded(database, table)) for table in self.tables}
        self.entries = [packing.entries_of(body) for _, body in sorted(found.get(_JOURNAL, {}).items())]

    def remove(self, writing: tables.Writing) -> None:
        """Remove them within a transaction."""
        for table in self.tables:
            writing.remove_all(table, list(table.rows))
