"""`PostgresSink` keeps the contract of sinks, on a real server, by the one suite that all sinks go through."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from postgres_kit import Database
from postgres_proxy import Do, PostgresProxy

from bolts.sinks.batching import BatchingSink
from topology.testing.sinks import SINK_CHECKS, SinkSubject, check_sink

pytestmark = pytest.mark.service("postgres")


class PostgresSubject(SinkSubject):
    tasks = 2
    ordered = False  # a batch's rows are stored in the order of their keys (F45)

    def __init__(self, dsn: str, schema: str, mode: Literal["append", "upsert"], proxy: PostgresProxy | None) -> None:
        self.database = Database(dsn, schema)
        self.mode, self.proxy = mode, proxy

    def make(self) -> BatchingSink:
        by_key: dict[str, Any] = {"mode": "upsert", "key": ("number",), "revision": "revision"}
        dsn = self.proxy.dsn if self.proxy is not None else ""
        return self.database.sink(dsn, batch=50, within_ms=2, **(by_key if self.mode == "upsert" else {}))

    def rows(self) -> list[tuple[int, int]]:
        if not self.database.do("SELECT 1 AS one FROM pg_tables WHERE schemaname = %s", self.database.schema):
            return []
        found = self.database.do("SELECT number, revision FROM sink_item")
        return [(row["number"], row["revision"]) for row in found]

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.proxy is not None
        self.proxy.refuses = True
        self.proxy.reset()
        yield
        self.proxy.refuses = False

    @contextmanager
    def lost_answer(self) -> Iterator[None]:
        """The line is cut where the server says that the commit is done."""
        assert self.proxy is not None
        self.proxy.cut_once(lambda passing: not passing.to_server and passing.text == "COMMIT", Do.CUT_BEFORE)
        yield
        assert self.proxy.cuts == 1

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "test_postgres_conformance:elsewhere", [self.database.dsn, self.database.schema, self.mode]


def elsewhere(dsn: str, schema: str, mode: Literal["append", "upsert"]) -> PostgresSubject:
    return PostgresSubject(dsn, schema, mode, None)


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("check", SINK_CHECKS)
def test_postgres_sink_keeps_the_contract(
    check: str, mode: Literal["append", "upsert"], database: Database, proxy: PostgresProxy
) -> None:
    left_out = check_sink(check, PostgresSubject(database.dsn, database.schema, mode, proxy))
    assert not left_out or "mode" in left_out, left_out
