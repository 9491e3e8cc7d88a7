"""What the end of a run shows of a sink's tables."""

import sqlite3
from pathlib import Path

from bolts.sinks.sqlite.table import ROWS_MAX, SqliteTable, row_lines
from topology import Record


class Alert(Record):
    name: str
    count: int
    note: str | None


def stored(folder: Path, rows: list[tuple[str, int, str | None]], create: str = "") -> list[str]:
    path = folder / "a store.db"
    table = SqliteTable(Alert)
    connection = sqlite3.connect(path)
    connection.execute(create or table.create)
    connection.executemany(table.insert, [(*row, number.to_bytes(32, "big")) for number, row in enumerate(rows)])
    connection.commit()
    connection.close()
    return list(row_lines(path, "a store.db", [table]))


def test_rows_stand_in_columns_without_the_key(tmp_path: Path) -> None:
    assert stored(tmp_path, [("long name", 1, None), ("x", 12, "y")]) == [
        "2 rows in a store.db, table alert:",
        "  name       count  note",
        "  long name  1      NULL",
        "  x          12     y",
    ]


def test_an_empty_table_is_told_in_one_line(tmp_path: Path) -> None:
    assert stored(tmp_path, []) == ["0 rows in a store.db, table alert"]


def test_of_many_rows_the_newest_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    lines = stored(tmp_path, [("n", number, None) for number in range(1000)])
    assert lines[0] == f"1,000 rows in a store.db, table alert; the newest {ROWS_MAX}:"
    assert len(lines) == ROWS_MAX + 2
    assert lines[-1].split() == ["n", "999", "NULL"]


def test_values_are_cut_and_their_control_characters_escaped(tmp_path: Path) -> None:
    shown = stored(tmp_path, [("\x1b[2J\n", 1, "x" * 500)])[-1]
    assert shown.split() == ["\\x1b[2J\\n", "1", "x" * 39 + "…"]
