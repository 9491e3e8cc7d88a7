"""A schema of one test, and how its tables are looked at: by a connection of the test's own, as any reader does."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.rows import dict_row

from bolts import PostgresSink

NAMED_BY = "KEDGE_TEST_POSTGRES"
STANDARD = "postgresql://postgres@127.0.0.1:5432/test"


def standard_dsn() -> str:
    return os.environ.get(NAMED_BY) or STANDARD


@dataclass(frozen=True)
class Database:
    dsn: str
    schema: str

    @contextmanager
    def there(self) -> Iterator["Database"]:
        self.do(f'CREATE SCHEMA "{self.schema}"')
        try:
            yield self
        finally:
            self.do(f'DROP SCHEMA "{self.schema}" CASCADE')

    def sink(self, dsn: str = "", **settings: Any) -> PostgresSink:
        return PostgresSink(dsn or self.dsn, schema=self.schema, **settings)

    def do(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Runs one statement, committed at once, with this schema first on the path."""
        with self.connected() as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        with psycopg.connect(self.dsn, autocommit=True, row_factory=dict_row, connect_timeout=10) as connection:
            connection.execute(f'SET search_path = "{self.schema}"'.encode())
            yield connection

    def rows(self, table: str = "alert", order: str = "failures") -> list[dict[str, Any]]:
        return self.do(f'SELECT * FROM "{table}" ORDER BY "{order}"')

    def numbers(self, table: str = "alert") -> list[int]:
        return [row["failures"] for row in self.rows(table)]


def through(dsn: str, host: str, port: int) -> str:
    """The same database by another address, unencrypted, so that who is between can read along."""
    parameters = psycopg.conninfo.conninfo_to_dict(dsn)
    user, name = quote(str(parameters.get("user", "postgres"))), quote(str(parameters.get("dbname", "postgres")))
    password = f":{quote(str(parameters['password']), safe='')}" if "password" in parameters else ""
    return f"postgresql://{user}{password}@{host}:{port}/{name}?sslmode=disable&gssencmode=disable"
