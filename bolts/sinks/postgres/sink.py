"""`PostgresSink`: stores alerts and results in PostgreSQL, each once, also after replays.

This is the class that a user declares; `batching` makes the batches, and `writer` stores them. psycopg is imported when
the sink opens, so that a topology without this sink does not need it.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from bolts.sinks.batching import BATCH, BatchingSink
from bolts.sinks.contract import SinkStore
from bolts.sinks.postgres.table import PostgresTable, checked_name
from bolts.sinks.upsert import Mode, upsert_of
from topology.codes.settings import INVALID_POSTGRES_TIMEOUT, POSTGRES_CLIENT_NOT_INSTALLED, SHARED_POSTGRES_TABLE
from topology.errors import ConfigurationError
from topology.records import Record
from topology.secrets import Secret

if TYPE_CHECKING:
    from bolts.sinks.postgres.writer import PostgresStore

CLOSING_S: Final = 5.0  # seconds that a server has for its answer when the sink closes; a run gives `close` ten


class PostgresSink(BatchingSink):
    """Store records in one table per record class, made from its fields, and ack them when they are durable.

        topology.bolt("store", PostgresSink("env:ALERTS_DSN"), alerts)

    dsn  `postgresql://USER@HOST:PORT/DATABASE` or libpq's `host=… dbname=…`, as text or as a Secret; or `env:NAME` or
         `file:PATH`, which each worker looks up as it opens. Whatever the string omits, above all the password, may
    come
         from PGPASSWORD, PGHOST … or from ~/.pgpass. Only host, port and database of it are ever shown.

    A table is called after its class (`brute_force` for `BruteForce`), or `table`, and then the sink takes one class.
    It is in `schema`, or where search_path says. The sink makes the table, or compares an existing one, at the class's
    first record; for the classes in `records` when the sink opens.

    Columns: int bigint, float double precision, str text, bytes bytea, bool boolean, datetime timestamptz, Decimal
    numeric, enums and literals by value, all else jsonb; `X | None` may be NULL. After them, in mode 'append', the key:
    `key` bytea (`_key` if a field has that name), the primary key (`bolts.sinks.keys`). A replay has its row's key and
    is dropped, also after a restart, in any later run, and by any task: there may be several tasks.

    In mode 'upsert' the fields in `key` are the table's primary key, and there is no other column. A row replaces the
    stored one if its `revision`, an int or datetime field, is higher. Any other row counts as a duplicate.

    A row that cannot be stored fails alone, with the reason: NaN and infinities, ints beyond 64 bits, NUL and lone
    surrogates in texts, values that are not of the declared type, constraints and triggers of the user's. A row that a
    trigger leaves out (RETURN NULL) is acked, and counts as known. If a table was altered or dropped, its rows fail
    until it is repaired.

    The sink repeats a write until the server confirms its rows. It does so if the server is away, full, read-only or
    shutting down, after a deadlock or a statement over `timeout_s`, and if the connection is lost, even during COMMIT.

    batch      tuples per transaction, at most.
    within_ms  milliseconds that a tuple which comes during a commit waits at most for its batch to fill.
    timeout_s  seconds that one statement may take.
    allow_fsync_off  True to accept a server with fsync = off: its acked rows do not survive a loss of power.

    Needs `pip install 'kedge-streams[postgres]'`, and PostgreSQL 12 or newer.
    """

    imports_at_open: ClassVar[tuple[str, ...]] = ("psycopg",)
    dedup: ClassVar[Literal["shared", "task"]] = "shared"
    durability: ClassVar[str] = "a synchronous commit of a server with fsync on"

    def __init__(
        self,
        dsn: str | Secret,
        *,
        table: str | None = None,
        schema: str | None = None,
        mode: Mode = "append",
        key: Sequence[str] = (),
        revision: str | None = None,
        records: Sequence[type[Record]] = (),
        batch: int = BATCH,
        within_ms: float = 5.0,
        timeout_s: float = 30.0,
        allow_fsync_off: bool = False,
    ) -> None:
        """Raises ConfigurationError. Does no I/O: `open` does."""
        super().__init__(batch=batch, within_ms=within_ms)
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0.1 <= timeout_s <= 3600:
            text = f"PostgresSink: timeout_s is a number of seconds, 0.1 to 3600, not {timeout_s!r}"
            raise ConfigurationError(text, code=INVALID_POSTGRES_TIMEOUT)
        if table is not None:
            checked_name(table, "table")
            if len(records) > 1:
                names = ", ".join(cls.__name__ for cls in records)
                text = f"PostgresSink: one table, {table!r}, can't hold several classes: {names}"
                raise ConfigurationError(text, code=SHARED_POSTGRES_TABLE)
        if schema is not None:
            checked_name(schema, "schema")
        self._dsn = Secret(dsn)
        self.table, self.schema = table, schema
        self.upsert = upsert_of("PostgresSink", mode, key, revision)
        self.records = tuple(records)
        self.timeout_s, self.allow_fsync_off = timeout_s, allow_fsync_off
        self._rows: PostgresStore | None = None
        for cls in self.records:
            PostgresTable(cls, table, schema, self.upsert)

    def summary(self) -> Iterable[str]:
        """Yield the counts, the tables, and the durability that the server reports."""
        assert self._rows is not None, "open"
        tables = ", ".join(sorted(table.name for table in self._rows.tables)) or "no table yet"
        server = self._rows.server
        yield f"{self.stored:,} stored, {self.duplicates:,} known already, in {tables} of {server.dsn.where}"
        yield f"{server.facts}"

    async def close(self) -> None:
        """Finish the write under way, and fail the waiting tuples.

        A server that has not answered after CLOSING_S is given up: the tuples of that write fail, and are stored once
        when they are replayed.
        """
        if self._rows is not None:
            self._rows.hurry(CLOSING_S)
        await super().close()

    def _make_store(self) -> SinkStore:
        try:
            from bolts.sinks.postgres.writer import PostgresStore
        except ImportError as error:
            raise ConfigurationError(
                f"PostgresSink needs psycopg, which can't be imported: {error}", code=POSTGRES_CLIENT_NOT_INSTALLED
            ) from error
        self._rows = PostgresStore(
            self._dsn,
            schema=self.schema,
            table=self.table,
            upsert=self.upsert,
            records=self.records,
            timeout_s=self.timeout_s,
            allow_fsync_off=self.allow_fsync_off,
        )
        return self._rows
