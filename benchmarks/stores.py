"""Rows that sinks store, and commits of a worker's own store, at full speed.

Each row is acked once it is durable. Measures the sink itself, with no topology before it.
"""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

from bolts import JsonLinesSink, PostgresSink, SqliteSink
from bolts.sinks.batching import BatchingSink
from bolts.sinks.contract import SinkStore, Written
from topology.components import Source, Task, Tuple
from topology.filesystem.files import DiskFiles
from topology.records import Record
from topology.storage.sqlite.schema import create_store
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes, Mark, Span

DSN: Final = os.environ.get("KEDGE_TEST_POSTGRES") or "postgresql://postgres@127.0.0.1:5432/test"
BATCH: Final = 500  # tuples per transaction, the default of sinks
WARM_UP_S: Final = 0.5
PARTITIONS: Final = 8  # partitions whose marks one commit of a store has
_SOURCE: Final = Source("detect", "Alert")


class Alert(Record):
    """Five fields, as typical alerts have."""

    source_ip: str
    user: str
    failures: int
    score: float
    at: datetime


class _Acks:
    """A collector that counts."""

    def __init__(self) -> None:
        self.acked = 0

    def ack(self, tup: Tuple[Any]) -> None:
        self.acked += 1

    def fail(self, tup: Tuple[Any], reason: str) -> None:
        raise RuntimeError(reason)


class _Clock:
    def monotonic(self) -> float:
        return time.monotonic()

    def utc(self) -> datetime:
        return datetime.now(UTC)


class _NoNotes:
    def get(self, name: str) -> str | None:
        return None

    def set(self, name: str, text: str) -> None:
        raise AssertionError("a sink notes nothing")


class _Counted:
    """A store, and the number of its transactions."""

    def __init__(self, store: SinkStore) -> None:
        self._store = store
        self.open, self.close = store.open, store.close
        self.writes = 0

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        self.writes += 1
        return self._store.write(tuples)


def _tuple(number: int, at: datetime) -> Tuple[Any]:
    record = Alert(f"192.0.2.{number % 250}", f"user{number % 1000}", number % 7, number * 0.5, at)
    return Tuple(
        record, number * 0x9E3779B97F4A7C15 & 2**64 - 1, number * 0xC2B2AE3D27D4EB4F & 2**64 - 1, 1, (), _SOURCE
    )


async def stored_a_second(make: Callable[[], BatchingSink], seconds: float) -> dict[str, float]:
    """Return `value`: acked rows per second; `batch`: rows per transaction; `commits` per second."""
    sink, acks, at = make(), _Acks(), datetime.now(UTC)
    counted: list[_Counted] = []
    made = sink._make_store

    def counting() -> SinkStore:
        counted.append(_Counted(made()))
        return counted[0]

    sink._make_store = counting  # type: ignore[method-assign]
    await sink.open(Task("bench", "store", 0, 1, _Clock(), Random(1), _NoNotes()))
    number, started_at, first, writes = 0, time.perf_counter(), 0, 0
    until = started_at + WARM_UP_S + seconds
    while (now := time.perf_counter()) < until:
        if not first and now - started_at >= WARM_UP_S:
            started_at, first, writes = now, acks.acked, counted[0].writes
        for _ in range(50):
            number += 1
            waits = sink.execute(_tuple(number, at), acks)  # type: ignore[arg-type]
            if waits is not None:
                await waits
        await asyncio.sleep(0)
    took, rows, commits = time.perf_counter() - started_at, acks.acked - first, counted[0].writes - writes
    await sink.flush(acks)  # type: ignore[arg-type]
    await sink.close()
    return {"value": rows / took, "batch": rows / max(commits, 1), "commits": commits / took}


def into_postgres(seconds: float) -> dict[str, float]:
    """Store into a schema of its own on the server that tests use; the schema is dropped at the end."""
    import psycopg

    schema = f"kedge_bench_{secrets.token_hex(4)}"
    with psycopg.connect(DSN, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        try:
            return asyncio.run(stored_a_second(lambda: PostgresSink(DSN, schema=schema, batch=BATCH), seconds))
        finally:
            connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())


def into_file(kind: Callable[..., BatchingSink], seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(stored_a_second(lambda: kind(Path(folder) / "rows", batch=BATCH), seconds))


def into_sqlite(seconds: float) -> dict[str, float]:
    return into_file(SqliteSink, seconds)


def into_json_lines(seconds: float) -> dict[str, float]:
    return into_file(JsonLinesSink, seconds)


def commits_a_second(seconds: float) -> dict[str, float]:
    """Return the rate of commits of a worker's store, in sequence, each with the marks of a few partitions."""
    with tempfile.TemporaryDirectory() as folder:
        path, files = Path(folder) / "worker-0.db", DiskFiles()
        create_store(files, path, id=bytes(16), number=0)
        store = SqliteStore(files, path)
        commits, started_at = 0, time.perf_counter()
        while time.perf_counter() - started_at < seconds:
            commits += 1
            done = (Span(commits * 100 + 50, commits * 100 + 90),)
            marks = [
                Mark("lines", 0, f"part-{row}", "e1", commits * 100 + row, done, commits * 100 + 99)
                for row in range(PARTITIONS)
            ]
            store.commit(Changes(marks=marks))
        took = time.perf_counter() - started_at
        store.close()
        return {"value": commits / took}
