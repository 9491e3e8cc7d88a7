"""What is in a sink's tables, for people: how many rows, and the newest ones.

Reads the file through a connection of its own, as anybody may; changes nothing, and must not know the store or tuples.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bolts.sqlite_table import Table, quoted
from topology.text import printable

ROWS_MAX: Final = 30  # shown of one table
WIDTH_MAX: Final = 40  # characters of one value that are shown


def rows_told(path: Path, shown_path: str, tables: Sequence[Table]) -> Iterator[str]:
    """Lines of text, a few for each table. Blocks while it reads. Raises sqlite3.Error where the file can't be read."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=1.0)
    try:
        for table in tables:
            name = quoted(table.name)
            columns = [column for column in table.columns if column != table.key]
            (count,) = connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()
            names = ", ".join(map(quoted, columns))
            newest = connection.execute(
                f"SELECT {names} FROM {name} ORDER BY {table.newest} DESC LIMIT {ROWS_MAX}"
            ).fetchall()
            yield f"{count:,} {'row' if count == 1 else 'rows'} in {printable(shown_path)}, table {table.name}" + (
                f"; the newest {ROWS_MAX}:" if count > ROWS_MAX else ":" if count else ""
            )
            if newest:
                yield from _aligned([columns, *([_shown(value) for value in row] for row in reversed(newest))])
    finally:
        connection.close()


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    text = value.hex() if isinstance(value, bytes) else printable(str(value)).replace(".000000Z", "Z")
    return text if len(text) <= WIDTH_MAX else f"{text[: WIDTH_MAX - 1]}…"
