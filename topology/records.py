"""Records: the typed, immutable values that travel, with the allowed types of their fields and their byte form.

Pure. Knows msgspec, and nothing of graphs, tuples or the runtime.

Fields are immutable because tasks of one worker pass tuples by reference (B13). If a bolt changed a list in place, the
records of its siblings and of the replay would change too, in one process only.
"""

import enum
import types
import typing
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeVar, dataclass_transform

import msgspec
from typing_extensions import TypeIs

from topology.codes.tuples import INVALID_RECORD_BYTES, UNENCODABLE_RECORD
from topology.errors import RecordError

SCALARS: tuple[type, ...] = (int, float, bool, str, bytes, datetime, Decimal, type(None))


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The base of all records. The class is the stream: a bolt that yields two classes has two streams.

        class Failure(Record):
            user: str
            source_ip: str
            at: datetime

    Fields are numbers, str, bytes, datetime (UTC), Decimal, enums, records, tuples and frozensets of these, and `X |
    None`. Write a mapping as a tuple of pairs. Records are compared and hashed by value.
    """


R = TypeVar("R", bound=Record)


def is_record(kind: object) -> TypeIs[type[Record]]:
    """Return True if it is a record class, and not `Record` itself."""
    return isinstance(kind, type) and issubclass(kind, Record) and kind is not Record


def field_types(cls: type[Record]) -> dict[str, Any]:
    """Return field name → resolved annotation, in order. Raises NameError or TypeError if an annotation cannot be
    resolved."""
    return {field.name: field.type for field in msgspec.structs.fields(cls)}


def schema(cls: type[Record]) -> str:
    """Return the class and its fields, nested records included, as text. The texts are equal if the classes decode
    alike. Names leave out the module, because a file may be imported under another name."""
    return _schema(cls, ())


def _schema(kind: Any, seen: tuple[Any, ...]) -> str:
    args = typing.get_args(kind)
    if is_record(kind) and kind not in seen:
        fields = (f"{name}: {_schema(part, (*seen, kind))}" for name, part in field_types(kind).items())
        return f"{kind.__qualname__}({', '.join(fields)})"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"{kind.__qualname__}{[member.value for member in kind]}"
    if not args:
        return kind.__qualname__ if isinstance(kind, type) else repr(kind)
    origin = typing.get_origin(kind)
    return f"{getattr(origin, '__qualname__', origin)}[{', '.join(_schema(part, seen) for part in args)}]"


def record_problems(cls: type[Record]) -> list[str]:
    """Return the reasons for which the wire cannot carry this class, one sentence per field. Empty if it can."""
    if not cls.__struct_config__.frozen or not cls.__struct_config__.array_like:
        return [f"{cls.__name__}: a record is frozen and array-like; derive it from Record without other options"]
    try:
        fields = field_types(cls)
    except Exception as error:  # an annotation in quotes is the user's code, and may raise anything
        return [f"{cls.__name__}: its annotations can't be resolved: {error}"]
    return [
        f"{cls.__name__}.{name}: {problem}"
        for name, kind in fields.items()
        if (problem := type_problem(kind, seen=(cls,)))
    ]


def type_problem(kind: Any, seen: tuple[Any, ...] = ()) -> str | None:
    """Return the reason for which neither a record's field nor a state can have this type, or None. `seen`: records on
    the way to it."""
    if problem := _type_problem(kind, seen):
        return problem
    try:
        msgspec.msgpack.Decoder(kind)
    except Exception as error:  # a union whose parts look alike on the wire, an enum of floats …
        return f"{_name(kind)} can't be decoded: {str(error).partition(' - ')[0]}"
    return None


def _type_problem(kind: Any, seen: tuple[Any, ...]) -> str | None:
    """Return a sentence about the fault of one annotation, or of a part of it; None if it has none."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is None or kind in SCALARS or kind in seen:
        return None
    if origin is typing.Annotated:
        return _type_problem(args[0], seen)
    if origin is typing.Literal:
        return None
    if origin in (typing.Union, types.UnionType) or (origin in (tuple, frozenset) and args):
        return next((p for part in args if part is not Ellipsis and (p := _type_problem(part, seen))), None)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return None
    if is_record(kind):
        try:
            fields = field_types(kind)
        except Exception as error:  # as above
            return f"the annotations of {kind.__name__} can't be resolved: {error}"
        nested = (*seen, kind)
        return next((f"{name}: {p}" for name, part in fields.items() if (p := _type_problem(part, nested))), None)
    return f"{_name(kind)} is not a type that a record can carry; {_advice(kind, origin)}"


def _advice(kind: Any, origin: Any) -> str:
    bare = origin or kind
    if bare is Record:
        return "name the record's class"
    if bare in (tuple, frozenset):
        return f"name its item type, for example {bare.__name__}[str{', ...' * (bare is tuple)}]"
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
    """Return the byte form of a record: msgpack, fields in order. Raises RecordError, naming the class, if it has
    none."""
    try:
        return _encoder.encode(record)
    except _NO_FORM as error:
        raise _no_form(f"a {type(record).__name__}", error) from error


def encode_all(records: Iterable[Record]) -> list[bytes]:
    """Encode each of these records as `encode` does, in half the time. Raises RecordError if one has no byte form."""
    try:
        return [*map(_encoder.encode, records)]
    except _NO_FORM as error:
        raise _no_form("one of these records", error) from error


def encoded(value: object) -> bytes:
    """Return the byte form of a value of the types that a record's field may have; that of a record is the one of
    `encode`. Raises RecordError if there is none."""
    try:
        return _encoder.encode(value)
    except _NO_FORM as error:
        raise _no_form(f"{value!r:.80}", error) from error


_NO_FORM: Final = (TypeError, ValueError, OverflowError, msgspec.MsgspecError)


def _no_form(what: str, error: Exception) -> RecordError:
    return RecordError(f"{what} can't be encoded: {error}", code=UNENCODABLE_RECORD)


def decoder(cls: type[R]) -> Callable[[bytes], R]:
    """Return a decoder of one class's byte form. The decoder checks the type of every field, and raises RecordError."""
    decode = msgspec.msgpack.Decoder(cls).decode

    def decoded(data: bytes) -> R:
        try:
            return decode(data)
        except (msgspec.MsgspecError, ValueError) as error:
            raise RecordError(
                f"the bytes of a {cls.__name__} can't be decoded: {error}", code=INVALID_RECORD_BYTES
            ) from error

    return decoded
