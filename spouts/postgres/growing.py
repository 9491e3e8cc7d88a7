"""Rows by a number that grows: no row is skipped, though transactions commit in another order than they draw numbers.

A transaction draws number 5, another one draws 6 and commits first. A reader that has taken 6 must not pass 5. So this
reader takes the highest number that is visible, and then the transactions that hold the lock of a writer on the table.
Any transaction that has drawn a lower number is among them: it took that lock before it drew, and keeps it until its
end. Once they have ended, all rows up to the number are visible, or never will be. (Rejected: rows whose transaction is
older than all running ones, by xmin. A transaction may draw its number long before it has its own id, in a trigger for
example; and a long transaction anywhere at the server would hold back the rows of this table.)

Knows the server and the statements; must not know messages.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from spouts.broker.connection import Received
from spouts.postgres.session import PostgresSession
from spouts.postgres.statements import WRITERS, RowStatements, running
from spouts.postgres.table_checks import TableChecks
from spouts.postgres.wakeups import Wakeups
from topology.clients.errors import refused

WRITERS_FIRST_S: Final = 0.001  # seconds before writers are looked for again; doubled each time …
WRITERS_LAST_S: Final = 0.25  # … up to this many seconds
HELD_BACK_S: Final = 5.0  # seconds; what holds the source back for longer is said


class GrowingRows:
    """The rows of one task; see `spouts.broker.connection.Connection`.

    begins  The number to begin with, or None for the lowest.
    follow  False: the source ends with the rows that were committed when it was opened.
    idle_s  Seconds after which it looks for rows without a notification.
    tell    Receives the reason for which it is held back, and an empty text once it is not.
    """

    def __init__(
        self,
        session: PostgresSession,
        statements: RowStatements,
        checks: TableChecks,
        wakeups: Wakeups,
        *,
        begins: int | None,
        follow: bool,
        idle_s: Callable[[], float],
        tell: Callable[[str], None],
    ) -> None:
        self.where = checks.where
        self._session, self._statements, self._checks, self._wakeups = session, statements, checks, wakeups
        self._after = None if begins is None else begins - 1  # the highest number that was read
        self._until: int | None = None  # all rows up to this number are visible
        self._follow, self._idle_s, self._tell = follow, idle_s, tell
        self._may_end = False

    async def open(self) -> None:
        """See `Connection.open`."""
        await self._session.open()
        await self._checks.check(self._session)
        if not self._session.is_established:
            await self._checks.check_numbers(self._session, self._after)
        self._session.is_established = True
        self._wakeups.open()

    async def receive(self, limit: int) -> Sequence[Received]:
        """See `Connection.receive`."""
        while True:
            if self._until is not None and (self._after is None or self._after < self._until):
                if rows := await self._read(self._until, limit):
                    return rows
            elif self._may_end:
                return []
            else:
                await self._look()

    async def confirm(self, handles: Sequence[Any]) -> None:
        """See `Connection.confirm`. The rows stay."""

    async def give_back(self, handles: Sequence[Any]) -> None:
        """See `Connection.give_back`. The rows are still there."""

    async def close(self) -> None:
        """See `Connection.close`."""
        await self._wakeups.close()
        await self._session.close()

    async def _read(self, until: int, limit: int) -> list[Received]:
        """Return the next rows up to a number."""
        limit = self._session.limit.of(limit)
        rows = await self._session.read(self._statements.growing(self._after, until, limit), limit)
        numbers = [int(key or b"0") for key, _ in rows]
        faults = [f"{number} names two rows" for before, number in pairwise(numbers) if before == number]
        faults += [f"{numbers[0]} is below 0"] if numbers and numbers[0] < 0 else []
        if faults:
            text = (
                f"{self._checks.who}: column {self._statements.column!r} of {self.where} numbers no rows: {faults[0]}"
            )
            raise refused(text)
        self._after = until if len(rows) < limit else numbers[-1]
        return [
            Received(number, data or b"", attributes={"id": number})
            for number, (_, data) in zip(numbers, rows, strict=True)
        ]

    async def _look(self) -> None:
        """Take the highest number there is now, and wait for those that may still write lower ones. If there is none,
        wait for news."""
        ((highest,),), writers = await self._session.ask([self._statements.highest(self._after), WRITERS])
        if highest is not None:
            await self._wait_for({_text(name) for name, _ in writers})
            self._until, self._may_end = int(highest), not self._follow
            return
        await self._checks.check_numbers(self._session, self._after)
        self._may_end = not self._follow
        if self._follow:
            await self._wakeups.wait(self._idle_s())

    async def _wait_for(self, writers: set[str]) -> None:
        """Return once these transactions have ended."""
        loop = asyncio.get_running_loop()
        started_at, delay, said = loop.time(), WRITERS_FIRST_S, False
        try:
            while writers:
                await asyncio.sleep(delay)
                delay = min(delay * 2, WRITERS_LAST_S)
                (left,) = await self._session.ask([running(writers)])
                writers = {_text(name) for name, _ in left}
                if writers and loop.time() - started_at >= HELD_BACK_S:
                    said = True
                    self._tell(_held_back(self.where, [pid for _, pid in left], loop.time() - started_at))
        finally:
            if said:
                self._tell("")


def _held_back(where: str, pids: list[bytes | None], seconds: float) -> str:
    named = ", ".join(sorted({f"server process {_text(pid)}" if pid else "a prepared transaction" for pid in pids})[:3])
    return f"{where} is being written by a transaction ({named}) for {seconds:.0f} s; newer rows wait for its end"


def _text(cell: bytes | None) -> str:
    return (cell or b"").decode()
