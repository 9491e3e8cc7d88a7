"""Map record classes to Arrow columns and back: which types Spark supports, and the columns' names.

int, float           int64, float64
Decimal              decimal128(38, 18)
datetime             a timestamp in microseconds of UTC
enum, Literal        the column of its values
X | None             a nullable column
record               a struct
tuple[X, Y]          a struct of `_1`, `_2` and so on
tuple[X, ...]        a list, also for `frozenset[X]`

A type without a column is an error at declaration, which names class and field. Needs only pyarrow; must not know
segments, tuples or bolts. Spark derives its own schemas from Arrow's.
"""

import enum
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import UnionType
from typing import Any, Final, Generic, TypeVar

import msgspec
import pyarrow as pa

from bolts.sinks.values import only_type, without_none
from bridge.arrow.columns import PRESENT, SCALARS, ArrowColumn, Choice, Many, Named, Struct
from topology.codes.settings import INVALID_SPARK_RECORD
from topology.codes.tuples import RECORD_COLUMNS_MISMATCH
from topology.errors import ConfigurationError, RecordError
from topology.records import Record, encode, encode_all, encoded, field_types, is_record, record_problems

R = TypeVar("R", bound=Record)

OURS: Final = ("_id", "_content")  # columns that a segment has in addition to the record's
FORMER: Final = ("_message",)  # further ones, in segments of earlier versions
_AS_THEY_ARE: Final = (bytes, datetime, Decimal)

_kinds = pa.types
_READ_AS: Final[dict[Any, tuple[Callable[[Any], bool], ...]]] = {  # a type of ours → the types that can be read as it
    pa.int64(): (_kinds.is_signed_integer, _kinds.is_uint8, _kinds.is_uint16, _kinds.is_uint32),
    pa.float64(): (_kinds.is_floating,),
    pa.string(): (_kinds.is_large_string,),
    pa.binary(): (_kinds.is_large_binary, _kinds.is_fixed_size_binary),
}


class Columns(Generic[R]):
    """The columns of one record class. `columns_of` makes one object per class."""

    def __init__(self, cls: type[R], struct: Struct) -> None:
        self.cls = cls
        self.schema: pa.Schema = pa.schema([*struct.type])
        self._struct = struct
        self._has_sets = _has_sets(cls)

    def arrays(self, records: Sequence[R]) -> list[pa.Array]:
        """Return one array per field. Raises `bolts.sinks.values.BadValue`, which names class and field, if a record
        does not fit."""
        return self._struct.arrays(records)

    def content(self, record: R) -> bytes:
        """Return bytes that are equal for equal records, in every process. Raises RecordError."""
        return encoded(_in_order(record)) if self._has_sets else encode(record)

    def contents(self, records: Sequence[R]) -> list[bytes]:
        """Return `content` for each record. Raises RecordError if a record has no byte form."""
        return [*map(self.content, records)] if self._has_sets else encode_all(records)

    def records(self, table: "pa.Table | pa.RecordBatch") -> list[R]:
        """Return the records of a table: the reverse of `arrays`. Columns may stand in any order, and have any width
        that loses nothing. Raises RecordError, which names the column, if the columns are not those of the class."""
        if wrong := [*self.problems(table.schema)]:
            raise _no_record(self.cls, "; ".join(wrong))
        arrays = []
        for field in self.schema:
            stored = table.column(field.name)
            array = stored.combine_chunks() if isinstance(stored, pa.ChunkedArray) else stored
            if array.null_count and not field.nullable:
                raise _no_record(self.cls, f"{array.null_count} nulls in {field.name!r}, which is never None")
            try:
                arrays.append(array.cast(_nullable(field.type)))
            except pa.ArrowInvalid as error:
                raise _no_record(self.cls, f"{field.name!r}: {error}") from error
        try:
            rows = self._struct.rows(arrays)
            return msgspec.convert(rows, list[self.cls], builtin_types=_AS_THEY_ARE)  # type: ignore[name-defined]
        except msgspec.ValidationError as error:
            raise _no_record(self.cls, str(error)) from error

    def problems(self, schema: pa.Schema) -> Iterator[str]:
        """Yield the reasons why these columns cannot be read as records of the class, one sentence per column. Yields
        nothing if they can be."""
        wanted = {field.name: field.type for field in self.schema}
        there = {field.name: field.type for field in schema}
        yield from (f"there is no column {name!r}" for name in wanted if name not in there)
        yield from (f"the column {name!r} is no field of the class" for name in there if name not in wanted)
        for name, kind in wanted.items():
            if name in there and not fits(there[name], kind):
                yield f"the column {name!r} is {there[name]}, not {kind}"


