"""JSON Schema: payloads are JSON texts, which are checked by their schema. Knows jsonschema.

A schema that refers to an address is not followed there: it has what the registry has under that name.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from topology.clients.registry.format import PayloadReader, RecordWriter, SchemaText, library
from topology.clients.registry.objects import as_json, fitted_json, from_json
from topology.errors import Reject


@dataclass(frozen=True)
class JsonSchemaFormat:
    """See `SchemaFormat`. `check`: whether payloads are checked by their schema, beside the record class."""

    check: bool = True
    type: str = "JSON"
    asked: str | None = None

    def load(self) -> None:
        """See `SchemaFormat.load`."""
        if self.check:
            library("jsonschema", "jsonschema")

    def reader(self, schema: SchemaText) -> PayloadReader:
        """See `SchemaFormat.reader`."""
        if not self.check:
            return fitted_json
        checked = _checker(schema)

        def read(data: bytes, kind: Any) -> Any:
            checked(data)
            return fitted_json(data, kind)

        return read

    def writer(self, schema: SchemaText) -> RecordWriter:
        """See `SchemaFormat.writer`."""
        checked = _checker(schema) if self.check else None

        def write(record: Any) -> bytes:
            made = as_json(record)
            if checked is not None:
                checked(made)
            return made

        return write


def _checker(schema: SchemaText) -> Callable[[bytes], None]:
    """Return a function that raises Reject for a JSON text that does not fit the schema."""
    jsonschema, referencing = library("jsonschema", "jsonschema"), library("referencing", "referencing")
    drafts = library("referencing.jsonschema", "referencing")
    known = library("jsonschema_specifications", "jsonschema-specifications").REGISTRY
    for name, text in schema.references.items():
        found = referencing.Resource.from_contents(json.loads(text), default_specification=drafts.DRAFT7)
        known = known.with_resource(name, found)
    rules = json.loads(schema.text)
    kind = jsonschema.validators.validator_for(rules, default=jsonschema.Draft7Validator)
    kind.check_schema(rules)
    validator = kind(rules, registry=known)

    def check(data: bytes) -> None:
        for error in validator.iter_errors(from_json(data)):
            raise Reject(f"its schema refuses it: {error.message:.200} - at {error.json_path}")

    return check
