"""The table of one record class in PostgreSQL: its name, columns and statements, a record's row, and why an existing
table does not fit.

Pure: makes SQL and rows, and executes nothing. Identifiers are validated and quoted, values are always bound (S10). A
batch is one parameter, a JSON text: it costs the least of all ways that were measured. The measured rows/s, of batches
of 500 and of 8,000, with one commit each: 11,000 and 90,000 by COPY into a temporary table, 93,000 and 98,000 by
arrays, 131,000 and 128,000 by JSON, which takes a fifth of the client's CPU that arrays take.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import starmap
from typing import Any, Final

import msgspec

from bolts.sinks import values
from bolts.sinks.keys import KEY_BYTES, PAIR_BYTES, key_name
from bolts.sinks.rows import RecordTable, Row
from bolts.sinks.sqlite.table import snake_case
from bolts.sinks.upsert import Upsert
from bolts.sinks.values import BadValue
from topology.codes.settings import INVALID_POSTGRES_COLUMN_NAME, INVALID_POSTGRES_NAME, UNSUPPORTED_POSTGRES_FIELD
from topology.errors import ConfigurationError
from topology.records import Record, field_types

NAME_BYTES_MAX: Final = 63  # bytes of an identifier in UTF-8; PostgreSQL cuts longer ones silently
_SYSTEM_COLUMNS: Final = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_encode_rows = msgspec.json.Encoder().encode  # bytes become base64

JSONB: Final = "jsonb"
BYTEA: Final = "bytea"


def _characters_column(column: Sequence[Any]) -> Sequence[Any] | None:
    texts = values.text_column(column)
    return None if texts is None or "\0" in "".join(texts) else texts


@values.at_once(_characters_column)
def _characters(value: Any) -> str:
    """Return the text if PostgreSQL can store it."""
    made = values.text(value)
    if "\0" in made:
        raise BadValue(f"{values.shown(made)} has a NUL, which PostgreSQL's texts can't have")
    return made


# Python type → the column's type, and the function that prepares a value for it. All others are JSON in a jsonb column.
_COLUMNS: Final[dict[Any, tuple[str, Callable[[Any], Any]]]] = {
    int: ("bigint", values.whole),
    float: ("double precision", values.real),
    bool: ("boolean", values.truth),
    str: ("text", _characters),
    bytes: (BYTEA, values.raw),
    datetime: ("timestamp with time zone", values.moment),
    Decimal: ("numeric", values.plain(Decimal)),
}
_AS_GOOD: Final = {"text": ("character varying",)}  # types of existing tables that also hold every value of ours


@dataclass(frozen=True)
class PostgresColumn:
    """A column, ours or of an existing table. `given`: a row may omit it although it is not nullable."""

    name: str
    kind: str  # as format_type() prints it
    nullable: bool
    given: bool = False
    computed: bool = False  # GENERATED ALWAYS: no row can set it


@dataclass(frozen=True)
class ExistingTable:
    """An existing table. `unique`: the columns of each unique index that a conflict can name."""

    kind: str  # pg_class.relkind: "r" a table, "p" a partitioned one, "v" a view …
    persistence: str  # "p": survives a crash of the server
    columns: Sequence[PostgresColumn]
    unique: Sequence[tuple[str, ...]]


def checked_name(name: str, what: str) -> str:
    """Return the name if a table or a schema can have it. Raises ConfigurationError."""
    good = isinstance(name, str) and name.isidentifier() and len(name.encode()) <= NAME_BYTES_MAX
    if not good or name.lower().startswith("pg_"):
        raise ConfigurationError(
            f"{values.shown(name)} can't be a {what}'s name: letters, digits and underscores, not a digit first, at "
            f"most {NAME_BYTES_MAX} bytes, and not pg_…, which PostgreSQL keeps to itself",
            code=INVALID_POSTGRES_NAME,
        )
    return name


def quoted(name: str) -> str:
    """Return an identifier in quotes: reserved words and quotes in it mean nothing."""
    return '"' + name.replace('"', '""') + '"'


class PostgresTable(RecordTable):
    """The table of one record class. Raises ConfigurationError if PostgreSQL cannot have such a table."""

    def __init__(
        self, cls: type[Record], name: str | None = None, schema: str | None = None, upsert: Upsert | None = None
    ) -> None:
        table = checked_name(snake_case(cls.__name__) if name is None else name, "table")
        schemas = () if schema is None else (checked_name(schema, "schema"),)
        kinds = field_types(cls)
        _check_fields(cls, tuple(kinds))
        made = {field: _column(cls, field, kind) for field, kind in kinds.items()}
        super().__init__(
            cls, ".".join((*schemas, table)), upsert, {field: convert for field, (_, convert) in made.items()}
        )
        self.sql = ".".join(map(quoted, (*schemas, table)))
        self.print = ""  # the hash of the table's definition at the last comparison
        self.columns = [column for column, _ in made.values()]
        if upsert is None:
            self.key: tuple[str, ...] = (key_name(self._fields),)
            self.columns.append(PostgresColumn(self.key[0], BYTEA, nullable=False))
        else:
            self.key = upsert.key
        self._aliases = [f"c{index}" for index in range(len(self.columns))]
        self._aliased = msgspec.defstruct("Aliased", self._aliases, gc=False)  # encoded as an object
        self._make_statements()

    def _make_statements(self) -> None:
        names = ", ".join(quoted(column.name) for column in self.columns)
        keys = ", ".join(map(quoted, self.key))
        declared = [
            f"{quoted(column.name)} {column.kind}{'' if column.nullable else ' NOT NULL'}" for column in self.columns
        ]
        if self.upsert is None:
            declared.append(f"CHECK (octet_length({keys}) = {KEY_BYTES})")
        self.create = f"CREATE TABLE {self.sql} ({', '.join(declared)}, PRIMARY KEY ({keys}))"
        aliased = list(zip(self._aliases, self.columns, strict=True))
        given = ", ".join(f"decode({alias}, 'base64')" if c.kind == BYTEA else alias for alias, c in aliased)
        shape = ", ".join(f"{alias} {'text' if c.kind == BYTEA else c.kind}" for alias, c in aliased)
        insert = f"INSERT INTO {self.sql} AS t ({names}) SELECT {given} FROM"
        if self.upsert is None:
            self.insert = self._appending(f"{insert} json_to_recordset($1::json) AS r({shape})", keys)
        else:
            source = f"json_to_recordset($1::json) AS ({shape})"
            insert = f"{insert} r ON CONFLICT ({keys}) DO UPDATE"
            self.insert = self._upserting(source, insert, quoted(self.upsert.revision))

    def _appending(self, insert: str, key: str) -> str:
        """Return the statement that inserts rows and gives the new keys, each with True if its pair had another content
        (B2).

        A statement does not see the rows that it inserts itself, so the caller compares the rows of one batch.
        """
        pair = f"substring(f.{key} FOR {PAIR_BYTES})"
        least, most = ("'\\x" + byte * (KEY_BYTES - PAIR_BYTES) + "'::bytea" for byte in ("00", "ff"))
        other = f"SELECT FROM {self.sql} AS t WHERE t.{key} BETWEEN {pair} || {least} AND {pair} || {most}"
        fresh = f"{insert} ON CONFLICT ({key}) DO NOTHING RETURNING t.{key}"
        return f"WITH f AS ({fresh}) SELECT f.{key}, EXISTS ({other}) FROM f"

    def _upserting(self, source: str, insert: str, revision: str) -> str:
        """Return the statement that stores rows of a higher revision.

        It gives a null for each stored row. It also gives the place in the batch, from 1, of each row that differs from
        the stored row of its key and revision.
        """
        changes, differs, same = [], [], []
        for alias, column in zip(self._aliases, self.columns, strict=True):
            name, value = quoted(column.name), f"r.{alias}"
            value = f"decode({value}, 'base64')" if column.kind == BYTEA else value
            if column.name in self.key:
                same.append(f"t.{name} = {value}")
            else:
                changes.append(f"{name} = excluded.{name}")
                differs.append(f"t.{name} IS DISTINCT FROM {value}")
                same += [f"t.{name} = {value}"] if name == revision else []
        aliases = ", ".join(self._aliases)
        batch = f"r AS MATERIALIZED (SELECT * FROM ROWS FROM ({source}) WITH ORDINALITY AS r({aliases}, at))"
        stored = f"{insert} SET {', '.join(changes)} WHERE excluded.{revision} > t.{revision} RETURNING 1"
        other = f"SELECT r.at FROM r JOIN {self.sql} AS t ON {' AND '.join(same)} WHERE {' OR '.join(differs)}"
        return f"WITH {batch}, f AS ({stored}) SELECT NULL::bigint FROM f UNION ALL {other}"

    def batch(self, rows: Iterable[Row]) -> str:
        """Return the parameter of `insert`."""
        return _encode_rows([*starmap(self._aliased, rows)]).decode()

    def differences(self, found: ExistingTable) -> list[str]:
        """Return the reasons why rows of this class do not fit such a table; empty if they fit.

        Further columns are allowed if a row may leave them out.
        """
        if found.kind not in ("r", "p"):
            return ["it is no table"]
        said = [] if found.persistence == "p" else ["it is UNLOGGED or temporary, and would not survive a crash"]
        there = {column.name: column for column in found.columns}
        for wanted in self.columns:
            column = there.pop(wanted.name, None)
            if column is None:
                said.append(f"it has no column {wanted.name!r} ({wanted.kind})")
            elif column.kind not in (wanted.kind, *_AS_GOOD.get(wanted.kind, ())):
                said.append(f"its column {wanted.name!r} is {column.kind}, and {wanted.kind} is wanted")
            elif column.computed:
                said.append(f"its column {wanted.name!r} is computed")
            elif wanted.nullable and not column.nullable:
                said.append(f"its column {wanted.name!r} is NOT NULL, and the field may be None")
        for column in there.values():
            if not (column.nullable or column.given or column.computed):
                said.append(
                    f"its column {column.name!r}, which {self.cls.__name__} does not have, must be given a value"
                )
        if not any(sorted(columns) == sorted(self.key) for columns in found.unique):
            said.append(f"it has no PRIMARY KEY or unique index on ({', '.join(self.key)})")
        return said


def _check_fields(cls: type[Record], fields: Sequence[str]) -> None:
    for field in fields:
        if field in _SYSTEM_COLUMNS or len(field.encode()) > NAME_BYTES_MAX:
            why = "has a column of that name of its own" if field in _SYSTEM_COLUMNS else "would cut the name"
            raise ConfigurationError(
                f"{cls.__name__}.{field} can't be a column: PostgreSQL {why}", code=INVALID_POSTGRES_COLUMN_NAME
            )


def _column(cls: type[Record], field: str, annotation: Any) -> tuple[PostgresColumn, Callable[[Any], Any]]:
    """Return the column of a field, and the function that prepares a value for it."""
    inner, nullable = values.without_none(annotation)
    try:
        kind, convert = _storage(inner)
    except BadValue as error:
        raise ConfigurationError(f"{cls.__name__}.{field}: {error}", code=UNSUPPORTED_POSTGRES_FIELD) from error
    convert = values.or_none(convert) if nullable else convert
    return PostgresColumn(field, kind, nullable or _takes_none(convert)), convert


def _takes_none(convert: Callable[[Any], Any]) -> bool:
    """Return True if the conversion takes None, as that of a Literal with None does: in jsonb it is NULL as well."""
    try:
        return convert(None) is None
    except BadValue:
        return False


def _storage(kind: Any) -> tuple[str, Callable[[Any], Any]]:
    if kind in _COLUMNS:
        return _COLUMNS[kind]
    plain, only = values.plain(kind), values.only_type(kind)
    return (_COLUMNS[only][0] if only in (int, float, bool, str) else JSONB), plain


def shown_row(table: PostgresTable, row: Row) -> str:
    """Return a row as a message may repeat it."""
    pairs = zip(table.columns, row, strict=True)
    shown = ", ".join(
        f"{c.name}={values.shown(value)}" for c, value in pairs if c.kind != BYTEA or c.name not in table.key
    )
    return f"{shown:.300}"
