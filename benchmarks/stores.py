"""Rows that sinks store, at full speed.

Each row is acked once it is durable. `…-sink` is the sink itself: it is given tuples as a run gives them, up to 128 at
a time, with no topology before it. `…-run` is a topology in one process, of a source and the sink. The records are made
before the clock starts.
"""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.embedded import acked_a_second
from bolts import PostgresSink
from bolts.sinks.batching import BatchingSink
from bolts.sinks.contract import SinkStore, Written
from topology import Message, Spout, Topology
from topology.components import Task
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.records import Record

DSN: Final = os.environ.get("KEDGE_TEST_POSTGRES") or "postgresql://postgres@127.0.0.1:5432/test"
SLICE: Final = 128  # tuples that a run gives to a sink at once, at most
WARM_UP_S: Final = 0.5
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

    def ack_all(self, tuples: Sequence[Tuple[Any]]) -> Iterable[Tuple[Any]]:
        self.acked += len(tuples)
        return ()

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


def _alerts() -> list[Alert]:
    at = datetime.now(UTC)
    return [
        Alert(f"192.0.2.{number % 250}", f"user{number}", number % 7, number * 0.5, at + timedelta(microseconds=number))
        for number in range(1000)
    ]


class Alerts(Spout):
    """The same alerts again and again, under new ids."""

    def __init__(self) -> None:
        self.alerts = _alerts()
        self.next = 0

    async def poll(self, limit: int) -> Sequence[Message[Alert]]:
        alerts, begun = self.alerts, self.next
        self.next += limit
        return [Message(alerts[number % 1000], number) for number in range(begun, self.next)]


def _tuple(number: int, record: Alert) -> Tuple[Any]:
    return Tuple(
        record, number * 0x9E3779B97F4A7C15 & 2**64 - 1, number * 0xC2B2AE3D27D4EB4F & 2**64 - 1, 1, (), _SOURCE
    )


async def stored_a_second(make: Callable[[], BatchingSink], seconds: float) -> dict[str, float]:
    """Return `value`: acked rows per second; `batch`: rows per transaction; `commits` per second."""
    sink, acks, alerts = make(), _Acks(), _alerts()
    counted: list[_Counted] = []
    made = sink._make_store

    def counting() -> SinkStore:
        store: Any = made()
        counted.append(_Counted(store))
        return counted[0]

    sink._make_store = counting  # type: ignore[method-assign]
    await sink.open(Task("bench", "store", 0, 1, _Clock(), Random(1), _NoNotes()))
    number, started_at, first, writes = 1, time.perf_counter(), 0, 0
    until = started_at + WARM_UP_S + seconds
    while (now := time.perf_counter()) < until:
        if not first and now - started_at >= WARM_UP_S:
            started_at, first, writes = now, acks.acked, counted[0].writes
        count = min(SLICE, sink.inputs_room())
        tuples = [_tuple(each, alerts[each % 1000]) for each in range(number, number + max(1, count))]
        number += len(tuples)
        if count > 0:
            sink.take_inputs(tuples, acks)  # type: ignore[arg-type]
        elif (waits := sink.execute(tuples[0], acks)) is not None:  # type: ignore[arg-type]
            await waits
        await asyncio.sleep(0)
    took, rows, commits = time.perf_counter() - started_at, acks.acked - first, counted[0].writes - writes
    await sink.flush(acks)  # type: ignore[arg-type]
    await sink.close()
    return {"value": rows / took, "batch": rows / max(commits, 1), "commits": commits / took}


async def run_a_second(make: Callable[[], BatchingSink], seconds: float) -> dict[str, float]:
    """Return `value`: acked rows per second of a topology that stores them."""
    topology = Topology("stored")
    topology.bolt("store", make(), topology.spout("alerts", Alerts()).shuffle())
    return {"value": await acked_a_second(topology, seconds)}


Measured = Callable[[Callable[[], BatchingSink], float], Coroutine[Any, Any, dict[str, float]]]


def into_postgres(measured: Measured, seconds: float) -> dict[str, float]:
    """Store into a schema of its own on the server that tests use; the schema is dropped at the end."""
    import psycopg

    schema = f"kedge_bench_{secrets.token_hex(4)}"
    with psycopg.connect(DSN, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        try:
            return asyncio.run(measured(lambda: PostgresSink(DSN, schema=schema), seconds))
        finally:
            connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())


def into_file(kind: Callable[..., BatchingSink], measured: Measured, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(measured(lambda: kind(Path(folder) / "rows"), seconds))
