"""Calls to a schema registry, and the meaning of its errors. Knows the client of confluent-kafka. All calls block.

A call connects, asks and disconnects: there are few of them, and nothing is left open.
"""

import contextlib
import logging
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from topology.clients.errors import ServerAway
from topology.clients.registry.format import SchemaText, library
from topology.clients.tls import Tls
from topology.secrets import Secret
from topology.text import printable

THREAD: Final = "kedge-schemas"  # the name of the thread that calls begins so
HTTP_LIBRARIES: Final = ("httpx2", "httpx")  # the client uses the first one that is there
REQUEST_S: Final = 5.0  # seconds that a registry has for each step of an answer
REFERENCES_MAX: Final = 100  # schemas that one schema refers to, with theirs
SAID_MAX: Final = 200  # letters of what a registry says that are shown
UNKNOWN: Final = frozenset({40401, 40402, 40403})  # its codes for a subject, a version or a schema that is not there
LATER: Final = frozenset({408, 425, 429})  # of HTTP, beside those from 500 on
OF_ONE: Final = frozenset({404, 422})  # of HTTP, for one schema; 403 too
NO_CODE: Final = -1  # the client's code for an answer without one
FIRST_ID: Final = 1  # the id that is asked for to see whether there is a registry


class RegistryRefused(Exception):
    """The error for a registry that has answered, and refuses. The text is the reason, without secrets."""


class RefusedSchema(RegistryRefused):
    """The error for a registry that refuses this schema; it may give others."""


class ForbiddenSchema(RefusedSchema):
    """The error for a user that the registry knows, and does not let see or change this schema."""


class UnknownSchema(Exception):
    """The error for something that the registry does not have. The text is the reason."""


@dataclass(frozen=True)
class RegistryAccess:
    """The way to a registry, checked."""

    url: str
    user: str | None
    password: Secret | None
    tls: Tls | None

    def check(self) -> None:
        """See whether the registry answers as one, and takes the user. Raises as `schema` does."""
        with self._asked() as client, contextlib.suppress(UnknownSchema, ForbiddenSchema):
            self._text_of(self._told(client.get_schema, FIRST_ID))

    def schema(self, schema_id: int, asked: str | None) -> SchemaText:
        """Return a schema. Raises UnknownSchema, ServerAway and RegistryRefused."""
        with self._asked() as client:
            found = self._told(client.get_schema, schema_id, fmt=asked)
            references: dict[str, str] = {}
            self._refer(client, found, references)
        return SchemaText(found.schema_type or "AVRO", self._text_of(found), references)

    def id_of(self, subject: str, schema: SchemaText, *, register: bool) -> int:
        """Return the id of a schema under a subject; it has one then, or had one before if not `register`. Raises as
        `schema` does."""
        module = _module()
        with self._asked() as client:
            made = module.Schema(schema.text, schema.type)
            if register:
                return int(self._told(client.register_schema, subject, made))
            return int(self._told(client.lookup_schema, subject, made).schema_id)

    def _refer(self, client: Any, schema: Any, into: dict[str, str]) -> None:
        """Add the schemas that this one refers to, each after those that it needs."""
        for each in schema.references or ():
            if each.name in into:
                continue
            if len(into) >= REFERENCES_MAX:
                raise UnknownSchema(f"it refers to more than {REFERENCES_MAX} schemas")
            into[each.name] = ""  # so that a circle ends
            found = self._told(client.get_version, each.subject, each.version).schema
            self._refer(client, found, into)
            into[each.name] = into.pop(each.name) or self._text_of(found)

    def _text_of(self, schema: Any) -> str:
        if not isinstance(schema.schema_str, str):
            raise self._stranger()
        return schema.schema_str

    @contextlib.contextmanager
    def _asked(self) -> Iterator[Any]:
        """Give a client."""
        settings: dict[str, Any] = {"url": self.url, "timeout": REQUEST_S, "max.retries": 0}
        if self.user is not None and self.password is not None:
            settings["basic.auth.user.info"] = f"{self.user}:{self.password.reveal()}"
        if self.tls is not None:
            self.tls.for_client()  # says what is wrong with its files
            settings |= _of_tls(self.tls)
        with _module().SchemaRegistryClient(settings) as client:
            yield client

    def _told(self, call: Any, *arguments: Any, **options: Any) -> Any:
        error_class = _module().SchemaRegistryError
        try:
            return call(*arguments, **options)
        except error_class as error:
            raise self._meaning(error) from None
        except (ValueError, TypeError, AttributeError, LookupError):  # a page of something else
            raise self._stranger() from None
        except _of_connections() as error:
            raise self.away(str(error) or type(error).__name__) from None

    def _meaning(self, error: Any) -> Exception:
        status, code = error.http_status_code, error.error_code
        said = printable(str(error.error_message)[:SAID_MAX]) if code != NO_CODE else "it gives no reason"
        if status == 404 and code in UNKNOWN:
            return UnknownSchema(said)
        if status in (401, 403):
            who = f"user {self.user!r}" if self.user is not None else "requests without a user"
            refused = RegistryRefused if status == 401 else ForbiddenSchema
            return refused(f"{self.url} refuses {who} ({status}): {said}")
        if status in LATER or status >= 500:
            return self.away(f"{status} {said}")
        has_code = code not in (None, NO_CODE)  # a page of a proxy has none
        kind = RefusedSchema if status in OF_ONE and has_code else RegistryRefused
        if status < 400 or status in (404, 405) or not has_code:
            return kind(self._strange(f" ({status})"))
        return kind(f"{self.url} refuses it ({status}): {said}")

    def _stranger(self) -> RegistryRefused:
        return RegistryRefused(self._strange())

    def _strange(self, status: str = "") -> str:
        return f"{self.url} does not answer as a schema registry{status}"

    def away(self, why: str) -> ServerAway:
        """Return the error for a registry that cannot be used now."""
        return ServerAway(f"the schema registry {self.url} can't be used: {printable(why)}")


def load() -> None:
    """Import the client. Raises ConfigurationError if it is not there."""
    _module()
    for name in HTTP_LIBRARIES:
        logging.getLogger(name).addFilter(_is_of_others)


def _is_of_others(entry: logging.LogRecord) -> bool:
    """Return False for the line that the library logs of each request of ours."""
    return not (entry.threadName or "").startswith(THREAD)


def _module() -> Any:
    return library("confluent_kafka.schema_registry", "confluent-kafka with its schema registry")


def _of_connections() -> tuple[type[BaseException], ...]:
    """Return the errors of the library of HTTP that the client uses."""
    used = [sys.modules[name].HTTPError for name in HTTP_LIBRARIES if name in sys.modules]
    return (*used, OSError)


def _of_tls(tls: Tls) -> dict[str, Any]:
    """Return the client's settings for these certificates."""
    system = ssl.get_default_verify_paths()
    made: dict[str, Any] = {"ssl.ca.location": tls.ca or system.cafile or system.capath}
    if not tls.check:
        made["ssl.ca.location"] = False
    if tls.certificate is not None:
        made |= {"ssl.certificate.location": tls.certificate, "ssl.key.location": tls.key or tls.certificate}
    if tls.password is not None:
        made["ssl.key.password"] = tls.password.reveal()
    return made
