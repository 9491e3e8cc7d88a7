"""The checkpoint that a store has prepared, packed: in several rows if it is long. Must not know when it is decided."""

from typing import Final

from topology.storage.encoding.prepared import changes_of, packed_changes
from topology.storage.sqlite import tables
from topology.storage.sqlite.database import Database
from topology.storage.values import Changes

PART_BYTES: Final = 64 << 20  # of a row
_KEY_BYTES: Final = 2


class PreparedRows:
    """The rows of one open file, which has them if it is `there`. `found` is what they have when they are loaded: the
    number of the checkpoint and its changes. Raises Damaged, ValueError, StoreBroken."""

    def __init__(self, database: Database, *, there: bool) -> None:
        self.table = tables.RowTable("prepared")
        parts = sorted(tables.loaded(database, self.table)) if there else []
        self.found = changes_of(b"".join(body for _, body in parts)) if parts else None

    def put(self, writing: tables.Writing, checkpoint: int, changes: Changes) -> None:
        """Replace what is there, within a transaction."""
        body = packed_changes(checkpoint, changes)
        parts = [body[start : start + PART_BYTES] for start in range(0, len(body), PART_BYTES)]
        keys = [number.to_bytes(_KEY_BYTES, "big") for number in range(len(parts))]
        for key, part in zip(keys, parts, strict=True):
            writing.put(self.table, key, part)
        writing.remove_all(self.table, self.table.rows.keys() - {*keys})

    def clear(self, writing: tables.Writing) -> None:
        """Remove what is there, within a transaction."""
        writing.remove_all(self.table, list(self.table.rows))
