"""Records from JSON objects, msgpack maps and mappings, whose keys are the fields' names.

Pure. A record's own byte form is an array, so each record class gets a twin that msgspec reads from an object; the
values of the twin then make the record. Must not know where the bytes came from.
"""

import types
import typing
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

import msgspec

from spouts.payload.errors import wrong_payload_class
from topology.records import Record, is_record, record_problems

R = TypeVar("R", bound=Record)

_BUILT: Final = (typing.Union, types.UnionType, tuple, frozenset)
_SHOWN: Final = (bool, int, float, Decimal, datetime)  # whose text is what str() gives


class ObjectForm(Generic[R]):
    """The twin of one record class, without the fields in `left_out`, which the payload does not have.

    A field may be under another key: `user: str = msgspec.field(name="userName")`. Keys that are no field are ignored.
    A time becomes UTC; a time without a zone does not fit. Raises ConfigurationError for a class that refers to itself,
    or that is no record class.
    """

    def __init__(self, cls: type[R], left_out: Sequence[str] = ()) -> None:
        if problems := record_problems(cls):
            raise wrong_payload_class(f"value: {problems[0]}")
        self._records: dict[type, type[Record]] = {}  # twin → record class
        self._has_times = False
        self.twin: Any = self._twin_of(cls, frozenset(left_out), ())
        self._cls = cls
        self._flat = len(self._records) == 1 and not self._has_times

    def values(self, twin: Any) -> Sequence[Any]:
        """Return the values of the record's fields, without those in `left_out`. Raises ValueError for a time without a
        zone."""
        values = msgspec.structs.astuple(twin)
        return values if self._flat else [self._plain(value) for value in values]

    def record(self, twin: Any) -> R:
        """Return the record. Raises ValueError for a time without a zone."""
        return self._cls(*self.values(twin))

    def _plain(self, value: Any) -> Any:
        kind = type(value)
        if kind in self._records:
            return self._records[kind](*map(self._plain, msgspec.structs.astuple(value)))
        if kind is datetime:
            return in_utc(value)
        if kind is tuple or kind is frozenset:
            return kind(map(self._plain, value))
        return value

    def _twin_of(self, cls: type[Record], left_out: frozenset[str], within: tuple[type, ...]) -> type[msgspec.Struct]:
        if cls in within:
            raise wrong_payload_class(f"value: {cls.__name__} contains itself, and cannot be decoded from an object")
        fields: list[Any] = []
        keys: dict[str, str] = {}
        for field in msgspec.structs.fields(cls):
            if field.name in left_out:
                continue
            kind = self._type_of(field.type, (*within, cls))
            keys[field.name] = field.encode_name
            if field.default is not msgspec.NODEFAULT:
                fields.append((field.name, kind, field.default))
            elif field.default_factory is not msgspec.NODEFAULT:
                fields.append((field.name, kind, msgspec.field(default_factory=field.default_factory)))
            else:
                fields.append((field.name, kind))
        twin = msgspec.defstruct(
            cls.__name__,
            fields,
            kw_only=True,
            frozen=True,
            gc=False,
            rename=keys,
            tag=cls.__struct_config__.tag,
            tag_field=cls.__struct_config__.tag_field,
        )
        self._records[twin] = cls
        return twin

    def _type_of(self, kind: Any, within: tuple[type, ...]) -> Any:
        if is_record(kind):
            return self._twin_of(kind, frozenset(), within)
        if kind is datetime:
            self._has_times = True
            return kind
        origin, parts = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            return typing.Annotated[(self._type_of(parts[0], within), *parts[1:])]
        if origin not in _BUILT:
            return kind
        inner = tuple(part if part is Ellipsis else self._type_of(part, within) for part in parts)
        if origin in (typing.Union, types.UnionType):
            return typing.Union[inner]  # noqa: UP007  # of types that are only known now
        made: Any = types.GenericAlias(tuple if origin is tuple else frozenset, inner)
        return made


def in_utc(value: datetime) -> datetime:
    """Return the same moment in UTC. Raises ValueError for a time without a zone."""
    if value.tzinfo is UTC:
        return value
    if value.utcoffset() is None:
        raise ValueError(f"the time {value.isoformat()} has no zone")
    return value.astimezone(UTC)


def converter(kind: Any) -> Callable[[Any], Any]:
    """Return a function that makes a fact beside the payload, often a text, a value of this type. It raises ValueError
    (or its subclass of msgspec) if that cannot be."""

    is_text = kind in (str, str | None)

    def converted(value: Any) -> Any:
        if is_text and isinstance(value, _SHOWN):
            return str(value)
        if is_text and isinstance(value, bytes | bytearray):
            return value.decode()
        made = msgspec.convert(value, kind, strict=False)
        return in_utc(made) if type(made) is datetime else made

    return converted


def has_default(cls: type[Record], name: str) -> bool:
    """Return True if a record can be made without a value of this field."""
    field = next(field for field in msgspec.structs.fields(cls) if field.name == name)
    return field.default is not msgspec.NODEFAULT or field.default_factory is not msgspec.NODEFAULT


def takes_none(kind: Any) -> bool:
    """Return True if None is a value of this type."""
    return kind is None or type(None) in typing.get_args(kind)