class Encoded(Columns[R]):
    """One column, `record`, that holds the records' encoded bytes. Works for any class; for a reader that decodes them
    with the same class and needs no column per field."""

    def __init__(self, cls: type[R]) -> None:
        self.cls = cls
        self.schema = pa.schema([pa.field("record", pa.binary(), nullable=False)])
        self._has_sets = _has_sets(cls)

    def arrays(self, records: Sequence[R]) -> list[pa.Array]:
        """Return one array. Raises RecordError if a record has no byte form."""
        return [pa.array([encode(record) for record in records], pa.binary())]


@cache
def columns_of(cls: type[R]) -> Columns[R]:
    """Return the columns of a class. Raises ConfigurationError, which names the field, if Spark cannot represent the
    class."""
    if problems := [*_problems(cls)]:
        raise ConfigurationError("; ".join(problems), code=INVALID_SPARK_RECORD)
    return Columns(cls, _struct(cls, (), optional=False, loose=False))


def arrow_schema(cls: type[Record]) -> pa.Schema:
    """Return the names and types of the columns. Raises ConfigurationError."""
    return columns_of(cls).schema


def to_table(cls: type[R], records: Sequence[R]) -> pa.RecordBatch:
    """Return a batch with one row per record. Raises ConfigurationError for the class, and
    `bolts.sinks.values.BadValue` for a record."""
    columns = columns_of(cls)
    return pa.RecordBatch.from_arrays(columns.arrays(records), schema=columns.schema)


def from_table(cls: type[R], table: "pa.Table | pa.RecordBatch") -> list[R]:
    """Return one record per row. Raises ConfigurationError for the class, and RecordError for columns that are not its
    own."""
    return columns_of(cls).records(table)


def fits(got: pa.DataType, wanted: pa.DataType) -> bool:
    """Return True if a column of type `got` can be read as type `wanted`, one of ours, without loss."""
    if _kinds.is_struct(wanted):
        if not _kinds.is_struct(got) or [field.name for field in got] != [field.name for field in wanted]:
            return False
        return all(fits(mine.type, theirs.type) for mine, theirs in zip(got, wanted, strict=True))
    if _kinds.is_list(wanted):
        return bool(_kinds.is_list(got) or _kinds.is_large_list(got)) and fits(got.value_type, wanted.value_type)
    if _kinds.is_decimal(wanted):
        whole = wanted.precision - wanted.scale
        return bool(_kinds.is_decimal128(got)) and 0 <= got.scale <= wanted.scale and got.precision - got.scale <= whole
    if _kinds.is_timestamp(wanted):
        return bool(_kinds.is_timestamp(got)) and got.tz is not None and got.unit != "ns"
    return bool(got.equals(wanted)) or any(is_kind(got) for is_kind in _READ_AS.get(wanted, ()))


def _nullable(kind: pa.DataType) -> pa.DataType:
    """Return the type with nullable children. Arrow casts only into such a type, even if there are no nulls."""
    if _kinds.is_struct(kind):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in kind])
    if _kinds.is_list(kind):
        return pa.list_(_nullable(kind.value_type))
    return kind


def _no_record(cls: type[Record], why: str) -> RecordError:
    return RecordError(f"these columns do not fit {cls.__name__}: {why}", code=RECORD_COLUMNS_MISMATCH)


# -- from annotations


class _NoColumn(Exception):
    """Raised if a type has no column. The message continues a sentence that starts with the field's name."""


def _problems(cls: type[Record]) -> Iterator[str]:
    """Yield the reasons why a class has no columns, one sentence per field."""
    if wrong := record_problems(cls):
        yield from wrong
        return
    fields = field_types(cls)
    if not fields:
        yield f"{cls.__name__} has no fields; Spark needs at least one column"
    for name, kind in fields.items():
        try:
            _column(kind, (cls,))
        except _NoColumn as error:
            yield f"{cls.__name__}.{name}: {error}"
        if name in (*OURS, *FORMER):
            yield f"{cls.__name__}.{name}: a hand-over has a column of this name; rename the field"
    for clash in _clashes(fields):
        yield f"{cls.__name__}: Spark cannot distinguish {clash}; rename one of them"


def _clashes(names: Iterable[str]) -> Iterator[str]:
    first: dict[str, str] = {}
    for name in names:
        if (before := first.setdefault(name.lower(), name)) != name:
            yield f"{before} from {name}"


def _struct(cls: type[Record], seen: tuple[Any, ...], *, optional: bool, loose: bool) -> Struct:
    parts = [(name, _column(kind, (*seen, cls), loose)) for name, kind in field_types(cls).items()]
    return Struct(cls, parts, optional, loose)


