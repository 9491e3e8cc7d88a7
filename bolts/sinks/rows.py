"""The parts that the tables of all databases share: a record class's rows, when two rows are one, a batch's rows.

Pure. Must not know SQL, nor any database.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from bolts.sinks.contract import Written
from bolts.sinks.keys import sink_key
from bolts.sinks.upsert import Upsert
from bolts.sinks.values import BadValue
from topology.codes.code import Code
from topology.components import Tuple
from topology.errors import ConfigurationError
from topology.records import Record

Row: TypeAlias = tuple[Any, ...]  # values in the order of the columns; in append mode the key is the last
Convert: TypeAlias = Callable[[Any], Any]
_encode_row: Final = msgspec.msgpack.Encoder().encode  # hashed into the key, so a golden vector fixes it for ever


class RecordTable:
    """The table of one record class. `converts`: field → the function that prepares its values for their column."""

    def __init__(self, cls: type[Record], name: str, upsert: Upsert | None, converts: Mapping[str, Convert]) -> None:
        """Raises ConfigurationError if the class has no such key or revision field."""
        self.cls = cls
        self.name = name  # shown to people
        self.upsert = upsert
        self.made = False  # True once the table was found or made, and fitted, since the store was opened
        self.problem = ""  # why no row can be stored in it now; empty if rows can
        self._fields = tuple(converts)
        self._converts = tuple(converts.values())
        if upsert is not None:
            upsert.check(cls)
            self._key_at = [self._fields.index(field) for field in upsert.key]
            self._revision_at = self._fields.index(upsert.revision)

    def row(self, tup: Tuple[Any]) -> Row:
        """Return the row of a tuple. Raises BadValue, which names the field."""
        made: list[Any] = []
        try:
            for convert, value in zip(self._converts, msgspec.structs.astuple(tup.record), strict=True):
                made.append(convert(value))
        except BadValue as error:
            raise BadValue(f"{self.cls.__name__}.{self._fields[len(made)]}: {error}") from error
        if self.upsert is None:
            made.append(sink_key(tup.origin, tup.identity, _encode_row(made)))
        return tuple(made)

    def key_of(self, row: Row) -> bytes:
        """Return the bytes that are unique in the table; they sort."""
        if self.upsert is None:
            key: bytes = row[-1]
            return key
        return _encode_row(self.key_values(row))

    def key_values(self, row: Row) -> tuple[Any, ...]:
        """In upsert mode: return the values of the key's fields."""
        return tuple(row[at] for at in self._key_at)

    def revision(self, row: Row) -> Any:
        """In upsert mode: return the value that decides between two rows of one key."""
        return row[self._revision_at]

    def same(self, row: Row) -> bytes:
        """Return bytes that are equal for equal rows: the sink's key, which has a hash of the content, or the whole
        row."""
        return self.key_of(row) if self.upsert is None else _encode_row(row)


T = TypeVar("T", bound=RecordTable)


@dataclass(slots=True)
class SinkRow(Generic[T]):
    """A row to store, and its places in the batch: several if the batch repeats the row."""

    table: T
    row: Row
    key: bytes
    places: list[int]
    refused: str = ""


def check_own_table(sink: str, table: RecordTable, other: RecordTable | None, code: Code) -> None:
    """Raise ConfigurationError if another class has the table. `other`: the table of that class, if there is one."""
    if other is not None:
        raise ConfigurationError(
            f"{sink}: table {table.name!r} holds {other.cls.__module__}.{other.cls.__name__}, and can't hold "
            f"{table.cls.__module__}.{table.cls.__name__} too",
            code=code,
        )


def entries_of(
    tuples: Sequence[Tuple[Any]], table_of: Callable[[type[Record]], T], written: Written
) -> list[SinkRow[T]]:
    """Return the batch's rows, each once (C9), in their order. A tuple that gives no row is refused."""
    entries: dict[tuple[T, bytes], SinkRow[T]] = {}
    for place, tup in enumerate(tuples):
        try:
            table = table_of(type(tup.record))
            row = table.row(tup)
        except (BadValue, ConfigurationError) as error:
            written.refused[place] = str(error)
            continue
        same = table, table.same(row)
        entry = entries.get(same)
        if entry is None:
            entries[same] = SinkRow(table, row, table.key_of(row), [place])
        else:
            entry.places.append(place)
    return list(entries.values())


def refuse(entry: SinkRow[T], why: str) -> None:
    """Refuse the row: none of its tuples can be stored."""
    entry.refused = why


def tell_refused(entries: Iterable[SinkRow[T]], written: Written) -> None:
    """Enter the reason for every tuple whose row was refused."""
    for entry in entries:
        if entry.refused:
            written.refused.update(dict.fromkeys(entry.places, entry.refused))
