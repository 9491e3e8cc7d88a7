"""Records as objects whose keys are the names of fields, and objects as what a record is made of. Pure."""

import enum
from typing import Any

import msgspec

from topology.records import Record


def fitted(value: Any, kind: Any) -> Any:
    """Return an object as a value of this type. Raises ValueError if it does not fit."""
    return msgspec.convert(value, kind)


def fitted_json(data: bytes, kind: Any) -> Any:
    """Return a JSON text as a value of this type. Raises ValueError if it does not fit."""
    return msgspec.json.decode(data, type=kind)


def from_json(data: bytes) -> Any:
    """Return the objects of a JSON text. Raises ValueError."""
    return msgspec.json.decode(data)


def as_object(value: Any) -> Any:
    """Return a record as a dict, with times, bytes and Decimals as they are."""
    if isinstance(value, Record):
        fields = msgspec.structs.fields(type(value))
        return {field.encode_name: as_object(getattr(value, field.name)) for field in fields}
    if isinstance(value, tuple | frozenset):
        return [*map(as_object, value)]
    return value.value if isinstance(value, enum.Enum) else value


def as_json(record: Record) -> bytes:
    """Return a record as a JSON object, with times in ISO 8601, bytes as base64 and Decimals as texts."""
    return msgspec.json.encode(as_object(record))


def names_of(cls: type[Record]) -> dict[str, str]:
    """Return the names of a record's fields → the keys of its object."""
    return {field.name: field.encode_name for field in msgspec.structs.fields(cls)}
