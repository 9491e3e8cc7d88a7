"""`RegistryBody`: bodies of messages that name their schema. Must not know sinks."""

from topology.clients.registry.format import RecordWriter, SchemaFormat, SchemaText
from topology.clients.registry.framing import head
from topology.clients.registry.schemas import KnownSchemas
from topology.records import Record


class RegistryBody:
    """Makes the bodies of a sink's messages, by one schema. `SchemaRegistry` makes it; a sink calls `open` first."""

    def __init__(
        self, schemas: KnownSchemas, form: SchemaFormat, schema: SchemaText, subject: str, register: bool
    ) -> None:
        self._schemas, self._form, self._schema = schemas, form, schema
        self._subject, self._register = subject, register
        self._head = b""
        self._write: RecordWriter | None = None

    async def open(self) -> None:
        """Register the schema, or look it up. May be called again. Raises ServerAway, and ConfigurationError for what
        the user has to fix."""
        if self._write is None:
            given = (self._form, self._schema, self._subject, self._register)
            schema_id, self._write = await self._schemas.writer(*given)
            self._head = head(schema_id)

    def __call__(self, record: Record) -> bytes:
        """Return the body of a record. Raises an error for a record that does not fit the schema."""
        if self._write is None:
            raise RuntimeError("this sink does not take bodies of a schema registry")
        return self._head + self._write(record)
