"""The SQLite table of one record class: its name, columns and statements, a record's row, and why an existing table
does not fit.

Pure: makes SQL and rows, and executes nothing. Identifiers are validated and quoted, values are always bound (S10).
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeAlias

from bolts.sinks import values
from bolts.sinks.keys import key_name
from bolts.sinks.rows import RecordTable, Row
from bolts.sinks.upsert import Upsert
from bolts.sinks.values import BadValue
from topology.codes.settings import CASE_CONFLICTING_COLUMNS, INVALID_SQLITE_TABLE_NAME, UNSUPPORTED_SQLITE_FIELD
from topology.errors import ConfigurationError
from topology.records import Record, field_types
from topology.text import printable

ColumnInfo: TypeAlias = tuple[Any, ...]  # a row of PRAGMA table_xinfo

SOUGHT_AT_ONCE: Final = 500  # keys that one SELECT looks for
_NAME_MAX: Final = 128  # characters of a table's name

# Python type → the column's type, and the function that prepares a value for it. All others are JSON in a TEXT column.
_COLUMNS: Final[dict[Any, tuple[str, Callable[[Any], Any]]]] = {
    int: ("INTEGER", values.whole),
    float: ("REAL", values.real),
    bool: ("INTEGER", lambda value: int(values.truth(value))),
    str: ("TEXT", values.text),
    bytes: ("BLOB", values.raw),
    datetime: ("TEXT", values.moment),
    Decimal: ("TEXT", values.plain(Decimal)),
}


def snake_case(name: str) -> str:
    """`BruteForce` → `brute_force`, `HTTPRequest` → `http_request`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def checked_table_name(name: str) -> str:
    """Return the name if a table can have it. Raises ConfigurationError."""
    if not isinstance(name, str) or not name.isidentifier() or len(name) > _NAME_MAX:
        raise ConfigurationError(
            f"{values.shown(name)} can't be a table's name: letters, digits and underscores, not a digit first, "
            f"at most {_NAME_MAX} characters",
            code=INVALID_SQLITE_TABLE_NAME,
        )
    if name.lower().startswith("sqlite_"):
        text = f"{name!r} can't be a table's name: SQLite keeps names with sqlite_ to itself"
        raise ConfigurationError(text, code=INVALID_SQLITE_TABLE_NAME)
    return name


def quoted(name: str) -> str:
    """Return an identifier in quotes: reserved words and quotes in it mean nothing."""
    return '"' + name.replace('"', '""') + '"'


