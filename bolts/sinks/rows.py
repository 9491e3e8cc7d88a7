"""What the tables of all databases share: the rows of a record class, what is one row, and the rows of a batch.

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
from topology.components import Tuple
from topology.errors import ConfigurationError
from topology.records import Record

Row: TypeAlias = tuple[Any, ...]  # values in the columns' order; in append mode the key is the last
Convert: TypeAlias = Callable[[Any], Any]
_encode_row: Final = msgspec.msgpack.Encoder().encode  # hashed into the key: fixed for ever, by a golden vector


class RecordTable:
    """One record class's table. `converts`: field → how its values are made ready for their column."""

    def __init__(self, cls: type[Record], name: str, upsert: Upsert | None, converts: Mapping[str, Convert]) -> None:
        """Raises ConfigurationError where the class has no such key or revision."""
        self.cls = cls
        self.name = name  # for people
        self.upsert = upsert
        self.made = False  # it was there, as it should be, once since the store was opened
        self.problem = ""  # why nothing can be stored in it now
        self._fields = tuple(converts)
        self._converts = tuple(converts.values())
        if upsert is not None:
            upsert.check(cls)
            self._key_at = [self._fields.index(field) for field in upsert.key]
            self._revision_at = self._fields.index(upsert.revision)

    def row(self, tup: Tuple[Any]) -> Row:
        """The row of a tuple. Raises BadValue, naming the field."""
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
        """What is unique in the table, as bytes that sort."""
        if self.upsert is None:
            key: bytes = row[-1]
            return key
        return _encode_row(self.key_values(row))

    def key_values(self, row: Row) -> tuple[Any, ...]:
        """In upsert mode: the values of the fields in the key."""
        return tuple(row[at] for at in self._key_at)

    def revision(self, row: Row) -> Any:
        """In upsert mode: what decides between two rows of one key."""
        return row[self._revision_at]

    def same(self, row: Row) -> bytes:
        """What two rows have in common that are one: the sink's key, which has a hash of the content, or all."""
        return self.key_of(row) if self.upsert is None else _encode_row(row)


T = TypeVar("T", bound=RecordTable)


@dataclass(slots=True)
class SinkRow(Generic[T]):
    """A row to be stored, and where in the batch it came from: several places where the batch repeats it."""

    table: T
    row: Row
    key: bytes
    places: list[int]
    refused: str = ""


def entries_of(
    tuples: Sequence[Tuple[Any]], table_of: Callable[[type[Record]], T], written: Written
) -> list[SinkRow[T]]:
    """The batch's rows, each once (C9), in its order; what has no row is refused."""
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
    """None of its tuples can be stored."""
    entry.refused = why


def tell_refused(entries: Iterable[SinkRow[T]], written: Written) -> None:
    """Says of each tuple whose row was refused why."""
    for entry in entries:
        if entry.refused:
            written.refused.update(dict.fromkeys(entry.places, entry.refused))
