"""Convert values of one type to an Arrow array and back. `schema` builds a record's columns from these classes.

Knows pyarrow and values; must not know annotations, segments, tuples, nor Spark. Values are checked strictly, column by
column. The fast check compares the set of the values' types with the declared types, at 20 ns per value. Values are
only checked one by one if a type differs or Arrow rejects a value; the error then names the value.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import accumulate, pairwise
from operator import attrgetter, itemgetter
from typing import Any, Final

import pyarrow as pa
from pyarrow.compute import min_max  # pyright: ignore[reportAttributeAccessIssue]  # made at run time

from bolts.sinks.values import BadValue, raw, shown, text, truth, whole
from topology.records import encoded

DECIMAL_DIGITS: Final = 38  # the maximum precision of Spark's decimals
DECIMAL_PLACES: Final = 18  # digits after the decimal point
_WHOLE_DIGITS: Final = DECIMAL_DIGITS - DECIMAL_PLACES
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# The first and the last moment that a datetime in UTC can hold, in microseconds since 1970.
_FIRST: Final = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_END: Final = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_REFUSED: Final = (pa.ArrowException, OverflowError, ValueError, TypeError)  # raised by Arrow for an invalid value

PRESENT: Final = {b"kedge": b"present"}  # marks a part that is null only if its whole record or tuple is null

INT64: Final = pa.int64()
FLOAT64: Final = pa.float64()
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
DECIMAL: Final = pa.decimal128(DECIMAL_DIGITS, DECIMAL_PLACES)


class ArrowColumn(ABC):
    """The column of one type. `optional`: a value may be None."""

    def __init__(self, arrow: pa.DataType, kinds: Iterable[type], optional: bool) -> None:
        self.type = arrow
        self.optional = optional
        self._kinds = frozenset([*kinds, *([type(None)] if optional else [])])

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return the values as an array of `type`. Raises BadValue, which names the value and the reason."""
        if self._kinds.issuperset(map(type, values)):
            try:
                return self._made(values)
            except BadValue:
                raise
            except _REFUSED:
                pass  # check one by one, to name the bad value
        checked = [None if value is None and self.optional else self.checked(value) for value in values]
        try:
            return self._made(checked)
        except BadValue:
            raise
        except _REFUSED as error:
            raise BadValue(str(error)) from error

    @abstractmethod
    def checked(self, value: Any) -> Any:
        """Return the value in a form that `_made` accepts. Raises BadValue."""

    def _made(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self.type)

    def values(self, array: pa.Array) -> list[Any]:
        """Return the values that `array` was made from, with simpler types: a record or fixed tuple becomes a tuple, a
        tuple or frozenset a list, and an enum its value. `array` is of this column's type; its children may be declared
        nullable."""
        return array.to_pylist()  # type: ignore[no-any-return]


class Scalar(ArrowColumn):
    """A type that Arrow takes and returns unchanged. `check`: a function as in `bolts.sinks.values`."""

    def __init__(self, arrow: pa.DataType, kind: type, check: Callable[[Any], Any], optional: bool) -> None:
        super().__init__(arrow, [kind], optional)
        self._check = check

    def checked(self, value: Any) -> Any:
        return self._check(value)


