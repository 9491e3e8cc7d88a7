"""A connection to PostgreSQL: made when needed, checked for durability, limited in time, closed after errors.

Knows psycopg and the server; must not know tables' contents, tuples, the loop or acks. Every call blocks; one thread
makes them.

Every acked row must be durable (C11). A server with fsync off is refused. If synchronous_commit is off, the sink's own
transactions turn it on. A visible row may still wait for a standby, if its session was cut off at that point. So a
transaction that found existing rows and would write nothing to the log writes an empty message there. Its commit then
waits for everything before it.
"""

import contextlib
import logging
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import psycopg

from bolts.sinks.contract import StoreAway
from bolts.sinks.postgres.dsn import Dsn
from bolts.sinks.postgres.table import ExistingTable, PostgresColumn
from topology.codes.runtime import FSYNC_OFF_ALLOWED
from topology.codes.settings import POSTGRES_ACCESS_DENIED, POSTGRES_UNRELIABLE
from topology.errors import ConfigurationError

Rows: TypeAlias = list[tuple[Any, ...]]
Statement: TypeAlias = tuple[str, Sequence[Any]]
T = TypeVar("T")

OLDEST: Final = 120_000  # server_version_num of PostgreSQL 12
GRACE_S: Final = 5.0  # seconds that the server has to cancel a statement by itself, before the connection is closed
_LOOK_S: Final = 1.0  # seconds between two checks of the clock while there is no answer
_CREATING: Final = 0x6B65646765  # "kedge": the advisory lock held while a table is made
_STANDBY_WAIT: Final = "SyncRepWaitForLSN"  # the server function that warns if a commit is not on its standbys yet
_MEND: Final = ("authentication failed", "does not exist", "no password supplied", "no pg_hba.conf entry")

log = logging.getLogger("kedge.bolts")

_SERVER: Final = (
    "SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('fsync'), "
    "current_setting('synchronous_commit'), pg_is_in_recovery(), "
    "has_function_privilege('pg_logical_emit_message(boolean, text, text)', 'EXECUTE')"
)
# The settings are made in each transaction, as a pooler may give each transaction another session. For the same reason
# nothing is prepared: another session may have another client's statement under its name. Preparing would also cost as
# much (server and client, batches of 500). Values of synchronous_commit other than off are as good, or better.
_BEGIN: Final = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT CASE current_setting('synchronous_commit') WHEN 'off'"
    " THEN set_config('synchronous_commit', 'on', true) END, set_config('enable_seqscan', 'off', true),"
    " set_config('statement_timeout', '{limit}', true),"
    " set_config('idle_in_transaction_session_timeout', '{limit}', true)"
)
_COMMIT: Final = b"COMMIT"
# writes an empty message to the server's log, and nowhere else
_WORDED: Final = b"SELECT pg_logical_emit_message(true, 'kedge', ''); COMMIT"
_FOUND: Final = (
    "SELECT c.relkind::text, c.relpersistence::text, a.attname::text, format_type(a.atttypid, a.atttypmod),"
    " NOT a.attnotnull, a.atthasdef OR a.attidentity <> '', a.attgenerated <> ''"
    " FROM pg_class AS c LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    " WHERE c.oid = to_regclass($1) ORDER BY a.attnum"
)
_UNIQUE: Final = (
    "SELECT ARRAY(SELECT a.attname::text FROM pg_attribute AS a WHERE a.attrelid = i.indrelid AND a.attnum ="
    " ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])) FROM pg_index AS i WHERE i.indrelid = to_regclass($1) AND"
    " i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL"
)
PRINTS: Final = (  # a hash of each table's definition: it changes when the table changes
    "SELECT (SELECT md5(string_agg(concat_ws(' ', c.oid, c.relkind, c.relpersistence, a.attname, a.atttypid,"
    " a.atttypmod, a.attnotnull, a.atthasdef), ',' ORDER BY a.attnum))"
    " FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    " WHERE c.oid = to_regclass(u.name)) FROM unnest($1::text[]) WITH ORDINALITY AS u(name, at) ORDER BY u.at"
)


@dataclass(frozen=True)
class ServerFacts:
    """The server's version and settings when the sink connects."""

    version: str
    fsync: str
    synchronous_commit: str

    def __str__(self) -> str:
        commit = "on, set by the sink" if self.synchronous_commit == "off" else self.synchronous_commit
        return f"PostgreSQL {self.version.split()[0]}, fsync {self.fsync}, synchronous_commit {commit}"


@dataclass
class CommitResult:
    """The results of a transaction's statements. `word`: the commit writes to the log, even if the statements wrote
    nothing."""

    rows: list[Rows]
    word: bool = False


