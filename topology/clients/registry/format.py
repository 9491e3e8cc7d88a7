"""The contract of a format of schemas: what reads payloads of one schema, and what writes them. Knows no format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from topology.clients.extras import client
from topology.records import Record

EXTRA: Final = "kafka-registry"
NEEDED_BY: Final = "SchemaRegistry"

# Takes a payload without its head, and a type of msgspec's; returns a value of that type. Raises ValueError, Reject or
# an error of the format's library if it does not fit.
PayloadReader: TypeAlias = Callable[[bytes, Any], Any]
RecordWriter: TypeAlias = Callable[[Record], bytes]  # the reverse; what it raises is the reason


@dataclass(frozen=True)
class SchemaText:
    """A schema as a registry has it. `references`: the schemas that it refers to, by name, each after its own."""

    type: str
    text: str
    references: Mapping[str, str] = field(default_factory=dict)


class SchemaFormat(Protocol):
    """A format. Its methods import its library, and so may block. All formats are values, which can be compared.

    type   Its name in a registry.
    asked  The form in which a registry is asked for its schemas. None: its own.
    """

    @property
    def type(self) -> str: ...

    @property
    def asked(self) -> str | None: ...

    def load(self) -> None:
        """Import its library. Raises ConfigurationError if it is not there."""

    def reader(self, schema: SchemaText) -> PayloadReader:
        """Return what reads payloads of this schema. Raises any error for a schema that it cannot use."""
        ...

    def writer(self, schema: SchemaText) -> RecordWriter:
        """Return what writes records by this schema, as `reader` does."""
        ...


def library(module: str, package: str) -> Any:
    """Import a module that the extra has. Raises ConfigurationError if it is not there."""
    return client(module, package=package, extra=EXTRA, needed_by=NEEDED_BY)
