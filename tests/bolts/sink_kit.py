"""What the sinks' tests share: a collector that keeps what it is told, tuples, a task, and both sinks behind one face.

Must not reach into a sink: it looks at acks, fails and the file, as a run and a reader do.
"""

import asyncio
import errno
import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Literal

import pytest

from bolts import JsonLinesSink, SqliteSink
from bolts.sinks import key_runs
from bolts.sinks.batching import BatchingSink
from bolts.sinks.keys import sink_keys
from topology.components import Task
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.records import Record
from topology.testing.sinks import driver
from topology.testing.sinks.driver import Answers, fed, sink_task

SOURCE = Source("detect", "Alert")
COMPONENT = "store"  # what the sinks here are called


class Alert(Record):
    """What most tests store."""

    source_ip: str
    failures: int
    at: datetime | None = None


class Sample(Record):
    name: str
    value: float


class Verdict(Enum):
    GUILTY = "guilty"


class Level(IntEnum):
    HIGH = 3


class Everything(Record):
    """A field of every kind."""

    text: str
    number: int
    real: float
    yes: bool
    data: bytes
    at: datetime
    money: Decimal
    verdict: Verdict
    level: Level
    mode: Literal["a", "b"]
    maybe: int | None
    parts: tuple[int, ...]
    names: frozenset[str]
    nested: Sample


class Recorder(Answers):
    """A collector that keeps why each tuple failed, by its id."""

    def __init__(self, on_ack: Callable[[Tuple[Any]], None] | None = None) -> None:
        super().__init__(on_ack)
        self.failed: dict[int, str] = {}

    def fail(self, tup: Tuple[Any], reason: str) -> None:
        super().fail(tup, reason)
        self.failed[id(tup)] = reason

    def give_up(self, tup: Tuple[Any]) -> None:
        """As the runtime does with a tuple held for too long: the sink is told when it acks it."""
        self._finish(tup)

    def is_acked(self, tup: Tuple[Any]) -> bool:
        return any(acked is tup for acked in self.acked)


def task(tasks: int = 1) -> Task:
    return sink_task(tasks, component=COMPONENT)


def sink_key(origin: int, identity: int, content: bytes) -> bytes:
    """The key of one output with this content."""
    (key,) = sink_keys([Tuple(Alert("192.0.2.1", 1), origin, identity, 1, (), SOURCE)], [content])
    return key


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


def opened(prototype: BatchingSink) -> AbstractAsyncContextManager[Any]:
    """A task's own copy of the sink, opened, and closed at the end, as a run does it."""
    return driver.opened(prototype, component=COMPONENT)


async def feed(sink: BatchingSink, tuples: Iterable[Tuple[Any]], out: Recorder | None = None) -> Recorder:
    """Gives the tuples to the sink one after the other, and returns when all are acked or failed."""
    out = out or Recorder()
    await fed(sink, tuples, out)
    return out


async def stored(prototype: BatchingSink, tuples: Sequence[Tuple[Any]]) -> Recorder:
    """One whole run of a sink over these tuples."""
    async with opened(prototype) as sink:
        return await feed(sink, tuples)


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Waits for a condition, not for a time."""
    async with asyncio.timeout(within_s):
        await driver.until(condition)


def key_runs_without_room_twice(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Let the runs of known keys find a full disk twice, and room from then on. Returns the folder of each try."""
    made, folders = key_runs._made_in, list[Path]()

    def no_room(folder: Path) -> object:
        folders.append(folder)
        if len(folders) <= 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return made(folder)

    monkeypatch.setattr(key_runs, "_made_in", no_room)
    return folders
