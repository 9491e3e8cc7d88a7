"""The schemas of one registry that were fetched, and the thread that fetches. Knows the loop; must not know formats.

A process has one of these per declared registry, which its tasks share: a schema is fetched once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from topology.clients.errors import refused
from topology.clients.registry import client
from topology.clients.registry.client import RefusedSchema, RegistryAccess, RegistryRefused, UnknownSchema
from topology.clients.registry.format import NEEDED_BY, PayloadReader, RecordWriter, SchemaFormat, SchemaText
from topology.errors import ConfigurationError, Reject

T = TypeVar("T")

SCHEMAS_MAX: Final = 1_000  # schemas that are kept; those that were used last
ANSWER_S: Final = 10.0  # seconds that a caller waits for one answer

Wanted: TypeAlias = tuple[SchemaFormat, int]  # … and the id of a schema


@dataclass(frozen=True)
class UnusableSchema:
    """The reason why payloads of a schema cannot be read. `again`: the registry is asked again, for the next batch."""

    why: str
    again: bool


class KnownSchemas:
    """The schemas of one registry. Its coroutines and `reader` are called in a loop; copies are the same object."""

    def __init__(self, access: RegistryAccess) -> None:
        self.access = access
        self._known: OrderedDict[Wanted, PayloadReader | UnusableSchema] = OrderedDict()
        self._thread: ThreadPoolExecutor | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "KnownSchemas":
        return self

    async def check(self, form: SchemaFormat) -> None:
        """Load the libraries, and see whether the registry answers. Raises ServerAway, and ConfigurationError for what
        the user has to fix."""

        def checked() -> None:
            client.load()
            form.load()
            self.access.check()

        await self._at_the_start(checked)

    async def writer(self, form: SchemaFormat, schema: SchemaText, subject: str, register: bool) -> tuple[int, Any]:
        """Return the id of a schema, and what writes records by it. Raises as `check` does."""

        def made() -> tuple[int, RecordWriter]:
            client.load()
            form.load()
            try:
                write = form.writer(schema)
            except ConfigurationError:
                raise
            except Exception as error:  # a library's error for a schema that is none
                raise RegistryRefused(f"the schema for {subject!r} can't be used: {error}") from error
            return self.access.id_of(subject, schema, register=register), write

        return await self._at_the_start(made)

    def missing(self, form: SchemaFormat, ids: Sequence[int]) -> list[int]:
        """Return those that have to be fetched first."""
        absent = []
        for schema_id in ids:
            if self._is_missing((form, schema_id)):
                absent.append(schema_id)
            else:
                self._known.move_to_end((form, schema_id))
        return absent

    async def fetch(self, form: SchemaFormat, ids: Sequence[int]) -> None:
        """Fetch those that are missing. All of these are known once it returns, until the caller awaits again.

        Raises ServerAway, also if the registry refuses what it has allowed before; those that came are kept. A schema
        that it refuses alone is unusable.
        """
        wanted = [(form, schema_id) for schema_id in ids]
        absent = [(form, schema_id) for schema_id in self.missing(form, ids)]
        while absent:
            for each in absent:
                try:
                    await self._in_thread(partial(self._fetch_into, each))
                except (RegistryRefused, ConfigurationError) as error:  # a file of certificates is gone, for example
                    raise self.access.away(str(error)) from error
            absent = [each for each in wanted if each not in self._known]  # another task has made room
        for each in wanted:
            self._known.move_to_end(each)
        while len(self._known) > max(SCHEMAS_MAX, len(wanted)):
            self._known.popitem(last=False)

    def reader(self, form: SchemaFormat, schema_id: int) -> PayloadReader:
        """Return what reads payloads of a schema that was fetched. Raises Reject if they cannot be read."""
        found = self._known[form, schema_id]
        if isinstance(found, UnusableSchema):
            raise Reject(found.why)
        return found

    def _is_missing(self, wanted: Wanted) -> bool:
        """Return True if it has to be fetched first. Only looks, so that the thread may call it too."""
        found = self._known.get(wanted)
        return found is None or (isinstance(found, UnusableSchema) and found.again)

    # -- in the thread

    def _fetch_into(self, wanted: Wanted) -> None:
        """Fetch a schema, unless another task has done it meanwhile."""
        if self._is_missing(wanted):
            self._known[wanted] = self._fetched(*wanted)

    def _fetched(self, form: SchemaFormat, schema_id: int) -> PayloadReader | UnusableSchema:
        try:
            schema = self.access.schema(schema_id, form.asked)
        except UnknownSchema as error:
            return UnusableSchema(f"the schema registry has no schema {schema_id}: {error}", again=True)
        except RefusedSchema as error:
            return UnusableSchema(f"its schema {schema_id} can't be used: {error}", again=True)
        if schema.type != form.type:
            return UnusableSchema(f"its schema {schema_id} is {schema.type}, not {form.type}", again=False)
        try:
            return form.reader(schema)
        except ConfigurationError:
            raise
        except Exception as error:  # a library's error for a schema that it cannot use
            said = str(error) if isinstance(error, Reject) else f"{type(error).__name__}: {error}"
            why = f"its schema {schema_id} can't be used: {said}"
            return UnusableSchema(why, again=False)

    async def _at_the_start(self, call: Callable[[], T]) -> T:
        try:
            return await self._in_thread(call)
        except (RegistryRefused, UnknownSchema) as error:
            raise refused(f"{NEEDED_BY}: {error}") from error

    async def _in_thread(self, call: Callable[[], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=client.THREAD)
        try:
            async with asyncio.timeout(ANSWER_S):
                return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except TimeoutError:
            raise self.access.away(f"it has not answered within {ANSWER_S:g} s") from None
