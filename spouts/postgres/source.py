"""`PostgresSource`: rows of a table of PostgreSQL, or of a query, as a source.

This is the class that a user declares. `GrowingRows` and `OutboxRows` read; `BrokerSource` does the rest.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from typing_extensions import TypeVar

from spouts.broker.connection import Connection
from spouts.broker.source import PREFETCH, BrokerSource
from spouts.lines import Line
from spouts.payload.formats import Json, Msgpack, Value
from spouts.postgres.address import PostgresAddress
from spouts.postgres.growing import GrowingRows
from spouts.postgres.outbox import OutboxRows
from spouts.postgres.session import PostgresSession
from spouts.postgres.statements import NAME_BYTES_MAX, RowStatements, query_of, table_of
from spouts.postgres.table_checks import TableChecks
from spouts.postgres.wakeups import Wakeups
from topology.clients.errors import invalid
from topology.components import Task
from topology.records import Record, is_record
from topology.secrets import Secret

R = TypeVar("R", bound=Record, default=Line)

POLL_S: Final = 0.5  # seconds between two looks for new rows, if nothing notifies
NOTIFIED_POLL_S: Final = 10.0  # seconds between two looks while NOTIFY is heard
TIMEOUT_S: Final = 30.0  # seconds that one statement may take

_KIND: Final = "PostgresSource"


class PostgresSource(BrokerSource[R]):
    """Rows of a table or a query, each once: by a growing number, or from an outbox that is emptied.

        orders = topology.spout("orders", PostgresSource("env:SHOP_DSN", table="orders", value=Order))

    **By a growing number.** Rows come in the order of `column`, and the table keeps them. The table itself has to draw
    the numbers as rows are inserted: `GENERATED … AS IDENTITY`, `bigserial`, or a sequence as default. No row is
    skipped, although a transaction that has drawn a lower number may commit later: the source reads up to a number
    only when each transaction that wrote the table at that time has ended. So a long transaction that writes the table
    holds the source back; the stall line says so. A row that is changed after it was read does not come again. With n
    tasks, task i reads the rows whose number has the remainder i.

    **From an outbox** (`outbox=True`). Rows come in any order, and are deleted once a decided checkpoint has their
    messages. Nothing is assumed of the numbers, and `column` may also be a uuid or a text; it has to be unique.

    A row becomes a JSON object of its columns, and so a record: columns are fields by name, `jsonb` and composite types
    are records, arrays are tuples, `bytea` is bytes, `timestamptz` a time, `numeric` a Decimal or float, all else a
    text. A row that does not fit is `Malformed`, with that object as its data. Beside it there is `id`, the column's
    value.

    dsn      `postgresql://USER@HOST:PORT/DATABASE` or `host=… dbname=…`, as text or Secret; or `env:NAME`, `file:PATH`.
    value    The record class; `Json` or a function for other needs. `Line`: the row as JSON.
    table    `NAME` or `SCHEMA.NAME`, exactly as the server has it.
    query    A SELECT in place of a table. It has to give `column`.
    column   The name of the column that names a row.
    outbox   True: see above. Needs `table`, and the right to delete.
    notify   The channel of a NOTIFY that says that there are rows. It is heard by a connection of its own.
    poll_interval_s  Seconds between two looks for rows. None: 0.5, or 10 while `notify` is heard.
    follow   False: the source ends with the rows that were there when it was opened.
    epoch    Any text. Change it if the table was emptied and its numbers begin again.
    prefetch Rows that were read and are not emitted, at most; and so the rows of one read.
    timeout_s  Seconds that one statement may take.

    Needs PostgreSQL 13 or newer, not a standby. Through a pooler that shares connections, leave out `notify`.
    """

    shared_ids = True
    offers: ClassVar[frozenset[str]] = frozenset({"id"})
    imports_at_open: ClassVar[tuple[str, ...]] = ("psycopg",)

    def __init__(
        self,
        dsn: str | Secret,
        *,
        value: Value[R] = Line,  # type: ignore[assignment]
        table: str | None = None,
        query: str | None = None,
        column: str = "id",
        outbox: bool = False,
        notify: str | None = None,
        poll_interval_s: float | None = None,
        follow: bool = True,
        epoch: str = "",
        prefetch: int = PREFETCH,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Raises ConfigurationError. Connects to nothing: `open` does."""
        super().__init__(value, prefetch=prefetch)
        if isinstance(value, Msgpack):
            raise invalid(f"{_KIND}: a row is a JSON object, not msgpack")
        if (table is None) == (query is None) or (outbox and table is None):
            raise invalid(f"{_KIND}: give a table, or a query; an outbox is a table")
        rows = table_of(table) if table is not None else query_of(query or "")
        if rows is None:
            raise invalid(f"{_KIND}: table is NAME or SCHEMA.NAME, not {table!r:.80}")
        for name, text in (("column", column), ("notify", notify)):
            if text is not None and (not text or "\0" in text or len(text.encode()) > NAME_BYTES_MAX):
                raise invalid(f"{_KIND}: {name} is a name of 1 to {NAME_BYTES_MAX} bytes, not {text!r:.80}")
        for name, seconds in (("poll_interval_s", poll_interval_s), ("timeout_s", timeout_s)):
            if seconds is not None and (isinstance(seconds, bool) or not 0.001 <= seconds <= 3600):
                raise invalid(f"{_KIND}: {name} is a number of seconds, 0.001 to 3600, not {seconds!r:.80}")
        self._dsn, self._rows = Secret(dsn), rows
        self.table, self.query, self.column, self.outbox = table, query, column, outbox
        self.notify, self.poll_interval_s, self.follow = notify, poll_interval_s, follow
        self.epoch, self.timeout_s = epoch, timeout_s
        self.wanted, self.needed = _columns_of(value)
        self._partitions = {"": f"outbox {epoch}" if outbox else epoch}

    def partitions(self) -> Mapping[str, str]:
        """Return the one partition, and its epoch."""
        return self._partitions

    def _connect(self, task: Task) -> Connection:
        address = PostgresAddress(self._dsn, _KIND)
        session = PostgresSession(address, _KIND, self.timeout_s)
        statements = RowStatements(self._rows, self.column, task.tasks, task.index)
        checks = TableChecks(
            _KIND,
            f"table {self.table}" if self.table is not None else "the query",
            address.where,
            statements,
            wanted=self.wanted,
            needed=self.needed,
            grows=not self.outbox,
        )
        wakeups = Wakeups(address, self.notify, task.random, task.component)

        def idle_s() -> float:
            return self.poll_interval_s or (NOTIFIED_POLL_S if wakeups.is_listening else POLL_S)

        number = self._positions.of("", self._partitions[""])
        if self.outbox:
            return OutboxRows(session, statements, checks, wakeups, follow=self.follow, idle_s=idle_s)
        return GrowingRows(
            session,
            statements,
            checks,
            wakeups,
            begins=number if isinstance(number, int) else None,
            follow=self.follow,
            idle_s=idle_s,
            tell=self._set_away,
        )


def _columns_of(value: Any) -> tuple[Iterable[str] | None, Sequence[str]]:
    """Return the columns that the record class reads, and those of them that have to be there. None: all columns."""
    beside = set(value.fields or {}) if isinstance(value, Json) else set()
    cls = value.cls if isinstance(value, Json) else value
    if not is_record(cls) or value is Line:
        return None, ()
    names: dict[str, str] = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
    required = len(names) - len(cls.__struct_defaults__)  # those without a default come first
    needed = [column for name, column in [*names.items()][:required] if name not in beside]
    return [column for name, column in names.items() if name not in beside], needed
