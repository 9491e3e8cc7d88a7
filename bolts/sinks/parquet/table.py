"""The columns of one record class in Parquet, and the rows of its records.

Knows pyarrow's types; must not know files. A value is checked strictly, as for every sink: a value that a column would
change is refused.

    int, float, bool, str, bytes   int64, float64, bool, string, binary
    datetime             a timestamp in microseconds of UTC
    Decimal              decimal128(38, 18)
    enum, Literal        the column of its values, if they have one type
    X | None             a column that may be null
    record               a struct
    tuple[X, Y]          a struct of `_1`, `_2` and so on
    tuple[X, ...]        a list, also for `frozenset[X]`, which is sorted
    all else             its JSON, as text
"""

import typing
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from bolts.sinks import values
from bolts.sinks.keys import KEY_BYTES
from bolts.sinks.rows import RecordTable, Row
from bolts.sinks.values import BadValue, Convert
from topology.records import Record, field_types, is_record

KEY: Final = "kedge_key"  # the last column; with underscores before it if a field has that name
DIGITS: Final = 38  # of a Decimal …
PLACES: Final = 18  # … of which so many are after its point
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US: Final = 86_400_000_000


class ColumnForm(NamedTuple):
    """The column of one annotation: its type, True if it may be null, and what prepares a value for it."""

    type: Any  # a pyarrow.DataType
    nullable: bool
    convert: Convert


class ParquetTable(RecordTable):
    """The table of one record class. `without`: fields that have no column, as the folders' names have them.

    Raises BadValue for a class that no column can hold. `arrow` is the module pyarrow.
    """

    def __init__(self, arrow: Any, cls: type[Record], without: Sequence[str]) -> None:
        forms = {name: _form(arrow, kind, (cls,)) for name, kind in field_types(cls).items()}
        super().__init__(cls, cls.__name__, None, {name: form.convert for name, form in forms.items()})
        self.key_column = key_column(forms)
        self._arrow = arrow
        self._places = [place for place, name in enumerate(forms) if name not in without]
        fields = [
            arrow.field(name, form.type, nullable=form.nullable) for name, form in forms.items() if name not in without
        ]
        fields.append(arrow.field(self.key_column, arrow.binary(KEY_BYTES), nullable=False))
        self.schema = arrow.schema(fields, metadata={"kedge.record": cls.__name__})

    def batch(self, rows: Sequence[Row]) -> Any:
        """Return these rows as a pyarrow.Table."""
        columns = [*zip(*rows, strict=True)]
        chosen = [columns[place] for place in (*self._places, -1)]
        arrays = [self._arrow.array(column, field.type) for column, field in zip(chosen, self.schema, strict=True)]
        return self._arrow.Table.from_arrays(arrays, schema=self.schema)

    def leaves(self) -> list[str]:
        """Return the paths of the columns that hold values, as Parquet names them, without the key."""
        return [leaf for field in [*self.schema][:-1] for leaf in _leaves(self._arrow.types, field.name, field.type)]

    def clashes(self, stored: Any) -> Iterator[str]:
        """Yield what keeps a reader from reading these columns together with those of a stored file's schema."""
        for field in self.schema:
            if field.name in stored.names and not stored.field(field.name).type.equals(field.type):
                yield f"column {field.name!r} is {stored.field(field.name).type} there, and {field.type} here"


def key_column(names: typing.Iterable[str]) -> str:
    """Return the name of the key's column."""
    taken = {name.lower() for name in names}
    name = KEY
    while name in taken:
        name = "_" + name
    return name


def is_key_column(name: str) -> bool:
    """Return True for a name that `key_column` gives."""
    return name.lstrip("_") == KEY


def _form(arrow: Any, annotation: Any, seen: tuple[type, ...]) -> ColumnForm:
    inner, nullable = values.without_none(annotation)
    if typing.get_origin(inner) is typing.Literal and None in typing.get_args(inner):
        choices = tuple(choice for choice in typing.get_args(inner) if choice is not None)
        inner, nullable = typing.Literal[choices], True
    kind, convert = _kind(arrow, inner, seen)
    return ColumnForm(kind, nullable, values.or_none(convert) if nullable else convert)


