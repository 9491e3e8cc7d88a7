"""Checks if a table or query can be read as it is asked for: its columns, and the numbers of its rows.

Asks the server when a source is opened; must not know messages. Each problem is one sentence.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

from spouts.postgres.session import PostgresSession
from spouts.postgres.statements import INTEGERS, TEXTS, UNSEEN, RowColumn, RowStatements, index_of, sequence_of
from topology.clients.errors import invalid, refused

SHOWN_MAX: Final = 20  # names of columns that a sentence repeats

log = logging.getLogger("kedge.spouts")


class TableChecks:
    """The checks of one source.

    who      The source's class, with which each sentence begins.
    table    Its table or query, for people.
    wanted   The columns that are read, if they are there; None: all.
    needed   Those without which no row fits the record class.
    grows    True if rows are read by growing numbers.
    """

    def __init__(
        self,
        who: str,
        table: str,
        where: str,
        statements: RowStatements,
        *,
        wanted: Iterable[str] | None,
        needed: Sequence[str],
        grows: bool,
    ) -> None:
        self.who, self.where = who, f"{table} of {where}"
        self._table, self._statements = table, statements
        self._wanted, self._needed, self._grows = wanted, needed, grows
        self._sequence: RowColumn | None = None
        self._warned = False

    async def check(self, session: PostgresSession) -> None:
        """Look at the columns. Raises ConfigurationError and ServerAway."""
        described, unseen = await session.results([self._statements.describe, UNSEEN])
        columns = [_column(described, place) for place in range(described.nfields)]
        there = {column.name: column for column in columns}
        key = there.get(self._statements.column)
        missing = [name for name in self._needed if name not in there]
        if key is None or missing:
            name = missing[0] if key is not None else self._statements.column
            names = ", ".join([*there][:SHOWN_MAX])
            raise refused(f"{self.who}: {self.where} has no column {name!r}; it has {names}")
        self._check_kind(key)
        if self._grows and unseen.ntuples:
            kind = {b"f": "foreign table"}.get(unseen.get_value(0, 1), "materialized view")
            name = unseen.get_value(0, 0).decode()
            text = f"{self.who}: {self.where} reads {name!r}, a {kind}, whose rows come in no order that can be seen"
            raise refused(text)
        self._statements.described(columns, self._wanted)
        if self._grows and key.table:
            await self._check_sequence(session, key)
            await self._warn_of_cost(session, key)

    async def check_numbers(self, session: PostgresSession, after: int | None) -> None:
        """Raise ConfigurationError if the table's numbers have begun again below those that were read."""
        if self._sequence is None or after is None:
            return
        (sequences,) = await session.ask([sequence_of(self._sequence)])
        below = [(name, int(last)) for name, _, _, _, last in sequences if last is not None and int(last) < after]
        if not below:
            return
        (((highest,),),) = await session.ask([self._statements.highest(None)])
        if highest is None or int(highest) < after:
            name, last = below[0]
            raise refused(
                f"{self.who}: rows up to {after:,} of {self.where} were read, and {_said(name)} is at {last:,}: the "
                "table was emptied or made again; pass another epoch to read it from its begin"
            )

    def _check_kind(self, key: RowColumn) -> None:
        if key.kind in INTEGERS or (not self._grows and key.kind in TEXTS):
            return
        wanted = "an integer" if self._grows else "an integer, a uuid or a text"
        raise invalid(f"{self.who}: column {key.name!r} of {self.where} is not {wanted}, which names a row")

    async def _check_sequence(self, session: PostgresSession, key: RowColumn) -> None:
        """Refuse a sequence whose numbers are not drawn in their order."""
        (sequences,) = await session.ask([sequence_of(key)])
        for name, cache, increment, cycle, _ in sequences:
            fault = f"keeps {_said(cache)} numbers in each session (CACHE)" if int(cache or b"1") > 1 else ""
            fault = fault or ("counts down" if int(increment or b"1") < 0 else "begins again (CYCLE)" * (cycle == b"t"))
            if fault:
                text = (
                    f"{self.who}: {_said(name)}, which numbers {self.where}, {fault}, so a row may come below one that "
                    f"was read: ALTER SEQUENCE {_said(name)} CACHE 1 NO CYCLE, or pass outbox=True"
                )
                raise refused(text)
        self._sequence = key if sequences else None

    async def _warn_of_cost(self, session: PostgresSession, key: RowColumn) -> None:
        (((has_index,),),) = await session.ask([index_of(key)])
        if has_index != b"t" and not self._warned:
            text = "%s: no index of %s begins with %r, so each read looks through the whole table"
            log.warning(text, self.who, self.where, key.name)
        self._warned = True


def _column(result: Any, place: int) -> RowColumn:
    name = result.fname(place).decode()
    return RowColumn(name, result.ftype(place), result.ftable(place), result.ftablecol(place))


def _said(cell: bytes | None) -> str:
    return (cell or b"").decode()
