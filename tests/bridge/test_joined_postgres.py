"""`joined` with a table of PostgreSQL, by a function that is given the SparkSession: pip brings no JDBC driver, so it
reads by psycopg."""

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="needs pip install 'kedge-streams[postgres]'")
pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

import psycopg
from queries_kit import Queries
from spark_kit import needs_spark
from test_joined import OWNERS, Known, Seen, by_number, expected, join, seen

from bridge import Table

pytestmark = [needs_spark, pytest.mark.service("postgres"), pytest.mark.timeout(300)]

NAMED_BY = "KEDGE_TEST_POSTGRES"  # as in tests/services
STANDARD = "postgresql://postgres@127.0.0.1:5432/test"


class Database:
    """A schema of the test's own."""

    def __init__(self, dsn: str) -> None:
        self.dsn, self.schema = dsn, f"kedge_test_{secrets.token_hex(6)}"

    def do(self, statement: str, *parameters: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement.replace("OWN", f'"{self.schema}"').encode(), parameters)


@pytest.fixture
def database() -> Iterator[Database]:
    one = Database(os.environ.get(NAMED_BY) or STANDARD)
    try:
        one.do("CREATE SCHEMA OWN")
    except psycopg.OperationalError as error:
        said = " ".join(str(error).split())
        pytest.skip(f"no PostgreSQL to test with ({said}); CONTRIBUTING.md says how to start one, {NAMED_BY} names it")
    try:
        one.do("CREATE TABLE OWN.owners (source_ip text PRIMARY KEY, owner text NOT NULL)")
        for ip, owner in OWNERS.items():
            one.do("INSERT INTO OWN.owners VALUES (%s, %s)", ip, owner)
        yield one
    finally:
        one.do("DROP SCHEMA OWN CASCADE")


@pytest.fixture
def queries(session: Any, tmp_path: Path) -> Iterator[Queries]:
    made = Queries(session, tmp_path, Seen, Known)
    yield made
    for one in session.streams.active:
        one.stop()


def owners_in(dsn: str, schema: str) -> Any:
    def owners(session: Any) -> Any:
        with psycopg.connect(dsn) as connection:
            rows = connection.execute(f'SELECT source_ip, owner FROM "{schema}".owners'.encode()).fetchall()
        return session.createDataFrame(rows, "source_ip string, owner string")

    return owners


def test_a_stream_is_joined_with_a_table_of_postgres_which_is_read_again(queries: Queries, database: Database) -> None:
    """A row that is new, one that has changed, and a server that is away for a while: then it stays as it was."""
    table = Table(owners_in(database.dsn, database.schema), refresh="1 second")
    table.refresh_s = 0.0  # with each batch
    running = queries.begin(join(table))
    changes: list[tuple[range, Callable[[], None]]] = [
        (range(10), lambda: None),
        (range(10, 20), lambda: database.do("ALTER TABLE OWN.owners RENAME TO elsewhere")),
        (range(20, 30), lambda: database.do("ALTER TABLE OWN.elsewhere RENAME TO owners")),
        (range(30, 40), lambda: changed(database)),
    ]
    for part, change in changes:
        change()
        before = len(queries.results())
        queries.input.put(seen(part))
        queries.until(running, lambda before=before: len(queries.results()) > before)  # type: ignore[misc]
    queries.input.end()
    queries.to_its_end(running)
    newer = {"ip0": "mail", "ip1": "web", "ip2": "new"}
    assert by_number(queries.results()) == expected(range(30), OWNERS) | expected(range(30, 40), newer)
    (said,) = {one for one in queries.said if "could not be read again and stays as it was" in one}
    assert "UndefinedTable" in said


def changed(database: Database) -> None:
    database.do("UPDATE OWN.owners SET owner = 'web' WHERE source_ip = 'ip1'")
    database.do("INSERT INTO OWN.owners VALUES ('ip2', 'new')")
