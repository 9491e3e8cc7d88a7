"""PostgreSQL by psycopg: a cursor at the server that reads a table in its order. The sink is in `benchmarks.state`."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import psycopg

from benchmarks.servers.kinds import DECODER, Reading
from benchmarks.stores import DSN
from spouts.postgres.source import PostgresSource

BATCH = 2_000


class Postgres:
    def __init__(self) -> None:
        self.name = f"kedge_bench_{secrets.token_hex(4)}"

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as connection:
            self._connection = connection
            columns = (
                "n bigint generated always as identity primary key, id text, sensor text, at float8, celsius float8"
            )
            await connection.execute(f"create table {self.name} ({columns}, ok bool)".encode())
            try:
                yield
            finally:
                await connection.execute(f"drop table {self.name}".encode())

    async def fill(self, bodies: Sequence[bytes]) -> None:
        into = f"copy {self.name} (id, sensor, at, celsius, ok) from stdin".encode()
        async with self._connection.cursor() as cursor, cursor.copy(into) as copy:
            for body in bodies:
                await copy.write_row(msgspec.structs.astuple(DECODER.decode(body)))

    async def read(self, count: int) -> AsyncIterator[int]:
        query = f"select n, id, sensor, at, celsius, ok from {self.name} order by n".encode()
        async with await psycopg.AsyncConnection.connect(DSN) as connection, connection.cursor("bare") as cursor:
            await cursor.execute(query)
            while rows := await cursor.fetchmany(BATCH):
                for row in rows:
                    Reading(*row[1:])
                yield len(rows)

    def source(self) -> PostgresSource[Reading]:
        return PostgresSource(DSN, table=self.name, column="n", value=Reading)
