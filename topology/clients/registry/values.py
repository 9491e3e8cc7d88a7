"""`RegistryValue`: payloads of a source that name their schema. Knows what was fetched; must not know sources."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from topology.clients.registry.format import SchemaFormat
from topology.clients.registry.framing import HEAD_BYTES, id_of
from topology.clients.registry.schemas import KnownSchemas
from topology.errors import Reject
from topology.records import Record

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class RegistryValue(Generic[R]):
    """Payloads with the id of their schema in front. `SchemaRegistry` makes it; `fields` and `at` are as in `Json`.

    A source calls `check` at its start. Before it reads payloads, it calls `fetch` for all their `ids` if some are
    `missing`.
    """

    schemas: KnownSchemas
    form: SchemaFormat
    cls: type[R]
    fields: Mapping[str, str] | None = None
    at: str | None = None
    id: None = None

    async def check(self) -> None:
        """See `KnownSchemas.check`."""
        await self.schemas.check(self.form)

    def ids(self, payloads: Iterable[bytes | None]) -> list[int]:
        """Return the ids of the schemas of payloads, each once."""
        heads = {data[:HEAD_BYTES] for data in payloads if data is not None}
        return [found for data in heads if (found := id_of(data)) is not None]

    def missing(self, ids: Sequence[int]) -> list[int]:
        """Return those that have to be fetched first."""
        return self.schemas.missing(self.form, ids)

    async def fetch(self, ids: Sequence[int]) -> None:
        """See `KnownSchemas.fetch`."""
        await self.schemas.fetch(self.form, ids)

    def decode_as(self, kind: Any) -> Callable[[bytes], Any]:
        """Return a function that reads a payload as a value of this type. It raises ValueError, Reject or an error of
        the format's library for one that does not fit."""
        schemas, form = self.schemas, self.form

        def decoded(data: bytes) -> Any:
            schema_id = id_of(data)
            if schema_id is None:
                raise Reject("it has no schema id: it does not begin with a zero byte and four bytes of the id")
            return schemas.reader(form, schema_id)(data[HEAD_BYTES:], kind)

        return decoded
