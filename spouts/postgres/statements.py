"""The statements of a source, for one table or query, and what is known of its columns.

Pure: makes SQL, and runs none. Names are quoted. Values are numbers, or texts that `literal` quotes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

INTEGERS: Final = frozenset({20, 21, 23})  # type oids of bigint, smallint and integer
TEXTS: Final = {25: "text", 1043: "varchar", 2950: "uuid"}  # type oid → name
NAME_BYTES_MAX: Final = 63  # bytes of a name in UTF-8; the server cuts longer ones silently
_BYTEA: Final = 17  # type oid
_KEY: Final = '"kedge:key"'  # the column of ours with the row's number, beside those of the user

# The transactions that may still insert rows with lower numbers. A writer of a table holds this lock from before it
# draws a number until its rows are visible, or never will be. Our own locks in this transaction name the tables.
# Indexes do not count: VACUUM, which writes no rows, holds this lock on them. Nor does the table of this very query.
WRITERS: Final = (
    "SELECT DISTINCT l.virtualtransaction, l.pid FROM pg_locks AS l"
    " WHERE l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'"
    " AND l.pid IS DISTINCT FROM pg_backend_pid()"
    " AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())"
    " AND l.relation IN (SELECT m.relation FROM pg_locks AS m JOIN pg_class AS c ON c.oid = m.relation"
    " WHERE m.locktype = 'relation' AND m.pid = pg_backend_pid() AND m.mode = 'AccessShareLock'"
    " AND c.relkind IN ('r', 'p') AND c.oid <> 'pg_catalog.pg_class'::regclass)"
)
# Tables whose writers the locks do not show: foreign tables, and the tables behind a materialized view.
UNSEEN: Final = (
    "SELECT c.relname, c.relkind FROM pg_locks AS m JOIN pg_class AS c ON c.oid = m.relation"
    " WHERE m.locktype = 'relation' AND m.pid = pg_backend_pid() AND c.relkind IN ('f', 'm')"
)


@dataclass(frozen=True)
class RowColumn:
    """A column of a result. `table` and `number`: the oid of its table and its place there; 0 if it is computed."""

    name: str
    kind: int  # type oid
    table: int = 0
    number: int = 0


@dataclass
class RowStatements:
    """The SQL of one source.

    rows    What stands behind FROM: a quoted table, or a query in brackets.
    column  The name of the column that names a row.
    tasks, index  The task's share of the rows.
    kind    The type oid of `column`, once `described` was called.
    """

    rows: str
    column: str
    tasks: int = 1
    index: int = 0
    kind: int = 20
    _fields: str = field(default="", init=False)

    @property
    def describe(self) -> str:
        return f"SELECT * FROM {self.rows} AS q LIMIT 0"

    def described(self, columns: Sequence[RowColumn], wanted: Iterable[str] | None) -> None:
        """Take note of the columns there are. `wanted`: the names of those to read; None: all of them."""
        there = {column.name: column.kind for column in columns}
        self.kind = there[self.column]
        names = [name for name in (there if wanted is None else wanted) if name in there]
        self._fields = ", ".join(_field(name, there[name]) for name in names)

    @property
    def _key(self) -> str:
        return f"q.{quoted(self.column)}"

    def highest(self, after: int | None) -> str:
        """Return the highest number above `after`, of all tasks."""
        lower = "" if after is None else f" WHERE {self._key} > {after}"
        return f"SELECT max({self._key}) FROM {self.rows} AS q{lower}"

    def growing(self, after: int | None, until: int, limit: int) -> str:
        """Return rows by their numbers, and all rows of the last number."""
        lower = [] if after is None else [f"{self._key} > {after}"]
        return self._selected([*lower, f"{self._key} <= {until}"], f"{limit} ROWS WITH TIES")

    def outside(self, after: str | None, known: Iterable[str], limit: int) -> str:
        """Return rows by their keys that are not among the known ones."""
        lower = [] if after is None else [f"{self._key} > {self._literal(after)}"]
        others = f"{self._key} NOT IN (SELECT unnest({self._array(known)}))"
        return self._selected([*lower, others], f"{limit} ROWS ONLY")

    @property
    def delete_none(self) -> str:
        """Delete no row: the server refuses it if it would refuse to delete any row."""
        return f"DELETE FROM {self.rows} AS q WHERE false"

    def delete(self, keys: Iterable[str]) -> str:
        return f"DELETE FROM {self.rows} AS q WHERE {self._key} = ANY({self._array(keys)})"

    def _selected(self, conditions: list[str], limit: str) -> str:
        """Return the key of each row, and the row as JSON, which is made of the selected rows only."""
        key, where = self._key, " AND ".join([*conditions, *self._share()])
        rows = f"SELECT {key} AS {_KEY}, q.* FROM {self.rows} AS q WHERE {where} ORDER BY {key} FETCH FIRST {limit}"
        made = f"LATERAL (SELECT {self._fields}) AS j"
        return f"SELECT r.{_KEY}, row_to_json(j)::text FROM ({rows}) AS r, {made}"

    def _share(self) -> list[str]:
        if self.tasks == 1:
            return []
        number = f"{self._key}::bigint" if self.kind in INTEGERS else f"hashtext({self._key}::text)"
        # the remainder of a negative number is negative
        return [f"{number} % {self.tasks} IN ({self.index}, {self.index - self.tasks})"]

    def _literal(self, key: str) -> str:
        return str(int(key)) if self.kind in INTEGERS else f"{literal(key)}::{TEXTS[self.kind]}"

    def _array(self, keys: Iterable[str]) -> str:
        if self.kind in INTEGERS:
            return f"'{{{','.join([str(int(key)) for key in keys])}}}'::bigint[]"
        return f"ARRAY[{', '.join(map(literal, keys))}]::{TEXTS[self.kind]}[]"


def sequence_of(column: RowColumn) -> str:
    """Return a query for the sequences that a column's numbers are drawn from: the name, CACHE, INCREMENT, CYCLE, and
    the last value, which is NULL if it may not be seen."""
    seen = "has_sequence_privilege(s.seqrelid, 'USAGE') OR has_sequence_privilege(s.seqrelid, 'SELECT')"
    last = f"CASE WHEN {seen} THEN coalesce(pg_sequence_last_value(s.seqrelid), 0) END"
    return (
        f"SELECT s.seqrelid::regclass::text, s.seqcache, s.seqincrement, s.seqcycle, {last}"
        " FROM pg_sequence AS s WHERE s.seqrelid IN (SELECT d.objid FROM pg_depend AS d"
        " WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass"
        f" AND d.refobjid = {column.table} AND d.refobjsubid = {column.number} AND d.deptype IN ('a', 'i')"
        " UNION SELECT d.refobjid FROM pg_attrdef AS a JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass"
        " AND d.objid = a.oid AND d.refclassid = 'pg_class'::regclass"
        f" WHERE a.adrelid = {column.table} AND a.adnum = {column.number})"
    )


def index_of(column: RowColumn) -> str:
    """Return a query for whether some index begins with the column."""
    return (
        "SELECT EXISTS (SELECT FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a"
        f" ON a.oid = c.relam WHERE i.indrelid = {column.table} AND i.indkey[0] = {column.number} AND i.indisvalid"
        " AND i.indpred IS NULL AND a.amname = 'btree')"
    )


def running(transactions: Iterable[str]) -> str:
    """Return a query for those of the transactions that have not ended: each holds a lock of some kind."""
    names = ", ".join(map(literal, transactions))
    return f"SELECT DISTINCT l.virtualtransaction, l.pid FROM pg_locks AS l WHERE l.virtualtransaction IN ({names})"


def quoted(name: str) -> str:
    """Return a name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text in quotes, whatever the server's setting for backslashes is."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def table_of(given: str) -> str | None:
    """Return `table` or `schema.table` in quotes; None if it is no name."""
    parts = given.split(".")
    if len(parts) > 2 or not all(part and "\0" not in part and len(part.encode()) <= NAME_BYTES_MAX for part in parts):
        return None
    return ".".join(map(quoted, parts))


def query_of(given: str) -> str:
    """Return a query in brackets. A comment at its end does not reach our part."""
    return f"({given.strip().rstrip(';').rstrip()}\n)"


def _field(name: str, kind: int) -> str:
    column = f"r.{quoted(name)}"
    # bytea would be hexadecimal digits; a payload's bytes are base64, in one line
    return f"translate(encode({column}, 'base64'), E'\\n', '') AS {quoted(name)}" if kind == _BYTEA else column
