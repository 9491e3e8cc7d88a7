"""Tables of a real PostgreSQL server that a `PostgresSource` reads: made, filled and looked at by other connections."""

import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import psycopg
import pytest
from postgres_kit import Database, through
from tcp_proxy import TcpProxy

from spouts.postgres.source import PostgresSource
from topology.components import Message
from topology.errors import ConfigurationError
from topology.testing.sources import SourceItem, SourceSubject
from topology.testing.sources.driver import DrivenSource, Memory, is_malformed

COME_S = 30.0  # for what has to come, on a busy machine

Mode = Literal["growing", "outbox", "by uuid"]
KEYS: dict[Mode, str] = {
    "growing": "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "outbox": "id bigserial PRIMARY KEY",
    "by uuid": "id uuid PRIMARY KEY DEFAULT gen_random_uuid()",
}


class ItemTable:
    """A table of numbered items, in a schema of the test's own."""

    def __init__(self, database: Database, mode: Mode = "growing", name: str = "item") -> None:
        self.database, self.mode, self.name = database, mode, name

    def make(self) -> "ItemTable":
        self.database.do(f"CREATE TABLE {self.name} ({KEYS[self.mode]}, number int, text text)")
        return self

    @property
    def full_name(self) -> str:
        return f"{self.database.schema}.{self.name}"

    def source(self, dsn: str = "", **settings: Any) -> PostgresSource[Any]:
        given: dict[str, Any] = {"value": SourceItem, "table": self.full_name, "outbox": self.mode != "growing"}
        return PostgresSource(dsn or self.database.dsn, **{**given, **settings})

    def put(self, numbers: Sequence[int]) -> None:
        """One transaction with an item for each number."""
        self.database.do(
            f"INSERT INTO {self.name} (number, text) SELECT n, 'item ' || n FROM unnest(%s::int[]) AS n", [*numbers]
        )

    def numbers(self) -> list[int]:
        return [row["number"] for row in self.database.do(f"SELECT number FROM {self.name} ORDER BY number")]


class PostgresSourceSubject(SourceSubject):
    tasks = 2

    def __init__(self, dsn: str, schema: str, mode: Mode, notify: bool = False) -> None:
        self.table = ItemTable(Database(dsn, schema), mode)
        self.mode, self.notify = mode, notify
        self.proxy: TcpProxy | None = None

    def make(self) -> PostgresSource[SourceItem]:
        dsn = self.table.database.dsn
        dsn = through(dsn, "127.0.0.1", self.proxy.port) if self.proxy is not None else dsn
        return self.table.source(dsn, notify="items" if self.notify else None)

    def put(self, numbers: Sequence[int]) -> None:
        self.table.put(numbers)
        if self.notify:
            self.table.database.do("NOTIFY items")

    def put_bad(self) -> bytes:
        self.table.database.do("INSERT INTO item (number, text) VALUES (NULL, 'bad')")
        return b'{"number":null,"text":"bad"}'

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.away():
            yield

    def missing(self) -> PostgresSource[SourceItem]:
        return self.table.source("postgresql://postgres@127.0.0.1:9/test")

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        database = self.table.database
        return "postgres_source_kit:PostgresSourceSubject", [database.dsn, database.schema, self.mode]


def as_json(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()


@contextmanager
def line_to(dsn: str) -> Iterator[TcpProxy]:
    """A proxy between a source and the server."""
    parameters = psycopg.conninfo.conninfo_to_dict(dsn)
    before = {*threading.enumerate()}
    one = TcpProxy(int(parameters.get("port") or 5432), str(parameters.get("host") or "127.0.0.1"))
    try:
        yield one
    finally:
        one.close()
        for thread in {*threading.enumerate()} - before:
            if "_listen" in thread.name:  # it may be about to take one more connection
                thread.join(10)
        one.reset()


class Writer:
    """A transaction of its own. Blocking calls; each is over at once."""

    def __init__(self, table: ItemTable) -> None:
        self.table = table
        self.connection = psycopg.connect(table.database.dsn)
        self.connection.execute(f'SET search_path = "{table.database.schema}"'.encode())
        self.connection.commit()

    def insert(self, number: int, into: str = "") -> "Writer":
        into = into or self.table.name
        self.connection.execute(f"INSERT INTO {into} (number, text) VALUES ({number}, 'late')".encode())
        return self

    def do(self, statement: str) -> "Writer":
        self.connection.execute(statement.encode())
        return self

    def commit(self) -> None:
        self.connection.commit()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


@asynccontextmanager
async def opened(
    source: PostgresSource[Any], memory: Memory | None = None, tasks: int = 1, index: int = 0
) -> AsyncIterator[DrivenSource]:
    one = DrivenSource(source, memory or Memory(), tasks, index)
    try:
        await one.open()
        yield one
    finally:
        await one.close()


def numbers(source: DrivenSource) -> list[int]:
    return [message.record.number for message in source.messages if not is_malformed(message)]


async def refusal(source: PostgresSource[Any], memory: Memory | None = None) -> str:
    """The one sentence with which it refuses to open."""
    with pytest.raises(ConfigurationError) as caught:
        async with opened(source, memory):
            pass
    text = str(caught.value).partition("\n  next:")[0]
    assert text.startswith("PostgresSource: ")
    assert "\n" not in text
    return text


async def all_of(source: PostgresSource[Any], tasks: int = 1) -> list[Message[Any]]:
    """What a source that ends by itself gives, over all of its tasks."""
    found: list[Message[Any]] = []
    for index in range(tasks):
        async with opened(source, None, tasks, index) as one:
            found += await one.take(10**9, COME_S)
            assert one.ended
    return found
