"""The parts that the tables of all databases share: a record class's rows, when two rows are one, a batch's rows.

Pure. Must not know SQL, nor any database.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from bolts.sinks.contract import Written
from bolts.sinks.keys import sink_keys
from bolts.sinks.upsert import Upsert
from bolts.sinks.values import BadValue, plain_columns
from topology.codes.code import Code
from topology.core.tuples import Tuple
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
        self._converts = converts
        if upsert is not None:
            upsert.check(cls)
            self._key_at = [self._fields.index(field) for field in upsert.key]
            self._revision_at = self._fields.index(upsert.revision)

    def rows(self, tuples: Sequence[Tuple[Any]]) -> list[Row]:
        """Return the rows of these tuples. Raises BadValue, which names the field, if a tuple has none."""
        columns = plain_columns(self.cls, self._converts, [tup.record for tup in tuples])
        if self.upsert is None:
            contents = map(_encode_row, zip(*columns, strict=True)) if columns else [_encode_row(())] * len(tuples)
            columns.append(sink_keys(tuples, [*contents]))
        return [*zip(*columns, strict=True)]

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


class SinkRow(msgspec.Struct, Generic[T], gc=False):
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


def places_by_class(tuples: Sequence[Tuple[Any]]) -> dict[type[Record], list[int]]:
    """Return the places of each record class in the batch, classes in the order of their first tuple."""
    classes = [type(tup.record) for tup in tuples]
    if len({*classes}) == 1:  # the usual batch, in a third of the time
        return {classes[0]: [*range(len(tuples))]}
    places: dict[type[Record], list[int]] = {}
    for place, cls in enumerate(classes):
        places.setdefault(cls, []).append(place)
    return places


def entries_of(
    tuples: Sequence[Tuple[Any]], table_of: Callable[[type[Record]], T], written: Written
) -> list[list[SinkRow[T]]]:
    """Return the batch's rows, each once (C9), in their order: one list per table. A tuple that gives no row is
    refused."""
    groups = []
    for cls, places in places_by_class(tuples).items():
        try:
            table = table_of(cls)
        except (BadValue, ConfigurationError) as error:
            written.refused.update(dict.fromkeys(places, str(error)))
            continue
        entries: dict[bytes, SinkRow[T]] = {}
        for place, row in _rows_of(table, tuples, places, written.refused):
            same = table.same(row)
            entry = entries.get(same)
            if entry is None:
                entries[same] = SinkRow(table, row, table.key_of(row), [place])
            else:
                entry.places.append(place)
        if entries:
            groups.append([*entries.values()])
    return groups


def _rows_of(
    table: RecordTable, tuples: Sequence[Tuple[Any]], places: list[int], refused: dict[int, str]
) -> Iterable[tuple[int, Row]]:
    """Return the rows of the tuples at these places. If one of them is refused, each is looked at by itself."""
    try:
        return zip(places, table.rows([tuples[place] for place in places]), strict=True)
    except BadValue as error:
        if len(places) == 1:
            refused[places[0]] = str(error)
            return ()
        return chain.from_iterable(_rows_of(table, tuples, [place], refused) for place in places)


def refuse(entry: SinkRow[T], why: str) -> None:
    """Refuse the row: none of its tuples can be stored."""
    entry.refused = why


def tell_refused(entries: Iterable[SinkRow[T]], written: Written) -> None:
    """Enter the reason for every tuple whose row was refused."""
    for entry in entries:
        if entry.refused:
            written.refused.update(dict.fromkeys(entry.places, entry.refused))
