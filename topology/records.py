"""Records: the typed, immutable values that travel; which types their fields may have, and their byte form.

Pure. Knows msgspec, and nothing of graphs, tuples or the runtime.

Fields are immutable because tuples between tasks of one worker are handed over by reference (B13): a list that a bolt
changed in place would change its siblings' records and the replay's, in one process only.
"""

import enum
import types
import typing
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar, dataclass_transform

import msgspec

from topology.errors import RecordError

SCALARS: tuple[type, ...] = (int, float, bool, str, bytes, datetime, Decimal, type(None))


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The base of all records. The class is the stream: a bolt that yields two classes has two streams.

    Fields are numbers, str, bytes, datetime (UTC), Decimal, enums, records, tuples and frozensets of these, and
    `X | None`; a mapping is a tuple of pairs. Records are compared and hashed by value.
    """


R = TypeVar("R", bound=Record)


def field_types(cls: type[Record]) -> dict[str, Any]:
    """Field name → annotation, resolved, in order. Raises NameError or TypeError where an annotation can't be."""
    return {field.name: field.type for field in msgspec.structs.fields(cls)}


def record_problems(cls: type[Record]) -> list[str]:
    """Why the wire can't carry this class; empty where it can. One sentence a field."""
    try:
        fields = field_types(cls)
    except (NameError, TypeError) as error:
        return [f"{cls.__name__}: its annotations can't be resolved: {error}"]
    return [
        f"{cls.__name__}.{name}: {problem}"
        for name, kind in fields.items()
        if (problem := _type_problem(kind, seen=(cls,)))
    ]


def _type_problem(kind: Any, seen: tuple[Any, ...]) -> str | None:
    """The sentence for one annotation, or None where it is fine."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is None or kind in SCALARS or kind in seen:
        return None
    if origin is typing.Annotated:
        return _type_problem(args[0], seen)
    if origin in (typing.Union, types.UnionType, typing.Literal):
        parts = () if origin is typing.Literal else args
        return next((p for part in parts if (p := _type_problem(part, seen))), None)
    if origin in (tuple, frozenset) and args:
        return next((p for part in args if part is not Ellipsis and (p := _type_problem(part, seen))), None)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return None
    if isinstance(kind, type) and issubclass(kind, Record):
        nested = (*seen, kind)
        return next((p for part in field_types(kind).values() if (p := _type_problem(part, nested))), None)
    return f"{_name(kind)} is not a type that a record can carry; {_advice(kind, origin)}"


def _advice(kind: Any, origin: Any) -> str:
    bare = origin or kind
    if bare in (tuple, frozenset):
        return f"say of what: {bare.__name__}[str{', ...' * (bare is tuple)}], for example"
    instead = {
        list: "a tuple[X, ...] is, because records are immutable",
        set: "a frozenset[X] is, because records are immutable",
        dict: "a mapping is a tuple of pairs, tuple[tuple[K, V], ...]",
        bytearray: "bytes is, because records are immutable",
    }
    if bare in instead:
        return instead[bare]
    return "use numbers, str, bytes, datetime, Decimal, enums, records, tuples or frozensets"


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not typing.get_origin(kind) else str(kind)


_encoder = msgspec.msgpack.Encoder(uuid_format="bytes", decimal_format="string")


def encode(record: Record) -> bytes:
    """The byte form of a record: msgpack, fields in order. Raises RecordError, naming the class, where it has none."""
    try:
        return _encoder.encode(record)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise RecordError(f"a {type(record).__name__} can't be encoded: {error}") from error


def decoder(cls: type[R]) -> Callable[[bytes], R]:
    """A decoder of one class's byte form; it checks every field's type, and raises RecordError."""
    decode = msgspec.msgpack.Decoder(cls).decode

    def decoded(data: bytes) -> R:
        try:
            return decode(data)
        except (msgspec.MsgspecError, ValueError) as error:
            raise RecordError(f"the bytes of a {cls.__name__} can't be decoded: {error}") from error

    return decoded
