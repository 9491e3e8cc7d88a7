"""`SchemaRegistry`: a schema registry as users declare it. Must not know what becomes of its values and bodies."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from topology.clients.errors import invalid
from topology.clients.registry.avro import AvroFormat
from topology.clients.registry.avro_schema import avro_schema
from topology.clients.registry.bodies import RegistryBody
from topology.clients.registry.client import RegistryAccess
from topology.clients.registry.format import SchemaFormat, SchemaText
from topology.clients.registry.json_schema import JsonSchemaFormat
from topology.clients.registry.protobuf import ProtobufFormat
from topology.clients.registry.schemas import KnownSchemas
from topology.clients.registry.values import RegistryValue
from topology.clients.tls import Tls
from topology.records import Record, is_record
from topology.secrets import Secret

R = TypeVar("R", bound=Record)

URL: Final = re.compile(r"https?://[^\s,@/?#]+(/[^\s,@?#]*)?")


class SchemaRegistry:
    """A registry of the schemas of messages, such as Confluent's: payloads begin with a zero byte and the schema's id.

        registry = SchemaRegistry("https://registry.example", user="kedge", password=Secret("…"))
        KafkaSource("broker:9092", "logins", value=registry.avro(Login))
        KafkaSink("broker:9092", "alerts", body=registry.avro_body(Alert, subject="alerts-value"))

    A payload is read by the schema that it was written with, and the record class takes from it what it has fields for,
    as with `Json`. A payload that does not fit, or whose id the registry does not know, is malformed. A process fetches
    a schema once, and keeps the 1,000 that were used last. If the registry is away, messages wait.

    url       http:// or https://HOST:PORT, with a path if it has one.
    user, password  For HTTP's basic authentication; also an API key and its secret.
    tls       Certificates, for https. None: those of the system.

    Needs `kedge-streams[kafka-registry]`.
    """

    def __init__(
        self, url: str, *, user: str | None = None, password: str | Secret | None = None, tls: Tls | None = None
    ) -> None:
        kind = type(self).__name__
        if not isinstance(url, str) or not URL.fullmatch(url):
            raise invalid(f"{kind}: url is http:// or https://HOST:PORT, without a user and a query")
        if (user is None) != (password is None):
            raise invalid(f"{kind}: user and password come together")
        if user is not None and (not isinstance(user, str) or ":" in user):
            raise invalid(f"{kind}: user is a name without a colon")
        is_secured = url.startswith("https:")
        if tls is not None and not is_secured:
            raise invalid(f"{kind}: tls is for a url that begins with https://")
        secret = Secret(password) if password is not None else None
        secured = (tls or Tls()) if is_secured else None
        self._schemas = KnownSchemas(RegistryAccess(url.rstrip("/"), user, secret, secured))

    def avro(self, cls: type[R], *, fields: Mapping[str, str] | None = None, at: str | None = None) -> RegistryValue[R]:
        """Return `value` for a source of Avro payloads. `fields` and `at` are as in `Json`. UUIDs, days and times of
        day are texts."""
        return RegistryValue(self._schemas, AvroFormat(), cls, fields, at)

    def json(
        self, cls: type[R], *, fields: Mapping[str, str] | None = None, at: str | None = None, check: bool = True
    ) -> RegistryValue[R]:
        """Return `value` for a source of JSON payloads, which their schema checks before the record class does. That
        takes the most of the time; `check=False` leaves it out."""
        return RegistryValue(self._schemas, JsonSchemaFormat(check), cls, fields, at)

    def protobuf(
        self, cls: type[R], *, message: Any, fields: Mapping[str, str] | None = None, at: str | None = None
    ) -> RegistryValue[R]:
        """Return `value` for a source of Protobuf payloads. `message` is the class that protoc has generated. Enums are
        names, and Timestamps datetimes. A field that can be absent and is needs a default in the record class."""
        return RegistryValue(self._schemas, self._protobuf(message), cls, fields, at)

    def avro_body(self, schema: str | type[Record], *, subject: str, register: bool = True) -> RegistryBody:
        """Return `body` for a sink of records of one class. `schema`: as JSON; or the record class, if its fields are
        str, int, float, bool, bytes, datetime, records, and tuples or `X | None` of these.

        When the sink is opened, the schema is registered under the subject. `register=False`: it has to be there.
        """
        text = avro_schema(schema, type(self).__name__) if is_record(schema) else self._json_text(schema)
        return self._body(AvroFormat(), text, subject, register)

    def json_body(self, schema: str, *, subject: str, register: bool = True, check: bool = True) -> RegistryBody:
        """Return `body` for a sink, as `avro_body` does. `check`: a record that does not fit the schema is refused."""
        return self._body(JsonSchemaFormat(check), self._json_text(schema), subject, register)

    def protobuf_body(
        self, message: Any, *, subject: str, schema: str | None = None, register: bool = True
    ) -> RegistryBody:
        """Return `body` for a sink, as `avro_body` does: each field of the record becomes the message's field of that
        name. `schema`: the text of the .proto file; None: made of the class, whose file may import `google/protobuf/`
        only."""
        form = self._protobuf(message)
        return self._body(form, schema if schema is not None else form.own_schema(), subject, register)

    def _body(self, form: SchemaFormat, text: str, subject: str, register: bool) -> RegistryBody:
        if not isinstance(subject, str) or not subject:
            raise invalid(f"{type(self).__name__}: subject is a name, such as TOPIC-value, not {subject!r:.80}")
        return RegistryBody(self._schemas, form, SchemaText(form.type, text), subject, register)

    def _protobuf(self, message: Any) -> ProtobufFormat:
        if not isinstance(message, type) or not hasattr(message, "DESCRIPTOR"):
            raise invalid(f"{type(self).__name__}: message is a class that protoc has generated, not {message!r:.80}")
        return ProtobufFormat(message)

    def _json_text(self, schema: object) -> str:
        try:
            json.loads(schema)  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise invalid(f"{type(self).__name__}: schema is a JSON text: {error}") from None
        return str(schema)
