"""What the sinks' tests share: a collector that keeps what it is told, tuples, a task, and both sinks behind one face.

Must not reach into a sink: it looks at acks, fails and the file, as a run and a reader do.
"""

import asyncio
import copy
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from bolts import JsonLinesSink, SqliteSink
from bolts.batching import BatchingSink
from topology.components import Source, Task, Tuple
from topology.errors import TupleStateError
from topology.records import Record

SOURCE = Source("detect", "Alert")


class Alert(Record):
    """What most tests store."""

    source_ip: str
    failures: int
    at: datetime | None = None


class Sample(Record):
    name: str
    value: float


class Recorder:
    """A collector that keeps acks and fails, in order, and refuses a second one as the runtime does.

    `on_ack` is called in the moment of an ack: what is not durable then was acked too early.
    """

    def __init__(self, on_ack: Callable[[Tuple[Any]], None] | None = None) -> None:
        self.acked: list[Tuple[Any]] = []
        self.failed: dict[int, str] = {}  # id of the tuple → reason
        self._done: set[int] = set()
        self._on_ack = on_ack

    def emit(self, *_: Any, **__: Any) -> None:
        raise AssertionError("a sink emits nothing")

    def ack(self, tup: Tuple[Any]) -> None:
        self._finish(tup)
        self.acked.append(tup)
        if self._on_ack is not None:
            self._on_ack(tup)

    def fail(self, tup: Tuple[Any], reason: str) -> None:
        self._finish(tup)
        self.failed[id(tup)] = reason

    def touch(self, tup: Tuple[Any]) -> None:
        pass

    async def drain(self) -> None:
        pass

    def give_up(self, tup: Tuple[Any]) -> None:
        """As the runtime does with a tuple held for too long: the sink is told when it acks it."""
        self._finish(tup)

    def _finish(self, tup: Tuple[Any]) -> None:
        if id(tup) in self._done:
            raise TupleStateError("finished already")
        self._done.add(id(tup))

    def is_acked(self, tup: Tuple[Any]) -> bool:
        return any(acked is tup for acked in self.acked)


class LoopClock:
    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def utc(self) -> datetime:
        return datetime.now(UTC)


class NoNotes:
    def get(self, name: str) -> str | None:
        return None

    def set(self, name: str, text: str) -> None:
        raise AssertionError("a sink notes nothing")


def task(tasks: int = 1) -> Task:
    return Task("ssh-alerts", "store", 0, tasks, LoopClock(), Random(1), NoNotes())


def tup(record: Record, number: int = 1) -> Tuple[Any]:
    """A tuple whose origin and identity are those of message `number`: the same for every replay."""
    return Tuple(record, number * 2 + 1, number * 7919 + 1, number, (), SOURCE)


def alert(number: int, ip: str = "192.0.2.1") -> Tuple[Any]:
    return tup(Alert(ip, number), number)


@dataclass(frozen=True)
class Kind:
    """One of the sinks, and how a reader looks into its file."""

    name: str
    make: Callable[..., BatchingSink]
    rows: Callable[[Path], list[dict[str, Any]]]  # by another connection or descriptor, in the order of storing
    key: Callable[[dict[str, Any]], bytes]


def sqlite_rows(path: Path, table: str | None = None) -> list[dict[str, Any]]:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    try:
        connection.row_factory = sqlite3.Row
        tables = (
            [table]
            if table
            else [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        )
        return [dict(row) for name in tables for row in connection.execute(f'SELECT * FROM "{name}" ORDER BY rowid')]
    finally:
        connection.close()


def json_rows(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


KINDS = [
    Kind("sqlite", SqliteSink, sqlite_rows, lambda row: row["key"]),
    Kind("jsonlines", JsonLinesSink, json_rows, lambda row: bytes.fromhex(row["key"])),
]


@asynccontextmanager
async def opened(prototype: BatchingSink) -> AsyncIterator[BatchingSink]:
    """A task's own copy of the sink, opened, and closed at the end, as a run does it."""
    sink = copy.deepcopy(prototype)
    try:
        await sink.open(task())
        yield sink
    finally:
        await sink.close()


async def feed(sink: BatchingSink, tuples: Iterable[Tuple[Any]], out: Recorder | None = None) -> Recorder:
    """Gives the tuples to the sink one after the other, and returns when all are acked or failed."""
    out = out or Recorder()
    for each in tuples:
        waits = sink.execute(each, out)
        if waits is not None:
            await waits
    await sink.flush(out)
    while sink.away:  # `flush` does not wait for a store that is away
        await asyncio.sleep(0.001)
        await sink.flush(out)
    return out


async def stored(prototype: BatchingSink, tuples: Sequence[Tuple[Any]]) -> Recorder:
    """One whole run of a sink over these tuples."""
    async with opened(prototype) as sink:
        return await feed(sink, tuples)


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Waits for a condition, not for a time."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  # conditions of files and threads set no event
            await asyncio.sleep(0.001)
