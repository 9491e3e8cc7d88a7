"""The Avro schema of a record class. Pure."""

import json
import types
import typing
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from topology.clients.errors import invalid
from topology.clients.registry.objects import names_of
from topology.errors import ConfigurationError
from topology.records import Record, field_types, is_record

SIMPLE: Final[Mapping[Any, Any]] = {
    str: "string",
    int: "long",
    float: "double",
    bool: "boolean",
    bytes: "bytes",
    datetime: {"type": "long", "logicalType": "timestamp-micros"},
    type(None): "null",
}


def avro_schema(cls: type[Record], needed_by: str) -> str:
    """Return the schema as text. Raises ConfigurationError for a field whose type has no Avro type without a further
    decision, such as a Decimal."""
    return json.dumps(_record(cls, needed_by, set()))


def _record(cls: type[Record], needed_by: str, known: set[type]) -> Any:
    if cls in known:
        return cls.__name__
    known.add(cls)
    keys = names_of(cls)
    fields = []
    for name, kind in field_types(cls).items():
        try:
            fields.append({"name": keys[name], "type": _type(kind, needed_by, known)})
        except LookupError:
            raise _undecided(cls, name, kind, needed_by) from None
    return {"type": "record", "name": cls.__name__, "fields": fields}


def _type(kind: Any, needed_by: str, known: set[type]) -> Any:
    """Raises LookupError for a type that is not decided."""
    if is_record(kind):
        return _record(kind, needed_by, known)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return sorted((_type(part, needed_by, known) for part in parts), key=lambda made: made != "null")
    if origin is frozenset or (origin is tuple and parts[1:] == (Ellipsis,)):
        return {"type": "array", "items": _type(parts[0], needed_by, known)}
    return SIMPLE[kind]


def _undecided(cls: type, name: str, kind: Any, needed_by: str) -> ConfigurationError:
    shown = kind.__name__ if isinstance(kind, type) else kind
    return invalid(f"{needed_by}: {cls.__name__}.{name} is {shown}, which Avro has in several ways; give the schema")
