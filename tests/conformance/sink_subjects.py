"""The subjects of the conformance suite of sinks: each of our sinks over one file. Other processes make them, too."""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from bolts import JsonLinesSink, SqliteSink
from bolts.sinks.batching import BatchingSink
from bolts.sinks.contract import SinkStore, StoreAway, Written
from topology.core.tuples import Tuple
from topology.testing.sinks import SinkSubject

FEW = {"batch": 50, "within_ms": 2.0}


class Loses:
    """Whether answers of stores are lost now; shared by all copies."""

    now = False

    def __deepcopy__(self, memo: Any) -> "Loses":
        return self


class LosingStore:
    """A real store behind a connection that is cut once, after the commit and before its answer (C10)."""

    def __init__(self, store: SinkStore, loses: Loses) -> None:
        self._store, self._loses = store, loses
        self.open, self.close = store.open, store.close

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        written = self._store.write(tuples)
        if self._loses.now:
            self._loses.now = False
            raise StoreAway("the connection was lost during COMMIT")
        return written


class LosesAnswers(BatchingSink):
    """Mixed into a sink."""

    loses: Loses

    def _make_store(self) -> SinkStore:
        return LosingStore(super()._make_store(), self.loses)  # type: ignore[safe-super]  # that of the sink beside it


class LosingSqliteSink(LosesAnswers, SqliteSink):
    pass


class LosingJsonLinesSink(LosesAnswers, JsonLinesSink):
    pass


class FileSubject(SinkSubject):
    function = ""

    def __init__(self, path: str, mode: Literal["append", "upsert"] = "append") -> None:
        self.path, self.mode = Path(path), mode
        self.loses = Loses()

    @contextmanager
    def lost_answer(self) -> Iterator[None]:
        self.loses.now = True
        yield
        assert not self.loses.now, "an answer was lost"

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return f"sink_subjects:{type(self).__name__}", [os.fspath(self.path), self.mode]


class SqliteSubject(FileSubject):
    def make(self) -> BatchingSink:
        by_key: dict[str, Any] = {"mode": "upsert", "key": ("number",), "revision": "revision"}
        sink = LosingSqliteSink(self.path, **(by_key if self.mode == "upsert" else {}), **FEW)
        sink.loses = self.loses
        return sink

    def rows(self) -> list[tuple[int, int]]:
        with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sink_item'").fetchone():
                return []
            return connection.execute("SELECT number, revision FROM sink_item ORDER BY rowid").fetchall()

    @contextmanager
    def away(self) -> Iterator[None]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("COMMIT")


class JsonLinesSubject(FileSubject):
    def make(self) -> BatchingSink:
        sink = LosingJsonLinesSink(self.path, **FEW)
        sink.loses = self.loses
        return sink

    def rows(self) -> list[tuple[int, int]]:
        lines = map(json.loads, self.path.read_bytes().splitlines())
        return [(line["number"], line["revision"]) for line in lines]

    @contextmanager
    def away(self) -> Iterator[None]:
        aside = self.path.rename(self.path.with_name("aside"))
        yield
        aside.rename(self.path)
