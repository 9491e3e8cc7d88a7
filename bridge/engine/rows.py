"""The rows of a topology on Spark: deliveries on their way, as Python tuples and as Arrow columns.

All rows have one schema, whatever their record: its bytes are the same as between two workers of Kedge. `position`
sorts rows in the order in which their messages were handed over; the outputs of a bolt follow their input. Must not
know bolts, nor Spark.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final, NamedTuple

import pyarrow as pa

from topology.core.tuples import Tuple
from topology.records import Record, decoder

REJECTED: Final = -1  # value of `to`: a record that a bolt rejected, for the driver
TIMERS: Final = -2  # value of `to`: timers of a key, which the driver keeps
DUE: Final = -3  # value of `to`: a timer that is due, for its bolt

SCHEMA: Final = pa.schema(
    [
        pa.field("to", pa.int32()),  # number of the subscription in the plan, or one of the above
        pa.field("task", pa.int32()),  # task of a sink
        pa.field("group", pa.binary()),  # key by which the next stage groups rows
        pa.field("key", pa.binary()),  # key of the subscriber's state
        pa.field("origin", pa.int64()),  # signed, because Spark's integers are
        pa.field("identity", pa.int64()),
        pa.field("position", pa.binary()),
        pa.field("record", pa.binary()),
    ]
)
WIDE: Final = pa.schema(  # for columns of 2 GiB and more
    [pa.field(field.name, pa.large_binary() if field.type == pa.binary() else field.type) for field in SCHEMA]
)
DDL: Final = "to int, task int, group binary, key binary, origin long, identity long, position binary, record binary"

_after: Final = Struct(">I").pack
_place: Final = Struct(">qHqI").pack
_signed: Final = Struct("<q")
_unsigned: Final = Struct("<Q")


class EngineRow(NamedTuple):
    """One delivery, with its fields in the order of the schema."""

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
    """The present timers of a key by name, and the timers that it no longer has."""

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
    at_end: bool = False  # True if it fires because the run ends, whenever it is due


rejected_of: Final = decoder(Rejected)
timers_of: Final = decoder(KeyTimers)
due_of: Final = decoder(DueNow)


def rows_of(batch: "pa.RecordBatch | pa.Table") -> list[EngineRow]:
    """Return the rows of a batch."""
    return [*map(EngineRow._make, zip(*(batch.column(name).to_pylist() for name in SCHEMA.names), strict=True))]


def batch_of(rows: Iterable[EngineRow]) -> pa.RecordBatch:
    """Return the batch of some rows: the reverse of `rows_of`."""
    columns: list[Any] = [*zip(*rows, strict=True)] or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def position_of(written_ns: int, number: int, segment: int, row: int) -> bytes:
    """Return the position of a row of a segment among all rows: by when the segment was written, its input's number,
    its own number, and the row's."""
    return _place(written_ns, number, segment, row)


def after(position: bytes, ordinal: int) -> bytes:
    """Return the position of the `ordinal`-th output of the row at `position`."""
    return position + _after(ordinal)


def signed(number: int) -> int:
    """Return 64 bits as Spark's signed integer."""
    value: int = _signed.unpack(_unsigned.pack(number))[0]
    return value


def unsigned(number: int) -> int:
    """Return the reverse of `signed`."""
    value: int = _unsigned.unpack(_signed.pack(number))[0]
    return value


def row_of(tup: Tuple[Any], to: int, task: int, group: bytes, key: bytes, position: bytes, record: bytes) -> EngineRow:
    """Return the row of a delivery."""
    return EngineRow(to, task, group, key, signed(tup.origin), signed(tup.identity), position, record)