class _Line(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for an answer until `until`, and not for ever.

    A suspended server, or a proxy that forwards nothing, closes no socket.
    """

    until: float = float("inf")  # on the monotonic clock; for this round trip
    latest: float = float("inf")  # … and for all round trips

    def wait(self, gen: Generator[Any, Any, T], interval: float = _LOOK_S, timeout: float | None = None) -> T:
        return super().wait(self._bounded(gen), interval=_LOOK_S)

    def _bounded(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > min(self.until, self.latest):
                    raise psycopg.OperationalError("the server does not answer")
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


class Server:
    """The server behind a `SinkStore`.

    `timeout_s`: seconds that one statement may take in the server; its round trip has GRACE_S more.
    """

    def __init__(self, dsn: Dsn, *, timeout_s: float, allow_fsync_off: bool) -> None:
        self.dsn = dsn
        self.facts: ServerFacts | None = None  # of the last connection
        self._timeout_s = timeout_s
        self._allow_fsync_off = allow_fsync_off
        self._line: _Line | None = None
        self._may_write_words = False
        self._fresh = True  # True if nothing was committed on this connection yet
        self._latest = float("inf")  # on the monotonic clock: the time after which no answer is waited for
        self._waited = True  # True if the last commit waited for its standbys

    @property
    def connected(self) -> bool:
        return self._line is not None

    def connect(self) -> None:
        """Connect, unless that is done.

        Raises StoreAway. Raises ConfigurationError for what the user has to fix: a wrong password, or a server that
        does not keep what it has committed.
        """
        if self._line is not None:
            return
        try:
            line = _Line.connect(
                **self.dsn.parameters, autocommit=True, cursor_factory=psycopg.RawCursor, prepare_threshold=None
            )
        except psycopg.Error as error:
            said = f"{self.dsn.where} can't be reached: {self.dsn.said(error)}"
            if any(words in str(error) for words in _MEND):
                raise ConfigurationError(f"PostgresSink: {said}", code=POSTGRES_ACCESS_DENIED) from None
            raise StoreAway(said) from None  # the error itself has the parameters in its frames
        line.add_notice_handler(self._noticed)
        line.latest = self._latest
        self._line, self._fresh = line, True
        try:
            self._check()
        except psycopg.Error as error:
            self.disconnect()
            raise StoreAway(f"{self.dsn.where} can't be used: {self.dsn.said(error)}") from None
        except BaseException:
            self.disconnect()
            raise

    def _check(self) -> None:
        ((number, version, fsync, synchronous_commit, standby, self._may_write_words),) = self.rows(_SERVER)
        self.facts = ServerFacts(version, fsync, synchronous_commit)
        why = ""
        if number < OLDEST:
            why = f"is PostgreSQL {version}, and 12 or newer is needed"
        elif fsync != "on" and not self._allow_fsync_off:
            why = f"has fsync = {fsync}: what it has committed does not survive a loss of power"
        if why:
            raise ConfigurationError(f"PostgresSink: {self.dsn.where} {why}", code=POSTGRES_UNRELIABLE)
        if standby:
            raise StoreAway(f"{self.dsn.where} is a standby, which takes no rows")
        if fsync != "on":
            text = "%s has fsync = %s: what is stored there does not survive a loss of power (%s)"
            log.warning(text, self.dsn.where, fsync, FSYNC_OFF_ALLOWED)

    def hurry(self, seconds: float) -> None:
        """Wait at most this many seconds for any answer from now on. May be called from another thread."""
        self._latest = time.monotonic() + seconds
        if (line := self._line) is not None:
            line.latest = self._latest

    def _noticed(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.source_function == _STANDBY_WAIT:
            self._waited = False

    def disconnect(self) -> None:
        """Close the connection. Does not raise."""
        line, self._line = self._line, None
        if line is not None:
            with contextlib.suppress(Exception):
                line.close()

    # -- asking

    def rows(self, statement: str, *parameters: Any) -> Rows:
        """Return the result of one statement, outside of a transaction. Raises psycopg.Error."""
        return self._in_time().execute(statement.encode(), parameters, binary=True).fetchall()

    def found(self, name: str) -> tuple[ExistingTable | None, str]:
        """Return the table under a quoted name, and the hash of its definition; None if there is none.

        Raises psycopg.Error.
        """
        with self.transaction([(PRINTS, [[name]]), (_FOUND, [name]), (_UNIQUE, [name])]) as done:
            ((seen,),), found, unique = done.rows
        if not found:
            return None, ""
        columns = [PostgresColumn(*row[2:]) for row in found if row[2] is not None]
        return ExistingTable(found[0][0], found[0][1], columns, [tuple(names) for (names,) in unique]), seen or ""

    def make(self, name: str, create: str) -> None:
        """Make a table, unless another task has made it meanwhile. Raises psycopg.Error."""
        lock, there = "SELECT pg_advisory_xact_lock($1::bigint)", "SELECT to_regclass($1) IS NOT NULL"
        with self.transaction([(lock, [_CREATING]), (there, [name])]) as done:
            if done.rows[1] == [(False,)]:
                self._in_time().execute(create.encode())

    @contextlib.contextmanager
    def transaction(self, statements: Sequence[Statement]) -> Iterator[CommitResult]:
        """A transaction, all or nothing: run the statements, then the block, which checks their results, then commit.

        Rolls back if any of these raises. Raises psycopg.Error. If the commit raises it, the outcome is unknown (C10).

        Each statement is one round trip. (Rejected: psycopg's pipelines. A pipeline that has more to send than the
        system takes at once waits for an answer, without sending the rest.)
        """
        try:
            self._in_time().execute(_BEGIN.format(limit=round(self._timeout_s * 1000)).encode())
            done = CommitResult([self.rows(text, *given) for text, given in statements])
            yield done
            worded = self._may_write_words and (done.word or self._fresh)
            self._waited = True
            last = self._in_time().execute(_WORDED if worded else _COMMIT)
            while last.nextset():
                pass
            if last.statusmessage != "COMMIT":
                raise psycopg.OperationalError(f"COMMIT was answered by {last.statusmessage}")
            if not self._waited:  # the wait was cancelled: the server warns, and reports a commit all the same
                raise psycopg.OperationalError("COMMIT did not wait for a standby that has to have it")
            self._fresh = False
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        """Roll back a failed transaction. If that fails too, close the connection."""
        line = self._line
        if line is None:
            return
        try:
            line.rollback()  # does nothing if the transaction is over, and raises if the connection is lost
        except psycopg.Error:
            self.disconnect()

    def _in_time(self) -> _Line:
        """Return the connection, with time for one round trip."""
        assert self._line is not None, "connect"
        self._line.until = time.monotonic() + self._timeout_s + GRACE_S
        return self._line