def real(value: Any) -> float:
    """Return the value as a float. NaN and infinities are valid, because Spark has them. Raises BadValue."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong(value, "a float")
    try:
        return float(value)
    except OverflowError as error:
        raise BadValue(f"{shown(value)} does not fit in a float") from error


class Moment(ArrowColumn):
    """A datetime, stored as microseconds in UTC."""

    def __init__(self, optional: bool) -> None:
        super().__init__(TIMESTAMP, [datetime], optional)

    def checked(self, value: Any) -> Any:
        if not isinstance(value, datetime):
            raise wrong(value, "a datetime")
        if value.utcoffset() is None:
            raise BadValue(f"{value} has no time zone; records carry UTC")
        try:
            return value.astimezone(UTC)
        except OverflowError as error:
            raise BadValue(f"{value} is outside the years 1 to 9999 in UTC") from error

    def _made(self, values: Sequence[Any]) -> pa.Array:
        # Arrow's own conversion takes three times as long.
        since = [None if value is None else value - _EPOCH for value in values]
        made = pa.array(since, pa.duration("us")).view(INT64)
        low, high = min_max(made).as_py().values()
        if low is not None and not _FIRST <= low <= high <= _END:
            raise OverflowError("outside the years 1 to 9999 in UTC")
        return made.view(TIMESTAMP)

    def values(self, array: pa.Array) -> list[Any]:
        micros = array.view(INT64).to_pylist()
        return [None if count is None else _EPOCH + timedelta(microseconds=count) for count in micros]


class Number(ArrowColumn):
    """A Decimal with at most 20 digits before the point and 18 after it."""

    def __init__(self, optional: bool) -> None:
        super().__init__(DECIMAL, [Decimal], optional)

    def checked(self, value: Any) -> Any:
        if not isinstance(value, Decimal):
            raise wrong(value, "a Decimal")
        if not value.is_finite():
            raise BadValue(f"{value} cannot be handed over: it is not a finite number")
        if value and not -DECIMAL_PLACES <= value.adjusted() < _WHOLE_DIGITS:
            raise self._unfit(value)
        exact = shortened(value)
        _, _, places = exact.as_tuple()
        if not isinstance(places, int) or -places > DECIMAL_PLACES:
            raise self._unfit(value)
        return exact

    def values(self, array: pa.Array) -> list[Any]:
        return [None if number is None else shortened(number) for number in array.to_pylist()]

    @staticmethod
    def _unfit(value: Decimal) -> BadValue:
        return BadValue(
            f"{shown(value)} does not fit: a decimal has at most {_WHOLE_DIGITS} digits before the point and "
            f"{DECIMAL_PLACES} after it"
        )


def shortened(value: Decimal) -> Decimal:
    """Return the same number without trailing zeros. The result is exact; `normalize` would round it to 28 digits."""
    if not value:
        return Decimal(0)
    plain = format(value, "f")
    return Decimal(plain.rstrip("0").rstrip(".") if "." in plain else plain)


class Named(ArrowColumn):
    """An enum, stored by value."""

    def __init__(self, kind: type[enum.Enum], inner: ArrowColumn) -> None:
        super().__init__(inner.type, [kind], inner.optional)
        self._kind, self._inner = kind, inner

    def checked(self, value: Any) -> Any:
        if not isinstance(value, self._kind):
            raise wrong(value, f"a {self._kind.__name__}")
        return value

    def _made(self, values: Sequence[Any]) -> pa.Array:
        return self._inner.array([None if value is None else value.value for value in values])

    def values(self, array: pa.Array) -> list[Any]:
        return self._inner.values(array)


class Choice(ArrowColumn):
    """One of several literals of the same type."""

    def __init__(self, choices: Sequence[Any], inner: ArrowColumn) -> None:
        super().__init__(inner.type, [type(choices[0])], inner.optional)
        self._choices, self._inner = frozenset(choices), inner

    def checked(self, value: Any) -> Any:
        kind = type(next(iter(self._choices)))
        if type(value) is not kind or value not in self._choices:
            raise wrong(value, " or ".join(sorted(map(repr, self._choices))))
        return value

    def _made(self, values: Sequence[Any]) -> pa.Array:
        for value in {*values} - self._choices - {None}:
            self.checked(value)
        return self._inner.array(values)

    def values(self, array: pa.Array) -> list[Any]:
        return self._inner.values(array)


class Struct(ArrowColumn):
    """A record or a fixed tuple, with one child column per part. `loose`: the struct is optional or within an optional
    one, so it may be null. Spark and Arrow then require all parts to be nullable, even if a part is never None in a
    struct that is present. `PRESENT` marks such parts."""

    def __init__(self, kind: type, parts: Sequence[tuple[str, ArrowColumn]], optional: bool, loose: bool) -> None:
        self._names = [name for name, _ in parts]
        self._columns = [column for _, column in parts]
        fields = [
            pa.field(name, column.type, column.optional or loose, None if column.optional or not loose else PRESENT)
            for name, column in parts
        ]
        super().__init__(pa.struct(fields), [kind], optional)
        self._kind = kind
        self._fields = fields
        if kind is tuple:
            self._get: list[Callable[[Any], Any]] = [itemgetter(place) for place in range(len(parts))]
        else:
            self._get = [attrgetter(name) for name in self._names]

    def checked(self, value: Any) -> Any:
        if type(value) is not self._kind:
            raise wrong(value, f"a {self._kind.__name__}")
        return value

    def arrays(self, values: Sequence[Any]) -> list[pa.Array]:
        """Return one array per part. No value may be None. Raises BadValue, which names the part."""
        if not {self._kind}.issuperset(map(type, values)):
            for value in values:
                self.checked(value)
        made = []
        for name, get, column in zip(self._names, self._get, self._columns, strict=True):
            try:
                made.append(column.array([*map(get, values)]))
            except BadValue as error:
                raise BadValue(f"{self._whose}{name}: {error}") from error
        return made

    def rows(self, arrays: Sequence[pa.Array]) -> list[tuple[Any, ...]]:
        """Return one tuple per row: the reverse of `arrays`."""
        return [*zip(*(column.values(array) for column, array in zip(self._columns, arrays, strict=True)), strict=True)]

    def _made(self, values: Sequence[Any]) -> pa.Array:
        present = [value for value in values if value is not None]
        if self._kind is tuple and not {len(self._get)}.issuperset(map(len, present)):
            raise BadValue(f"a tuple of {len(self._get)} is declared")
        made = pa.StructArray.from_arrays(self.arrays(present), fields=self._fields)
        return _spread(made, values, len(present))

    def values(self, array: pa.Array) -> list[Any]:
        return _filled(array, self.rows(array.drop_null().flatten()))

    @property
    def _whose(self) -> str:
        return "" if self._kind is tuple else f"{self._kind.__name__}."


class Many(ArrowColumn):
    """A tuple or a frozenset of any length. A frozenset is sorted, because its order differs between processes."""

    def __init__(self, kind: type, each: ArrowColumn, optional: bool) -> None:
        super().__init__(pa.list_(pa.field("item", each.type, each.optional)), [kind], optional)
        self._kind, self._each = kind, each

    def checked(self, value: Any) -> Any:
        if not isinstance(value, self._kind):
            raise wrong(value, f"a {self._kind.__name__}")
        return value

    def _made(self, values: Sequence[Any]) -> pa.Array:
        present = [value for value in values if value is not None]
        if self._kind is frozenset:
            present = [sorted(value, key=encoded) for value in present]
        offsets = pa.array([0, *accumulate(map(len, present))], pa.int32())
        flat = self._each.array([item for value in present for item in value])
        return _spread(pa.ListArray.from_arrays(offsets, flat, type=self.type), values, len(present))

    def values(self, array: pa.Array) -> list[Any]:
        present = array.drop_null()
        flat = self._each.values(present.flatten())
        ends = [0, *accumulate(present.value_lengths().to_pylist())]
        return _filled(array, [flat[start:end] for start, end in pairwise(ends)])


def _spread(made: pa.Array, values: Sequence[Any], present: int) -> pa.Array:
    """Return `made`, which holds the values that are not None, with a null inserted for each None in `values`."""
    if present == len(values):
        return made
    place = iter(range(present))
    return made.take(pa.array([None if value is None else next(place) for value in values], pa.int32()))


def _filled(array: pa.Array, present: list[Any]) -> list[Any]:
    """Return the values of `present` with None inserted for each null of the array."""
    if not array.null_count:
        return present
    following = iter(present)
    return [next(following) if there else None for there in array.is_valid().to_pylist()]


def wrong(value: Any, wanted: str) -> BadValue:
    return BadValue(f"{shown(value)} is of type {type(value).__name__}, and {wanted} is declared")


SCALARS: Final[dict[Any, Callable[[bool], ArrowColumn]]] = {
    int: lambda optional: Scalar(INT64, int, whole, optional),
    float: lambda optional: Scalar(FLOAT64, float, real, optional),
    bool: lambda optional: Scalar(pa.bool_(), bool, truth, optional),
    str: lambda optional: Scalar(pa.string(), str, text, optional),
    bytes: lambda optional: Scalar(pa.binary(), bytes, raw, optional),
    datetime: Moment,
    Decimal: Number,
}
