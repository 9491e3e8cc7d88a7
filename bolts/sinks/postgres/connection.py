"""A connection to PostgreSQL: made when it is needed, checked for durability, bounded in time, given up after errors.

Knows psycopg and the server; must not know tables' contents, tuples, the loop or acks. Every call blocks; one thread
makes them.

What is acked must be durable (C11). A server with fsync off is refused; where synchronous_commit is off, the sink's own
transactions turn it on. A row that is visible may still wait for a standby, if the session that has written it was cut
off at that point: so a transaction that has found rows of others, and would be over without a word in the log, writes
one, and its commit waits for everything before it.
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
GRACE_S: Final = 5.0  # that the server has for cancelling a statement by itself, before the line is given up
_LOOK_S: Final = 1.0  # between two looks at the clock while there is no answer
_CREATING: Final = 0x6B65646765  # "kedge": the advisory lock of who makes a table
_STANDBY_WAIT: Final = "SyncRepWaitForLSN"  # what in the server warns that a commit is not on its standbys yet
_MEND: Final = ("authentication failed", "does not exist", "no password supplied", "no pg_hba.conf entry")

log = logging.getLogger("kedge.bolts")

_SERVER: Final = (
    "SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('fsync'), "
    "current_setting('synchronous_commit'), pg_is_in_recovery(), "
    "has_function_privilege('pg_logical_emit_message(boolean, text, text)', 'EXECUTE')"
)
# The settings are made in each transaction, as a pooler may give each one another session; for the same reason nothing
# is prepared, which would cost as much (server and client, batches of 500): under its name another session may have the
# statement of another client. Values of synchronous_commit
# other than off are as good, or better.
_BEGIN: Final = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT CASE current_setting('synchronous_commit') WHEN 'off'"
    " THEN set_config('synchronous_commit', 'on', true) END, set_config('enable_seqscan', 'off', true),"
    " set_config('statement_timeout', '{limit}', true),"
    " set_config('idle_in_transaction_session_timeout', '{limit}', true)"
)
_COMMIT: Final = b"COMMIT"
_WORDED: Final = b"SELECT pg_logical_emit_message(true, 'kedge', ''); COMMIT"  # a word in the log, and nowhere else
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
PRINTS: Final = (  # what each of these tables looks like, in a word: it changes where the table does
    "SELECT (SELECT md5(string_agg(concat_ws(' ', c.oid, c.relkind, c.relpersistence, a.attname, a.atttypid,"
    " a.atttypmod, a.attnotnull, a.atthasdef), ',' ORDER BY a.attnum))"
    " FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    " WHERE c.oid = to_regclass(u.name)) FROM unnest($1::text[]) WITH ORDINALITY AS u(name, at) ORDER BY u.at"
)


@dataclass(frozen=True)
class ServerFacts:
    """What a server says of itself as the sink connects."""

    version: str
    fsync: str
    synchronous_commit: str

    def __str__(self) -> str:
        commit = "on, set by the sink" if self.synchronous_commit == "off" else self.synchronous_commit
        return f"PostgreSQL {self.version.split()[0]}, fsync {self.fsync}, synchronous_commit {commit}"


@dataclass
class CommitResult:
    """What the statements of a transaction have given. `word`: its commit writes to the log, whatever they did."""

    rows: list[Rows]
    word: bool = False


class _Line(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for an answer until `until`, and not for ever: a server that is suspended, or a proxy
    that forwards nothing, closes no socket."""

    until: float = float("inf")  # on the monotonic clock; of this turn
    latest: float = float("inf")  # … and of all turns

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
    """The server behind a `Store`. `timeout_s`: what one statement may take there; its turn of the line has GRACE_S
    more."""

    def __init__(self, dsn: Dsn, *, timeout_s: float, allow_fsync_off: bool) -> None:
        self.dsn = dsn
        self.facts: ServerFacts | None = None  # of the last connection
        self._timeout_s = timeout_s
        self._allow_fsync_off = allow_fsync_off
        self._line: _Line | None = None
        self._may_write_words = False
        self._fresh = True  # nothing was committed on this connection yet
        self._latest = float("inf")  # on the monotonic clock: when it stops waiting for answers
        self._waited = True  # the last commit, for its standbys

    @property
    def connected(self) -> bool:
        return self._line is not None

    def connect(self) -> None:
        """Connects, unless that is done. Raises StoreAway; and ConfigurationError for what the user has to mend: a
        wrong password, a server that does not keep what it has committed."""
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
        """No answer is waited for any longer than this from now on. Called from another thread than all else."""
        self._latest = time.monotonic() + seconds
        if (line := self._line) is not None:
            line.latest = self._latest

    def _noticed(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.source_function == _STANDBY_WAIT:
            self._waited = False

    def disconnect(self) -> None:
        """Gives the connection up. Does not raise."""
        line, self._line = self._line, None
        if line is not None:
            with contextlib.suppress(Exception):
                line.close()

    # -- asking

    def rows(self, statement: str, *parameters: Any) -> Rows:
        """The result of one statement, outside of a transaction. Raises psycopg.Error."""
        return self._in_time().execute(statement.encode(), parameters, binary=True).fetchall()

    def found(self, name: str) -> tuple[ExistingTable | None, str]:
        """What there is under a quoted name, and its print; None where there is nothing. Raises psycopg.Error."""
        with self.transaction([(PRINTS, [[name]]), (_FOUND, [name]), (_UNIQUE, [name])]) as done:
            ((seen,),), found, unique = done.rows
        if not found:
            return None, ""
        columns = [PostgresColumn(*row[2:]) for row in found if row[2] is not None]
        return ExistingTable(found[0][0], found[0][1], columns, [tuple(names) for (names,) in unique]), seen or ""

    def make(self, name: str, create: str) -> None:
        """Makes a table, unless another task has meanwhile. Raises psycopg.Error."""
        lock, there = "SELECT pg_advisory_xact_lock($1::bigint)", "SELECT to_regclass($1) IS NOT NULL"
        with self.transaction([(lock, [_CREATING]), (there, [name])]) as done:
            if done.rows[1] == [(False,)]:
                self._in_time().execute(create.encode())

    @contextlib.contextmanager
    def transaction(self, statements: Sequence[Statement]) -> Iterator[CommitResult]:
        """All or nothing: these statements, then the block, which looks at what they have given, and then the commit.
        Rolled back where any of these raises. Raises psycopg.Error; where it comes from the commit, nobody knows
        whether that has happened (C10).

        A turn of the line each. (Rejected: psycopg's pipelines. One that has more to send than the system takes at once
        waits for an answer, without sending the rest.)
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
            if not self._waited:  # somebody has cancelled that, and the server warns, and says that it has committed
                raise psycopg.OperationalError("COMMIT did not wait for a standby that has to have it")
            self._fresh = False
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        """Ends a transaction that has failed; where that fails too, the connection is given up."""
        line = self._line
        if line is None:
            return
        try:
            line.rollback()  # does nothing where the transaction is over, and raises where the line is
        except psycopg.Error:
            self.disconnect()

    def _in_time(self) -> _Line:
        """The connection, with time for one turn."""
        assert self._line is not None, "connect"
        self._line.until = time.monotonic() + self._timeout_s + GRACE_S
        return self._line