def _column(annotation: Any, seen: tuple[Any, ...], loose: bool = False) -> ArrowColumn:
    """Return the column of one annotation. `seen`: the records that contain it; `loose`: one of them may be null.
    Raises _NoColumn."""
    kind, optional = without_none(annotation)
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in SCALARS:
        return SCALARS[kind](optional)
    if kind is None or kind is type(None):
        raise _NoColumn("a field that is always None holds no data; remove it")
    if origin in (typing.Union, UnionType):
        raise _NoColumn(f"{kind} may be of several types; a column has one type")
    if origin is typing.Literal:
        return _choice(args, optional)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return Named(kind, _only(kind, optional))
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return Many(tuple, _column(args[0], seen), optional)
    if origin is frozenset:
        return Many(frozenset, _column(args[0], seen), optional)
    if origin is tuple and args:
        loose = loose or optional
        parts = [(f"_{place}", _column(part, seen, loose)) for place, part in enumerate(args, start=1)]
        return Struct(tuple, parts, optional, loose)
    if is_record(kind):
        return _nested(kind, seen, optional=optional, loose=loose or optional)
    raise _NoColumn(f"{kind} has no column in Spark")


def _nested(kind: type[Record], seen: tuple[Any, ...], *, optional: bool, loose: bool) -> ArrowColumn:
    if kind in seen:
        raise _NoColumn(f"a {kind.__name__} within a {kind.__name__} has no depth limit; hand over its key instead")
    fields = field_types(kind)
    if not fields:
        raise _NoColumn(f"{kind.__name__} has no fields; Spark needs at least one column")
    for clash in _clashes(fields):
        raise _NoColumn(f"of {kind.__name__}, Spark cannot distinguish {clash}; rename one of them")
    return _struct(kind, seen, optional=optional, loose=loose)


def _choice(args: tuple[Any, ...], optional: bool) -> ArrowColumn:
    choices = [choice for choice in args if choice is not None]
    if not choices:
        raise _NoColumn("a field that is always None holds no data; remove it")
    return Choice(choices, _only(typing.Literal[tuple(choices)], optional or len(choices) < len(args)))


def _only(kind: Any, optional: bool) -> ArrowColumn:
    """Return the column of the values of an enum or Literal."""
    only = only_type(kind)
    if only not in SCALARS:
        raise _NoColumn(f"{getattr(kind, '__name__', kind)} has values of several types; a column has one type")
    return SCALARS[only](optional)


# -- contents


def _has_sets(kind: Any) -> bool:
    if is_record(kind):
        return any(_has_sets(part) for part in field_types(kind).values())
    return typing.get_origin(kind) is frozenset or any(map(_has_sets, typing.get_args(kind)))


def _in_order(value: Any) -> Any:
    """Return the same value with its sets sorted, because a set's order differs between processes."""
    if isinstance(value, frozenset):
        return sorted(map(_in_order, value), key=encoded)
    if isinstance(value, Record):
        return [_in_order(part) for part in msgspec.structs.astuple(value)]
    if isinstance(value, tuple):
        return [_in_order(part) for part in value]
    return value


def mismatches(declared: pa.Schema, given: pa.Schema) -> list[str]:
    """Return what is wrong with the given columns, one clause per column, which names it. Empty if all columns fit;
    their order does not matter."""
    found = [f"there is no column {name!r}" for name in declared.names if name not in given.names]
    found += [f"{name!r} is not declared" for name in dict.fromkeys(given.names) if name not in declared.names]
    found += [f"{name!r} is there twice" for name in dict.fromkeys(given.names) if given.names.count(name) > 1]
    for name in declared.names:
        if given.names.count(name) == 1 and not fits(given.field(name).type, declared.field(name).type):
            found.append(f"{name!r} is {given.field(name).type}, but {declared.field(name).type} is declared")
    return found


def fitted(table: pa.Table, declared: pa.Schema) -> pa.Table:
    """Return the rows with the columns in the declared order. Raises ValueError for a NULL in a column that is not
    nullable."""
    for field in declared:
        for where, count in _nulls(field, table.column(field.name).combine_chunks(), field.name):
            raise ValueError(f"{where!r} is NULL in {count:,} of {table.num_rows:,} rows; declare it as `… | None`")
    return table.select(declared.names)


def _nulls(field: pa.Field, array: pa.Array, where: str) -> Iterator[tuple[str, int]]:
    """Yield each place that holds undeclared NULLs, and how many; also places within records and tuples."""
    if array.null_count and (not field.nullable or field.metadata == PRESENT):
        yield where, array.null_count
    if pa.types.is_struct(field.type):
        parts = array.drop_null()
        for name, part in zip([child.name for child in array.type], parts.flatten(), strict=True):
            yield from _nulls(field.type.field(name), part, f"{where}.{name}")
    elif pa.types.is_list(field.type):
        yield from _nulls(field.type.value_field, array.drop_null().flatten(), f"{where}[]")
