"""One session at a PostgreSQL server: transactions of one round trip each, limited in time, and errors by their cause.

Knows psycopg; must not know rows, messages or the statements of a source. Nothing is prepared, and settings are made
within each transaction, so a pooler may give each transaction another session of its own.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from spouts.broker.read_limit import ReadLimit
from spouts.postgres.address import PostgresAddress
from topology.clients.errors import ServerAway, refused

GRACE_S: Final = 5.0  # seconds that a round trip may take longer than one statement
CLOSE_S: Final = 2.0  # seconds that closing may take
OLDEST: Final = 130_000  # server_version_num of PostgreSQL 13, which has FETCH FIRST … WITH TIES

Cells: TypeAlias = "list[tuple[bytes | None, ...]]"

# Words of errors while connecting, which have no SQLSTATE: a person has to fix these.
_TO_FIX: Final = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    'role "',
    "does not exist",
    "permission denied",
)
# SQLSTATEs, or their first two characters: the statement, the table or a right is wrong. Anything else may pass.
_REFUSALS: Final = frozenset({"0A", "22", "25006", "3F", "42", "55000"})
_TIMED_OUT: Final = "57014"  # the SQLSTATE of a statement over its time limit
# For each transaction. Rows come in the order of an index, or the planner may sort a whole table that it knows little
# about. Times are UTC, and numbers have all their digits.
_SETTINGS: Final = {"TimeZone": "UTC", "extra_float_digits": "1", "enable_sort": "off", "enable_bitmapscan": "off"}
_SERVER: Final = "SELECT current_setting('server_version_num'), pg_is_in_recovery()"


class ReplyLate(ServerAway):
    """The error for a reply that has not come whole in its time: the server or the line is too slow for it."""


class PostgresSession:
    """A connection of the component `needed_by`. `timeout_s`: seconds that one statement may take.

    `limit`: how many rows `read` may ask for.

    `is_established`: set by the owner once the source is in use. A statement that is refused then counts as away: a
    person may repair the table meanwhile.
    """

    def __init__(self, address: PostgresAddress, needed_by: str, timeout_s: float) -> None:
        self.address, self._needed_by, self._timeout_s = address, needed_by, timeout_s
        self.is_established = False
        self.limit = ReadLimit(timeout_s)
        self._connection: Any = None
        given = {**_SETTINGS, "statement_timeout": str(round(timeout_s * 1000))}
        settings = [f"set_config('{name}', '{value}', true)" for name, value in given.items()]
        self._settings = f"SELECT {', '.join(settings)}"

    @property
    def is_open(self) -> bool:
        """True until the connection is lost or closed."""
        return self._connection is not None and not self._connection.closed

    async def open(self) -> None:
        """Connect. Raises ServerAway, also for a standby; raises ConfigurationError for what a person has to fix."""
        library, address = self.address.library, self.address
        await self.close()
        try:
            self._connection = await library.AsyncConnection.connect(
                **address.parameters, autocommit=True, prepare_threshold=None
            )
        except (library.Error, OSError) as error:
            text = f"{address.where} can't be used: {address.said(error)}"
            if any(words in str(error) for words in _TO_FIX):
                raise refused(f"{self._needed_by}: {text}") from None
            raise ServerAway(text) from None  # the error has the parameters in its frames
        ((found,),) = await self.ask([_SERVER])
        number, standby = found
        if int(number or b"0") < OLDEST:
            raise refused(f"{self._needed_by}: {address.where} is too old; PostgreSQL 13 or newer is needed")
        if standby == b"t":
            raise ServerAway(f"{address.where} is a standby, which does not know the transactions that write")

    async def ask(self, statements: Sequence[str], *, writes: bool = False, trouble: str = "") -> list[Cells]:
        """Run one transaction; return the rows of each of its statements, as the server writes them.

        `trouble`: how the text of an error begins, in place of the server's address. Raises ServerAway, and ReplyLate
        if the time is over; raises ConfigurationError if the server refuses a statement. The connection is then closed.
        """
        return [_cells(result) for result in await self.results(statements, writes=writes, trouble=trouble)]

    async def read(self, statement: str, limit: int) -> Cells:
        """As `ask`, for one statement that returns up to so many rows: `limit` learns from it."""
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        try:
            (rows,) = await self.ask([statement])
        except ReplyLate:
            self.limit.timed_out(limit)
            raise
        self.limit.came(limit, len(rows), loop.time() - started_at)
        return rows

    async def results(self, statements: Sequence[str], *, writes: bool = False, trouble: str = "") -> list[Any]:
        """As `ask`, but return a psycopg.pq.PGresult of each statement."""
        connection, address = self._connection, self.address
        if connection is None:
            raise ServerAway(f"{address.where}: the connection is closed")
        begin = f"BEGIN ISOLATION LEVEL READ COMMITTED{'' if writes else ' READ ONLY'}"
        text = ";\n".join([begin, self._settings, *statements, "COMMIT"])
        work = asyncio.ensure_future(_run(connection, text.encode()))
        try:
            async with asyncio.timeout(self._timeout_s + GRACE_S):
                found = await asyncio.shield(work)
        except TimeoutError:
            await _cut(connection, work)
            await self.close()
            raise ReplyLate(f"{address.where} does not answer") from None
        except asyncio.CancelledError:
            await _cut(connection, work)
            raise
        except address.library.Error as error:
            await self.close()
            text = f"{trouble or address.where}: {address.said(error)}"
            state = error.sqlstate or ""
            if not self.is_established and not _REFUSALS.isdisjoint((state, state[:2])):
                raise refused(f"{self._needed_by}: {text}") from error
            raise (ReplyLate if state == _TIMED_OUT else ServerAway)(text) from error
        return found[2:-1]  # without those of BEGIN, the settings and COMMIT

    async def close(self) -> None:
        """Disconnect. Does not raise, and takes CLOSE_S at most."""
        used, self._connection = self._connection, None
        if used is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_S):
                    await used.close()


async def listening(address: PostgresAddress, channel: str) -> Any:
    """Return a connection that hears NOTIFY on this quoted channel. Raises psycopg.Error and OSError."""
    connection = await address.library.AsyncConnection.connect(
        **address.parameters, autocommit=True, prepare_threshold=None
    )
    try:
        await connection.execute(f"LISTEN {channel}".encode())
    except BaseException:
        await connection.close()
        raise
    return connection


async def _run(connection: Any, text: bytes) -> list[Any]:
    """Send the statements in one message; return the result of each."""
    cursor = connection.cursor()
    await cursor.execute(text)
    found = [cursor.pgresult]
    while cursor.nextset():
        found.append(cursor.pgresult)
    return found


async def _cut(connection: Any, work: "asyncio.Future[Any]") -> None:
    """End a call at once. psycopg would ask the server to cancel the statement, and wait for an answer."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
    await asyncio.wait((work,))
    if not work.cancelled():
        work.exception()


def _cells(result: Any) -> Cells:
    columns = range(result.nfields)
    return [tuple([result.get_value(row, column) for column in columns]) for row in range(result.ntuples)]
