"""Protobuf: payloads are read by a generated class of messages. Knows protobuf.

The schema is only asked for the name of the message, as the bytes of another one may be read without an error. A
registry that gives its schemas as text is not asked for it.
"""

import base64
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

from topology.clients.errors import invalid
from topology.clients.registry.format import NEEDED_BY, PayloadReader, RecordWriter, SchemaText, library
from topology.clients.registry.framing import places_as_bytes, places_of
from topology.clients.registry.objects import as_json, fitted
from topology.errors import Reject

GOOGLE: Final = "google/protobuf/"  # files that every registry has


@dataclass(frozen=True)
class ProtobufFormat:
    """See `SchemaFormat`. `message` is a generated class."""

    message: Any
    type: str = "PROTOBUF"
    asked: str | None = "serialized"

    def load(self) -> None:
        """See `SchemaFormat.load`."""
        library("google.protobuf.json_format", "protobuf")

    def reader(self, schema: SchemaText) -> PayloadReader:
        """See `SchemaFormat.reader`."""
        message, own, file = self.message, self.message.DESCRIPTOR.full_name, _file(schema.text)
        to_dict = library("google.protobuf.json_format", "protobuf").MessageToDict
        broken = library("google.protobuf.message", "protobuf").DecodeError

        def read(data: bytes, kind: Any) -> Any:
            places, encoded = places_of(data)
            if file is not None and (name := _name(file, places)) != own:
                raise Reject(f"it is a message {name}, not {own}")
            try:
                made = message.FromString(encoded)
            except broken as error:
                raise Reject(f"it cannot be read as {own}: {error}") from error
            return fitted(_object(made, to_dict), kind)

        return read

    def writer(self, schema: SchemaText) -> RecordWriter:
        """See `SchemaFormat.writer`. A field of the record without one of the message is an error."""
        parse = library("google.protobuf.json_format", "protobuf").Parse
        message, before = self.message, places_as_bytes(_places(self.message.DESCRIPTOR))

        def write(record: Any) -> bytes:
            made: bytes = parse(as_json(record), message()).SerializeToString()
            return before + made

        return write

    def own_schema(self) -> str:
        """Return the file of the message, as a registry takes it. Raises ConfigurationError for one that needs other
        files."""
        file = self.message.DESCRIPTOR.file
        if others := [each.name for each in file.dependencies if not each.name.startswith(GOOGLE)]:
            text = f"{file.name} imports {others[0]}; give `schema` as a text without imports, or register it yourself"
            raise invalid(f"{NEEDED_BY}: {text}")
        return base64.b64encode(file.serialized_pb).decode()


def _file(text: str) -> Any:
    """Return the file of a schema. None: the registry has given it as a text."""
    descriptors = library("google.protobuf.descriptor_pb2", "protobuf")
    try:
        return descriptors.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except ValueError:  # also for a letter beyond ASCII
        return None


def _name(file: Any, places: list[int]) -> str:
    """Return the full name of a message. Raises Reject if there is none at this place."""
    names, inside = [file.package] if file.package else [], file.message_type
    for place in places:
        if not 0 <= place < len(inside):
            raise Reject(f"its schema has no message at {places}")
        names.append(inside[place].name)
        inside = inside[place].nested_type
    return ".".join(names)


def _places(descriptor: Any) -> list[int]:
    """Return where a message is in its file."""
    around = descriptor.containing_type
    beside = around.nested_types if around is not None else [*descriptor.file.message_types_by_name.values()]
    place = next(at for at, each in enumerate(beside) if each.full_name == descriptor.full_name)
    return [*(_places(around) if around is not None else ()), place]


def _object(message: Any, to_dict: Any) -> Any:
    """Return a message as a dict. A field that can be absent and is has no key."""
    kind = message.DESCRIPTOR
    if kind.full_name == f"{GOOGLE.replace('/', '.')}Timestamp":
        return message.ToDatetime(tzinfo=UTC)
    if kind.file.name == f"{GOOGLE}wrappers.proto":
        return message.value
    if kind.file.name.startswith(GOOGLE):
        return to_dict(message)
    made: dict[str, Any] = {}
    for field in kind.fields:
        if not field.has_presence or message.HasField(field.name):
            made[field.name] = _value(field, getattr(message, field.name), to_dict)
    return made


def _value(field: Any, value: Any, to_dict: Any) -> Any:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"]
        return {key: _single(inner, value[key], to_dict) for key in value}
    is_many = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    return [_single(field, each, to_dict) for each in value] if is_many else _single(field, value, to_dict)


def _single(field: Any, value: Any, to_dict: Any) -> Any:
    if field.message_type is not None:
        return _object(value, to_dict)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named is not None else value
    return value
