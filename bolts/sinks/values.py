"""The plain form of field values: what a store can hold, derived from the record's annotations, checked strictly.

Pure. Knows records and msgspec; must not know any store. The form is canonical, because its bytes are part of a row's
key. A frozenset is sorted, whatever the process's hash seed. A datetime has one width, so that texts sort as times.
`BadValue` refuses a value that a store would change or reject (C9): NaN, an int beyond 64 bits, a lone surrogate, a
value that is not of its declared type.

A `Convert` makes one value plain. `converted` makes a column of them plain: it checks common columns by a few calls for
all values together, which takes a tenth of the time, and gives any other column to the `Convert`, value by value.
"""

import base64
import enum
import functools
import math
import struct
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from topology.records import Record, field_types

Plain: TypeAlias = Any  # int, float, bool, str, None, and lists and dicts of these
Convert: TypeAlias = Callable[[Any], Plain]
# makes a column plain, as its `Convert` makes each value; None if it can't tell, and the values are to be looked at
AtOnce: TypeAlias = Callable[[Sequence[Any]], Sequence[Plain] | None]

C = TypeVar("C", bound=Convert)

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
_SHOWN: Final = 60  # characters of a value that a message repeats

encode_json: Final = msgspec.json.Encoder().encode
_MOMENT: Final = len("2026-01-02T03:04:05.000006Z")
_at_once: Final[WeakKeyDictionary[Convert, AtOnce]] = WeakKeyDictionary()


class BadValue(ValueError):
    """The error for a value that no store here takes. The text names the value and the reason."""


def shown(value: Any) -> str:
    """Return a value as a message may repeat it: escaped and cut (S11)."""
    if isinstance(value, str | bytes):
        value = value[: _SHOWN + 1]
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def at_once(column: AtOnce) -> Callable[[C], C]:
    """Declare how a whole column is converted, beside the function that converts one value."""

    def declare(convert: C) -> C:
        _at_once[convert] = column
        return convert

    return declare


def converted(convert: Convert, column: Sequence[Any]) -> Sequence[Plain]:
    """Return the column with each value converted. Raises BadValue if one of them cannot be."""
    together = _at_once.get(convert)
    made = None if together is None else together(column)
    return [convert(value) for value in column] if made is None else made


def plain_columns(
    cls: type[Record], converts: Mapping[str, Convert], records: Sequence[Record]
) -> list[Sequence[Plain]]:
    """Return the columns of these records of one class, converted. Raises BadValue, which names the field."""
    values = [*chain.from_iterable(map(msgspec.structs.astuple, records))]  # one record after the other
    made: list[Sequence[Plain]] = []
    for at, (name, convert) in enumerate(converts.items()):
        try:
            made.append(converted(convert, values[at :: len(converts)]))
        except BadValue as error:
            raise BadValue(f"{cls.__name__}.{name}: {error}") from error
    return made


def _whole_column(column: Sequence[Any]) -> Sequence[Any] | None:
    if not {*map(type, column)} <= {int}:
        return None
    try:
        struct.pack(f"{len(column)}q", *column)  # 64 bits each: in less time than `min` and `max`
    except struct.error:
        return None
    return column


def _real_column(column: Sequence[Any]) -> Sequence[Any] | None:
    if not {*map(type, column)} <= {float}:
        return None
    # a sum is not finite if a value is not; it may also overflow
    return column if math.isfinite(sum(column)) or all(map(math.isfinite, column)) else None


def text_column(column: Sequence[Any]) -> Sequence[Any] | None:
    try:
        together = "".join(column)
        if not together.isascii():
            together.encode()
    except (TypeError, UnicodeEncodeError):  # no text, or a lone surrogate; two of them do not become a pair here
        return None
    return column


def _moment_column(column: Sequence[Any]) -> Sequence[Any] | None:
    if not {*map(type, column)} <= {datetime} or False in [when.tzinfo is UTC for when in column]:
        return None
    texts: list[str] = msgspec.to_builtins(column)  # without a fraction if that is 0
    if len("".join(texts)) == len(texts) * _MOMENT:  # none is longer
        return texts
    return [text if len(text) == _MOMENT else f"{text[:19]}.000000Z" for text in texts]


@at_once(_whole_column)
def whole(value: Any) -> int:
    if type(value) is not int and (not isinstance(value, int) or isinstance(value, bool)):
        raise _wrong(value, "an int")
    if not INT_MIN <= value <= INT_MAX:
        raise BadValue(f"{shown(value)} does not fit in 64 bits")
    return int(value)


@at_once(_real_column)
def real(value: Any) -> float:
    if type(value) is not float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _wrong(value, "a float")
        try:
            value = float(value)
        except OverflowError as error:
            raise BadValue(f"{shown(value)} does not fit in a float") from error
    if not math.isfinite(value):
        raise BadValue(f"{value} can't be stored: a number is wanted")
    return float(value)


@at_once(text_column)
def text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(value, "a str")
    if not value.isascii():  # a flag of the str: costs nothing
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BadValue(f"{shown(value)} has a lone surrogate, which is no character") from error
    return value


@at_once(lambda column: column if {*map(type, column)} <= {bool} else None)
def truth(value: Any) -> bool:
    if value is not True and value is not False:
        raise _wrong(value, "a bool")
    return bool(value)