class SqliteTable(RecordTable):
    """The table of one record class. Raises ConfigurationError if SQLite cannot have such a table.

    In append mode it also has a column for the sink's key, which is the primary key. In upsert mode the primary key is
    the user's fields, and `key` is None.
    """

    def __init__(self, cls: type[Record], name: str | None = None, upsert: Upsert | None = None) -> None:
        table = checked_table_name(snake_case(cls.__name__) if name is None else name)
        kinds = field_types(cls)
        folded = [field.lower() for field in kinds]
        for field in kinds:
            if folded.count(field.lower()) > 1:
                text = f"{cls.__name__} has fields that differ from {field!r} in case only: one column of a table"
                raise ConfigurationError(text, code=CASE_CONFLICTING_COLUMNS)
        columns = {field: _column(cls, field, kind) for field, kind in kinds.items()}
        super().__init__(cls, table, upsert, {field: convert for field, (_, _, convert) in columns.items()})
        self.columns = {field: (kind, nullable) for field, (kind, nullable, _) in columns.items()}
        self.key: str | None = None
        if upsert is None:
            self.key = key_name(self._fields)
            self.columns[self.key] = ("BLOB", False)
            self.primary: tuple[str, ...] = (self.key,)
            self._make_append()
        else:
            self.primary = upsert.key
            self._make_upsert(upsert)

    def _make_append(self) -> None:
        (only,) = self.primary
        table, key = quoted(self.name), quoted(only)
        self._make_common(f"ON CONFLICT ({key}) DO NOTHING")
        # The column is qualified: a lone "key" that is no column would be read as a text, by an old habit of SQLite's.
        # No table has the name "sought keys", with its space.
        # CROSS JOIN: SQLite keeps the order of the tables, and so looks for each pair in the index.
        find = (
            f'SELECT {table}.{key} FROM "sought keys" CROSS JOIN {table} '
            f'WHERE {table}.{key} BETWEEN "sought keys".least AND "sought keys".most'
        )
        self.find = {  # number of pairs → the statement that finds the keys between so many pairs of bounds
            count: f"""WITH "sought keys"(least, most) AS (VALUES {", ".join(["(?, ?)"] * count)}) {find}"""
            for count in (SOUGHT_AT_ONCE, 1)
        }
        self.newest = "rowid"

    def _make_upsert(self, upsert: Upsert) -> None:
        table, revision = quoted(self.name), quoted(upsert.revision)
        others = [name for name in self.columns if name not in upsert.key]
        self._make_common(
            f"ON CONFLICT ({', '.join(map(quoted, upsert.key))}) DO UPDATE SET "
            f"{', '.join(f'{quoted(name)} = excluded.{quoted(name)}' for name in others)} "
            f"WHERE excluded.{revision} > {table}.{revision}"
        )
        names = ", ".join(f"{table}.{quoted(name)}" for name in self.columns)
        where = " AND ".join(f"{table}.{quoted(name)} = ?" for name in upsert.key)
        self.known = f"SELECT {names} FROM {table} WHERE {where}"
        self.newest = revision

    def _make_common(self, conflict: str) -> None:
        table, names = quoted(self.name), ", ".join(map(quoted, self.columns))
        declared = [
            f"{quoted(name)} {kind}{'' if nullable else ' NOT NULL'}" for name, (kind, nullable) in self.columns.items()
        ]
        declared.append(f"PRIMARY KEY ({', '.join(map(quoted, self.primary))})")
        self.create = f"CREATE TABLE {table} ({', '.join(declared)}) STRICT"
        self.insert = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(self.columns))}) {conflict}"

    def differences(self, found: Sequence[ColumnInfo]) -> list[str]:
        """Return the reasons why rows of this class do not fit a table with these columns; empty if they fit.

        Further columns are allowed if a row may leave them out.
        """
        there = {info[1].lower(): info for info in found}
        said = []
        for name, (kind, nullable) in self.columns.items():
            info = there.pop(name.lower(), None)
            if info is None:
                said.append(f"it has no column {name!r} ({kind})")
            elif info[2].upper() != kind:
                said.append(f"its column {name!r} is {info[2] or 'untyped'}, and {kind} is wanted")
            elif nullable and info[3]:
                said.append(f"its column {name!r} is NOT NULL, and the field may be None")
            elif (name in self.primary) != bool(info[5]):
                said.append(f"its column {name!r} is {'not ' if name in self.primary else ''}part of the primary key")
        for info in there.values():
            if info[5] or (info[3] and info[4] is None):
                said.append(f"its column {info[1]!r}, which {self.cls.__name__} does not have, must be given a value")
        return said


def _column(cls: type[Record], field: str, annotation: Any) -> tuple[str, bool, Callable[[Any], Any]]:
    """Return the column's type, True if it may be NULL, and the function that prepares a value for it."""
    inner, nullable = values.without_none(annotation)
    try:
        kind, convert = _storage(inner)
    except BadValue as error:
        raise ConfigurationError(f"{cls.__name__}.{field}: {error}", code=UNSUPPORTED_SQLITE_FIELD) from error
    return kind, nullable, values.or_none(convert) if nullable else convert


def _storage(kind: Any) -> tuple[str, Callable[[Any], Any]]:
    if kind in _COLUMNS:
        return _COLUMNS[kind]
    plain = values.plain(kind)
    if (only := values.only_type(kind)) in _COLUMNS and (column := _COLUMNS[only][0]) in ("INTEGER", "REAL", "TEXT"):
        return column, lambda value: int(made) if isinstance(made := plain(value), bool) else made
    return "TEXT", lambda value: values.encode_json(plain(value)).decode()


def data_problem(table: SqliteTable, row: Row, error: Exception) -> str:
    """Return the sentence about a row that SQLite itself has refused."""
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    fields = [pair for pair in zip(table.columns, row, strict=True) if pair[0] != table.key]
    shown = ", ".join(f"{column}={values.shown(value)}" for column, value in fields)
    return f"{table.cls.__name__}: table {table.name!r} refuses the row ({name}: {error}); {shown:.300}"


# Primary result codes of errors that a row or its table causes, not the store: a constraint or trigger, a type, a size,
# and a trigger or index of the user's that does not work (SQLITE_ERROR).
_DATA_CODES: Final = frozenset(
    {sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_ERROR}
)


def is_data_error(error: BaseException) -> bool:
    """Return True if some row of a batch is the cause, so that the other rows can be stored."""
    if isinstance(error, sqlite3.DataError | OverflowError | UnicodeError):
        return True
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _DATA_CODES


ROWS_MAX: Final = 30  # rows of one table that are shown
WIDTH_MAX: Final = 40  # characters of one value that are shown


def row_lines(path: Path, shown_path: str, tables: Sequence[SqliteTable]) -> Iterator[str]:
    """Yield lines of text, a few for each table. Blocks while it reads. Raises sqlite3.Error if the file cannot be
    read."""
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
