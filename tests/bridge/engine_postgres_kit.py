"""A PostgreSQL in which `engine_topology` stores its numbers, for tests that are skipped where there is none."""

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "services"))

from postgres_kit import NAMED_BY, Database, standard_dsn


@contextmanager
def a_database() -> Iterator[Database]:
    """A schema of a test's own."""
    dsn = standard_dsn()
    try:
        psycopg.connect(dsn, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        said = " ".join(str(error).split())
        pytest.skip(f"no PostgreSQL to test with ({said}); CONTRIBUTING.md says how to start one, {NAMED_BY} names it")
    with Database(dsn, f"kedge_test_{secrets.token_hex(6)}").there() as one:
        yield one


def held(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of its tables, with the keys that their identities are; none of a table that is not there yet."""
    found = {}
    for table in ("counted", "total"):
        there = database.do("SELECT to_regclass(%s) IS NOT NULL AS there", table)[0]["there"]
        found[table] = sorted(tuple(row.values()) for row in database.do(f"SELECT * FROM {table}")) if there else []
    return found