def _kind(arrow: Any, kind: Any, seen: tuple[type, ...]) -> tuple[Any, Convert]:
    scalars: dict[Any, tuple[Any, Convert]] = {
        int: (arrow.int64(), values.whole),
        float: (arrow.float64(), values.real),
        bool: (arrow.bool_(), values.truth),
        str: (arrow.string(), values.text),
        bytes: (arrow.binary(), values.raw),
        datetime: (arrow.timestamp("us", tz="UTC"), _microseconds),
        Decimal: (arrow.decimal128(DIGITS, PLACES), _decimal),
    }
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in scalars:
        return scalars[kind]
    if (only := values.only_type(kind)) in (int, float, bool, str):
        return scalars[only][0], values.plain(kind)
    if (origin in (tuple, frozenset) and args and args[-1] is Ellipsis) or origin is frozenset:
        each = _form(arrow, args[0], seen)
        made = arrow.list_(arrow.field("element", each.type, nullable=each.nullable))
        return made, _many(tuple if origin is tuple else frozenset, each.convert)
    if origin is tuple and args:
        parts = {f"_{place}": _form(arrow, part, seen) for place, part in enumerate(args, start=1)}
        return _struct(arrow, parts), _fixed([*parts], [part.convert for part in parts.values()])
    if is_record(kind) and kind not in seen and (fields := field_types(kind)):
        inner = {name: _form(arrow, part, (*seen, kind)) for name, part in fields.items()}
        return _struct(arrow, inner), _record(kind, {name: part.convert for name, part in inner.items()})
    return arrow.string(), _as_json(values.plain(kind))


def _struct(arrow: Any, parts: dict[str, ColumnForm]) -> Any:
    # a part of a struct that is null is null itself, so none may be declared otherwise
    return arrow.struct([arrow.field(name, part.type, nullable=True) for name, part in parts.items()])


def _leaves(kinds: Any, path: str, kind: Any) -> Iterator[str]:
    if kinds.is_struct(kind):
        for field in kind:
            yield from _leaves(kinds, f"{path}.{field.name}", field.type)
    elif kinds.is_list(kind):
        yield from _leaves(kinds, f"{path}.list.element", kind.value_type)
    else:
        yield path


# -- values


def _since(epoch: timedelta) -> int:
    return epoch.days * _DAY_US + epoch.seconds * 1_000_000 + epoch.microseconds


def _moments(column: Sequence[Any]) -> Sequence[Any] | None:
    if not {*map(type, column)} <= {datetime} or False in [when.tzinfo is UTC for when in column]:
        return None
    return [_since(when - _EPOCH) for when in column]


@values.at_once(_moments)
def _microseconds(value: Any) -> int:
    """Return microseconds since 1970."""
    values.moment(value)  # refuses all but a moment in UTC's years
    return _since(value - _EPOCH)


def _decimal(value: Any) -> Decimal:
    values.plain(Decimal)(value)
    exact: Decimal = value
    _, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int), "finite"
    if not any(digits):
        return Decimal(0)
    dropped = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if exact.adjusted() >= DIGITS - PLACES or -(exponent + dropped) > PLACES:
        raise BadValue(
            f"{values.shown(value)} does not fit: a Decimal has at most {DIGITS - PLACES} digits before the point and "
            f"{PLACES} after it"
        )
    plain = format(exact, "f")
    return Decimal(plain.rstrip("0").rstrip(".") if "." in plain else plain)


def _many(kind: type[tuple[Any, ...]] | type[frozenset[Any]], each: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, kind):
            raise BadValue(
                f"{values.shown(value)} is of type {type(value).__name__}, and a {kind.__name__} is declared"
            )
        items = [each(item) for item in value]
        return sorted(items, key=values.encode_json) if kind is frozenset else items

    return convert


def _fixed(names: list[str], parts: list[Convert]) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, tuple) or len(value) != len(parts):
            raise _wrong(value, f"a tuple of {len(parts)}")
        return {name: part(item) for name, part, item in zip(names, parts, value, strict=True)}

    return convert


def _record(kind: type[Record], parts: dict[str, Convert]) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not kind:
            raise BadValue(
                f"{values.shown(value)} is of type {type(value).__name__}, and a {kind.__name__} is declared"
            )
        return {name: part(getattr(value, name)) for name, part in parts.items()}

    return convert


def _as_json(convert: Convert) -> Callable[[Any], str]:
    def converted(value: Any) -> str:
        return values.encode_json(convert(value)).decode()

    return converted


def _wrong(value: Any, wanted: str) -> BadValue:
    return BadValue(f"{values.shown(value)} is of type {type(value).__name__}, and {wanted} is declared")