@at_once(lambda column: column if {*map(type, column)} <= {bytes} else None)
def raw(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise _wrong(value, "bytes")
    return value


@at_once(_moment_column)
def moment(value: Any) -> str:
    """Return the time as ISO 8601 in UTC, always 27 characters: `2026-01-02T03:04:05.000006Z`."""
    if not isinstance(value, datetime):
        raise _wrong(value, "a datetime")
    when: datetime = value
    if when.tzinfo is not UTC:
        if when.utcoffset() is None:
            raise BadValue(f"{when} has no time zone; records carry UTC")
        try:
            when = when.astimezone(UTC)
        except OverflowError as error:
            raise BadValue(f"{when} is outside the years 1 to 9999 in UTC") from error
    return when.isoformat(timespec="microseconds")[:26] + "Z"


def _decimal(value: Any) -> str:
    if not isinstance(value, Decimal):
        raise _wrong(value, "a Decimal")
    if not value.is_finite():
        raise BadValue(f"{value} can't be stored: a number is wanted")
    return str(value)


def _base64(value: Any) -> str:
    return base64.b64encode(raw(value)).decode()


def _none(value: Any) -> None:
    if value is not None:
        raise _wrong(value, "None")


_SCALARS: Final[dict[Any, Convert]] = {
    int: whole,
    float: real,
    bool: truth,
    str: text,
    bytes: _base64,
    datetime: moment,
    Decimal: _decimal,
    None: _none,
    type(None): _none,
}


def plain(annotation: Any) -> Convert:
    """Return the function that makes a value of this annotation plain, or raises BadValue.

    bytes become base64, records become objects, tuples and frozensets lists, enums their values.
    """
    annotation, optional = without_none(annotation)
    convert = _plain(annotation)
    return or_none(convert) if optional else convert


def or_none(convert: Convert) -> Convert:
    """Return the same conversion for values that may be None."""
    together = _at_once.get(convert)

    def optional(value: Any) -> Plain:
        return None if value is None else convert(value)

    def optional_column(column: Sequence[Any]) -> Sequence[Plain] | None:
        present = [value for value in column if value is not None]
        made = None if together is None else together(present)
        if made is None or len(present) == len(column):
            return made
        following = iter(made)
        return [None if value is None else next(following) for value in column]

    return at_once(optional_column)(optional)


def without_none(annotation: Any) -> tuple[Any, bool]:
    """Return the annotation without `Annotated` and without `| None`, and True if None was allowed."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    members = [member for member in typing.get_args(annotation) if member is not type(None)]
    if len(members) == len(typing.get_args(annotation)):
        return annotation, False
    return functools.reduce(lambda left, right: left | right, members), True


def only_type(kind: Any) -> type | None:
    """Return the type that all values of this enum or Literal have; None if they have several, and for all else."""
    held: set[type] = set()
    if typing.get_origin(kind) is typing.Literal:
        held = {type(value) for value in typing.get_args(kind)}
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        held = {type(member.value) for member in kind}
    return held.pop() if len(held) == 1 else None


def _plain(kind: Any) -> Convert:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin in (typing.Union, types.UnionType):
        return _union(args)
    if origin is typing.Literal:
        return _literal(args)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _sequence(tuple, plain(args[0]))
    if origin is frozenset:
        return _sequence(frozenset, plain(args[0]))
    if origin is tuple:
        return _fixed([plain(part) for part in args])
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum(kind)
    if isinstance(kind, type) and issubclass(kind, Record):
        return _record(kind)
    raise BadValue(f"{kind} is not a type that a record can carry")


def _union(members: tuple[Any, ...]) -> Convert:
    # float comes last: it takes ints too, and would turn 1 of an `int | float` into 1.0
    converts = [plain(member) for member in sorted(members, key=lambda member: member is float)]

    def convert(value: Any) -> Plain:
        reasons = []
        for each in converts:
            try:
                return each(value)
            except BadValue as error:
                reasons.append(str(error))
        raise BadValue("; ".join(reasons))

    return convert


def _literal(values: tuple[Any, ...]) -> Convert:
    allowed = {(type(value), value): plain(type(value))(value) for value in values}

    def convert(value: Any) -> Plain:
        try:
            return allowed[type(value), value]
        except (KeyError, TypeError):
            raise _wrong(value, " or ".join(map(repr, values))) from None

    return convert


def _enum(kind: type[enum.Enum]) -> Convert:
    values = {member: plain(type(member.value))(member.value) for member in kind}

    def convert(value: Any) -> Plain:
        if not isinstance(value, kind):
            raise _wrong(value, f"a {kind.__name__}")
        return values[value] if value in values else plain(type(value.value))(value.value)  # a combination of flags

    return convert


def _sequence(kind: type[tuple[Any, ...]] | type[frozenset[Any]], each: Convert) -> Convert:
    ordered = kind is frozenset

    def convert(value: Any) -> Plain:
        if not isinstance(value, kind):
            raise _wrong(value, f"a {kind.__name__}")
        items = [each(item) for item in value]
        return sorted(items, key=encode_json) if ordered else items

    return convert


def _fixed(parts: list[Convert]) -> Convert:
    def convert(value: Any) -> Plain:
        if not isinstance(value, tuple) or len(value) != len(parts):
            raise _wrong(value, f"a tuple of {len(parts)}")
        return [part(item) for part, item in zip(parts, value, strict=True)]

    return convert


def _record(kind: type[Record]) -> Convert:
    @functools.cache
    def fields() -> list[tuple[str, Convert]]:  # lazily, as a record may hold records of its own class
        return [(name, plain(annotation)) for name, annotation in field_types(kind).items()]

    def convert(value: Any) -> Plain:
        if not isinstance(value, kind):
            raise _wrong(value, f"a {kind.__name__}")
        return {name: each(getattr(value, name)) for name, each in fields()}

    return convert


def _wrong(value: Any, wanted: str) -> BadValue:
    kind = type(value).__name__
    return BadValue(f"{shown(value)} is of type {kind}, and {wanted} is declared")
