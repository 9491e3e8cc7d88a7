"""Rows of an outbox: each is read once, in any order, and deleted once its message is settled.

A row that is visible late is found later, since all rows that are not under way are looked for. Knows the server and
the statements; must not know messages.
"""

from collections.abc import Callable, Sequence
from typing import Any

from spouts.broker.connection import Received
from spouts.postgres.session import PostgresSession
from spouts.postgres.statements import RowStatements
from spouts.postgres.table_checks import TableChecks
from spouts.postgres.wakeups import Wakeups
from topology.clients.errors import ServerAway


class OutboxRows:
    """The rows of one task; see `spouts.broker.connection.Connection`. A handle is the row's key, as text.

    follow  False: the source ends when all rows there are have been given.
    idle_s  Seconds after which it looks for rows without a notification.
    """

    def __init__(
        self,
        session: PostgresSession,
        statements: RowStatements,
        checks: TableChecks,
        wakeups: Wakeups,
        *,
        follow: bool,
        idle_s: Callable[[], float],
    ) -> None:
        self.where = checks.where
        self._session, self._statements, self._checks, self._wakeups = session, statements, checks, wakeups
        self._given: dict[str, None] = {}  # keys of rows that were given and are not deleted
        self._after: str | None = None  # where this look through the table has come to
        self._trouble = ""  # why rows could not be deleted, until it is connected again
        self._follow, self._idle_s = follow, idle_s

    async def open(self) -> None:
        """See `Connection.open`. Rows that are under way are given again.

        Raises ConfigurationError if rows may not be deleted.
        """
        self._given.clear()
        self._after, self._trouble = None, ""
        await self._session.open()
        await self._checks.check(self._session)
        await self._delete(self._statements.delete_none)
        self._session.is_established = True
        self._wakeups.open()

    async def receive(self, limit: int) -> Sequence[Received]:
        """See `Connection.receive`."""
        while True:
            if not self._session.is_open:
                raise ServerAway(self._trouble or f"the connection to {self.where} is lost")
            is_whole = self._after is None
            limit = self._session.limit.of(limit)
            rows = await self._session.read(self._statements.outside(self._after, self._given, limit), limit)
            found = [_received((key or b"").decode(), data or b"") for key, data in rows]
            self._given.update((row.handle, None) for row in found)
            self._after = found[-1].handle if len(found) == limit else None
            if found:
                return found
            if is_whole and not self._follow:
                return []
            if is_whole:
                await self._wakeups.wait(self._idle_s())

    async def confirm(self, handles: Sequence[Any]) -> None:
        """See `Connection.confirm`: delete these rows. All of them stay if the server refuses to delete one."""
        try:
            await self._delete(self._statements.delete(sorted(handles)))
        except ServerAway as error:
            self._trouble = str(error)
            await self._session.close()
            self._wakeups.wake()  # so that `receive` connects again, and the rows come again
            raise
        for key in handles:
            self._given.pop(key, None)

    async def _delete(self, statement: str) -> None:
        trouble = f"rows of {self.where} that are done can't be deleted"
        await self._session.ask([statement], writes=True, trouble=trouble)

    async def give_back(self, handles: Sequence[Any]) -> None:
        """See `Connection.give_back`. The rows are still there."""

    async def close(self) -> None:
        """See `Connection.close`."""
        await self._wakeups.close()
        await self._session.close()


def _received(key: str, data: bytes) -> Received:
    return Received(key, data, attributes={"id": key}, handle=key)
