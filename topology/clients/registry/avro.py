"""Avro: payloads are read by the schema that they were written with. Knows fastavro."""

import io
import json
from dataclasses import dataclass
from datetime import date, time
from typing import Any, Final
from uuid import UUID

from topology.clients.registry.avro_limits import RECORDS, SchemaLimits
from topology.clients.registry.format import PayloadReader, RecordWriter, SchemaText, library
from topology.clients.registry.objects import as_object, fitted
from topology.errors import Reject

TEXTS: Final = (UUID, date, time)  # values that a record has as texts; a datetime is a date too
AROUND: Final = "_KedgePayload"  # a record around a schema that is none, which adds no bytes; its field is …
INSIDE: Final = "value"


@dataclass(frozen=True)
class AvroFormat:
    """See `SchemaFormat`."""

    type: str = "AVRO"
    asked: str | None = None

    def load(self) -> None:
        """See `SchemaFormat.load`."""
        library("fastavro", "fastavro")

    def reader(self, schema: SchemaText) -> PayloadReader:
        """See `SchemaFormat.reader`. A payload with bytes left over does not fit."""
        parsed, named = _parsed(schema)
        is_wrapped = parsed["name"] == AROUND
        limits = SchemaLimits(parsed, named)
        if limits.repeats_nothing:
            raise Reject("it has an array of values without bytes")
        # the slow reader has a limit for values within values
        schemaless = library("fastavro._read_py" if limits.is_recursive else "fastavro", "fastavro").schemaless_reader
        has_texts = any(f'"{name}' in part for part in _all(schema) for name in ("uuid", "date", "time-"))

        def read(data: bytes, kind: Any) -> Any:
            stream = io.BytesIO(data)
            try:
                made = schemaless(stream, parsed, None)
            except (EOFError, IndexError) as error:  # the second one also for a branch that a union does not have
                raise Reject("it ends before its schema does, or is of another schema") from error
            if (left := len(data) - stream.tell()) > 0:
                raise Reject(f"its schema ends {left} bytes before it does")
            made = made[INSIDE] if is_wrapped else made
            return fitted(_with_texts(made) if has_texts else made, kind)

        return read

    def writer(self, schema: SchemaText) -> RecordWriter:
        """See `SchemaFormat.writer`."""
        (parsed, _), write_to = _parsed(schema), library("fastavro", "fastavro").schemaless_writer
        is_wrapped = parsed["name"] == AROUND

        def write(record: Any) -> bytes:
            stream, made = io.BytesIO(), as_object(record)
            write_to(stream, parsed, {INSIDE: made} if is_wrapped else made)
            return stream.getvalue()

        return write


def _parsed(schema: SchemaText) -> tuple[Any, dict[str, Any]]:
    """Return the parsed schema, and its types that have a name. The schema is a record, AROUND another one if need be:
    fastavro keeps the types of references with a record only."""
    parse = library("fastavro", "fastavro").parse_schema
    named: dict[str, Any] = {}
    for text in schema.references.values():
        parse(json.loads(text), named_schemas=named)
    made = json.loads(schema.text)
    if not isinstance(made, dict) or made.get("type") not in RECORDS:
        made = {"type": "record", "name": AROUND, "fields": [{"name": INSIDE, "type": made}]}
    return parse(made, named_schemas=named), named


def _all(schema: SchemaText) -> list[str]:
    return [schema.text, *schema.references.values()]


def _with_texts(value: Any) -> Any:
    """Return the same with UUIDs, days and times of day as texts, as JSON has them."""
    if isinstance(value, dict):
        return {key: _with_texts(part) for key, part in value.items()}
    if isinstance(value, list):
        return [*map(_with_texts, value)]
    return str(value) if isinstance(value, TEXTS) and not hasattr(value, "timestamp") else value
