"""Hashes: one for each key of the user's fields, which has the highest revision. Must not know how one connects."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from bolts.sinks.contract import Written
from bolts.sinks.keys import WriteCounts
from bolts.sinks.redis.calls import CALL_RECORDS, RedisCalls, flat, rounds
from bolts.sinks.redis.scripts import HASH
from bolts.sinks.rows import RecordTable, SinkRow, entries_of, refuse, tell_refused
from bolts.sinks.upsert import Upsert
from bolts.sinks.values import BadValue, Convert, encode_json, only_type, or_none, plain, shown, without_none
from topology.clients import redis
from topology.clients.errors import ServerAway, refused
from topology.errors import ConfigurationError
from topology.records import Record, field_types

REVISION_MAX: Final = 40  # characters of a found revision that a reason repeats
_KEYS: Final = (int, str, bytes, bool, datetime)


class HashTable(RecordTable):
    """The hashes of one record class: its rows are texts, or None for a field that has no value."""

    def __init__(self, cls: type[Record], target: str, upsert: Upsert) -> None:
        types = field_types(cls)
        super().__init__(cls, target, upsert, {name: _text(types[name]) for name in types})
        for name in upsert.key:
            kind, _ = without_none(types[name])
            if kind not in _KEYS and only_type(kind) is None:
                raise BadValue(f"{cls.__name__}.{name} can't be part of a key: its values have several types")
        self.names = tuple(types)
        self.revisions = "int" if without_none(types[upsert.revision])[0] is int else "time"

    def hash_of(self, row: Sequence[Any]) -> str:
        """Return the key of the row's hash."""
        values = self.key_values(tuple(row))
        if len(values) > 1:
            values = tuple(value.replace("%", "%25").replace(":", "%3A") for value in values)
        return f"{self.name}:{':'.join(values)}"

    def arguments(self, row: Sequence[Any]) -> list[Any]:
        """Return what the script needs to know of the row."""
        given = [(name, value) for name, value in zip(self.names, row, strict=True) if value is not None]
        absent = [name for name, value in zip(self.names, row, strict=True) if value is None]
        pairs = [part for pair in given for part in pair]
        return [self.revision(tuple(row)), len(given), *pairs, len(absent), *absent]


class RedisHashes:
    """Hashes; see `contract.AsyncSinkStore`."""

    def __init__(self, calls: RedisCalls, target: str, upsert: Upsert) -> None:
        self._calls, self._target, self._upsert = calls, target, upsert
        self.where = f"hashes {target}:… of {calls.server.where}"
        self._table: HashTable | None = None

    async def open(self) -> None:
        """See `AsyncSinkStore.open`. Also checks that one node has all hashes, and what this user may do."""
        if not await self._calls.open():
            return
        try:
            answers = await self._calls.all([("EXISTS", f"{self._target}:1", f"{self._target}:2")])
            if isinstance(answers[0], redis.RedisRefusal) and answers[0].code == "CROSSSLOT":
                braced = f"{{{self._target}}}"
                text = (
                    f"RedisSink: {self._calls.server.where} is a cluster, and one node has to have all hashes of a sink"
                )
                raise refused(f"{text}: put the target into braces, {braced!r}")
            await self._calls.scripts(HASH, [[0, self._upsert.revision, "int"]])
        except (ServerAway, ConfigurationError):
            await self._calls.close()
            raise

    async def write(self, tuples: Sequence[Any]) -> Written:
        """See `AsyncSinkStore.write`."""
        written = Written(WriteCounts())
        groups = entries_of(tuples, self._table_of, written)
        try:
            await self.open()
            for group in groups:
                await self._write(group, written.tally)
            await self._calls.replicated()
        except ConfigurationError as error:  # the server refuses now what it has accepted at the begin
            raise ServerAway(str(error)) from error
        for group in groups:
            tell_refused(group, written)
        return written

    def _table_of(self, cls: type[Record]) -> HashTable:
        if self._table is None:
            self._table = HashTable(cls, self._target, self._upsert)
        if self._table.cls is not cls:
            raise BadValue(f"the hashes {self._target}:… hold {self._table.cls.__name__}, and not {cls.__name__}")
        return self._table

    async def _write(self, rows: Sequence[SinkRow[HashTable]], tally: WriteCounts) -> None:
        arguments = [row.table.arguments(row.row) for row in rows]
        for begin, end in rounds([sum(len(str(part)) for part in each) for each in arguments]):
            parts = [range(at, min(at + CALL_RECORDS, end)) for at in range(begin, end, CALL_RECORDS)]
            calls = [
                [
                    len(part),
                    *[rows[at].table.hash_of(rows[at].row) for at in part],
                    self._upsert.revision,
                    rows[begin].table.revisions,
                    *[value for at in part for value in arguments[at]],
                ]
                for part in parts
            ]
            for row, said in zip(rows[begin:end], flat(await self._calls.scripts(HASH, calls), parts), strict=True):
                _count(row, said, tally)

    async def close(self) -> None:
        """See `AsyncSinkStore.close`."""
        await self._calls.close()


def _count(row: SinkRow[HashTable], said: Any, tally: WriteCounts) -> None:
    """Add what the script has said of one row."""
    name = row.table.hash_of(row.row)
    if said in (0, 1, 2):
        tally.stored += said == 1
        tally.duplicates += len(row.places) - (said == 1)
        if said == 2:
            tally.divergent.append(name)
        return
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    if text.startswith("REVISION "):
        held = text.removeprefix("REVISION ")[:REVISION_MAX]
        text = f"its revision there is {shown(held)}, which this sink has not written"
    refuse(row, f"{shown(name)}: Redis refuses it: {text}")


def _text(annotation: Any) -> Convert:
    """Return the function that makes a text of a value of this annotation: a str is itself, anything else is JSON."""
    kind, optional = without_none(annotation)
    convert = plain(kind)

    def text(value: Any) -> str:
        made = convert(value)
        return made if isinstance(made, str) else encode_json(made).decode()

    return or_none(text) if optional else text
