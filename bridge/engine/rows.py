"""The rows of a topology on Spark: deliveries on their way, as tuples of Python's and as Arrow's columns.

One schema for all of them, whatever the record: its bytes are as between two workers of Kedge. `position` sorts rows as
their messages were handed over, and what a bolt has given for one behind it. Must not know bolts, nor Spark.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final, NamedTuple

import pyarrow as pa

from topology.components import Tuple
from topology.records import Record, decoder

REJECTED: Final = -1  # `to`: a record that a bolt has rejected, for the driver
TIMERS: Final = -2  # timers of a key, for the driver to keep
DUE: Final = -3  # a timer that is due, for its bolt

SCHEMA: Final = pa.schema(
    [
        pa.field("to", pa.int32()),  # the subscription, by its number in the plan; or one of the above
        pa.field("task", pa.int32()),  # of a sink
        pa.field("group", pa.binary()),  # what the next stage brings rows together by
        pa.field("key", pa.binary()),  # of the subscriber's state
        pa.field("origin", pa.int64()),  # with the sign that Spark's integers have
        pa.field("identity", pa.int64()),
        pa.field("position", pa.binary()),
        pa.field("record", pa.binary()),
    ]
)
WIDE: Final = pa.schema(  # for 2 GiB and more in one column
    [pa.field(one.name, pa.large_binary() if one.type == pa.binary() else one.type) for one in SCHEMA]
)
DDL: Final = "to int, task int, group binary, key binary, origin long, identity long, position binary, record binary"

_after: Final = Struct(">I").pack
_place: Final = Struct(">qHqI").pack
_signed: Final = Struct("<q")
_unsigned: Final = Struct("<Q")


class EngineRow(NamedTuple):
    """One delivery, in the order of the schema."""

    to: int
    task: int
    group: bytes
    key: bytes
    origin: int
    identity: int
    position: bytes
    record: bytes


class Rejected(Record):
    """A record that a bolt will never process; it becomes a dead letter."""

    component: str
    text: str
    record: str


class KeyTimers(Record):
    """The timers that a key has now, by name, and those that it has no more."""

    component: str
    key: bytes
    due: tuple[tuple[str, int], ...]  # microseconds since 1970, UTC
    gone: tuple[str, ...]


class DueNow(Record):
    """A timer on its way to its bolt."""

    component: str
    key: bytes
    name: str
    due: int
    at_end: bool = False  # it fires because the run ends, whenever it is due


rejected_of: Final = decoder(Rejected)
timers_of: Final = decoder(KeyTimers)
due_of: Final = decoder(DueNow)


def rows_of(batch: "pa.RecordBatch | pa.Table") -> list[EngineRow]:
    """The rows of a batch."""
    return [*map(EngineRow._make, zip(*(batch.column(name).to_pylist() for name in SCHEMA.names), strict=True))]


def batch_of(rows: Iterable[EngineRow]) -> pa.RecordBatch:
    """The reverse."""
    columns: list[Any] = [*zip(*rows, strict=True)] or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def position_of(written_ns: int, number: int, segment: int, row: int) -> bytes:
    """Where a row of a segment stands among all: by when that was written, its input's number, its own, the row's."""
    return _place(written_ns, number, segment, row)


def after(position: bytes, ordinal: int) -> bytes:
    """The position of what was given for the row at `position`, as the `ordinal`-th."""
    return position + _after(ordinal)


def signed(number: int) -> int:
    """64 bits as Spark has them."""
    value: int = _signed.unpack(_unsigned.pack(number))[0]
    return value


def unsigned(number: int) -> int:
    """The reverse."""
    value: int = _unsigned.unpack(_signed.pack(number))[0]
    return value


def row_of(tup: Tuple[Any], to: int, task: int, group: bytes, key: bytes, position: bytes, record: bytes) -> EngineRow:
    """A delivery."""
    return EngineRow(to, task, group, key, signed(tup.origin), signed(tup.identity), position, record)
