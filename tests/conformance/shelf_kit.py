"""A store in memory behind a sink that keeps the contract, in both modes, for tests that break it in one way each."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Never

from bolts.sinks.batching import BatchingSink
from bolts.sinks.contract import SinkStore, StoreAway, Written
from bolts.sinks.keys import WriteCounts
from bolts.sinks.values import BadValue, plain
from topology.components import Collector
from topology.core.tuples import Tuple
from topology.testing.sinks import SinkSubject
from topology.testing.sinks.driver import SinkItem

convert = plain(SinkItem)


class Shelf:
    """What lasts: the rows, their keys, and how the store is at the moment. One for all copies of a subject's sinks."""

    def __init__(self) -> None:
        self.rows: dict[Any, tuple[int, int]] = {}
        self.contents: dict[int, str] = {}  # by number, in upsert mode
        self.is_away = self.loses = False
        self.lock = threading.Lock()
        self.writes = 0

    def __deepcopy__(self, memo: Any) -> "Shelf":
        return self


class ShelfStore:
    """Keeps the contract, in memory; subclasses each break it in one way."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    def open(self) -> None:
        """Nothing to take."""

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        shelf, written = self.shelf, Written(WriteCounts())
        if shelf.is_away:
            raise StoreAway("nobody is at the shelf")
        shelf.writes += 1
        contents: dict[int, str] = {}  # by place, of what can be stored
        for place, tup in enumerate(tuples):
            try:
                contents[place] = str(convert(tup.record))
            except BadValue as error:
                self.refuse(written, place, str(error))
        with shelf.lock:
            self.store([(tuples[place], content) for place, content in contents.items()], written.tally)
        if shelf.loses:
            shelf.loses = False
            raise StoreAway("the answer was lost")
        return written

    def store(self, rows: Sequence[tuple[Tuple[Any], str]], tally: WriteCounts) -> None:
        made: dict[Any, tuple[int, int]] = {}
        for tup, content in rows:
            key = self.key(tup, content)
            if self.knows(key) or key in made:
                tally.duplicates += 1
                continue
            if any(known[:2] == key[:2] for known in (*self.shelf.rows, *made)):
                tally.divergent.append(str(key))
            made[key] = tup.record.number, tup.record.revision
            tally.stored += 1
        self.commit(made)

    def refuse(self, written: Written, place: int, why: str) -> None:
        written.refused[place] = why

    def key(self, tup: Tuple[Any], content: str) -> tuple[Any, ...]:
        return tup.origin, tup.identity, content

    def knows(self, key: Any) -> bool:
        return key in self.shelf.rows

    def commit(self, made: dict[Any, tuple[int, int]]) -> None:
        self.shelf.rows.update(made)

    def close(self) -> None:
        """Nothing to give back."""


class UpsertStore(ShelfStore):
    """Keeps the contract in upsert mode."""

    def store(self, rows: Sequence[tuple[Tuple[Any], str]], tally: WriteCounts) -> None:
        for tup, content in rows:
            number, revision = tup.record.number, tup.record.revision
            known, there = self.shelf.rows.get(number, (0, 0)), self.shelf.contents.get(number)
            if known[1] == revision and there != content:
                tally.divergent.append(str(number))
            if self.replaces(revision, known[1], there != content):
                self.shelf.rows[number], self.shelf.contents[number] = (number, revision), content
                tally.stored += 1
            else:
                tally.duplicates += 1

    def replaces(self, revision: int, known: int, other: bool) -> bool:
        return revision > known


class ShelfSink(BatchingSink):
    dedup = "shared"

    def __init__(self, shelf: Shelf, kind: type[ShelfStore] = ShelfStore) -> None:
        super().__init__(batch=50, within_ms=1)
        self.shelf, self.kind = shelf, kind

    def _make_store(self) -> SinkStore:
        return self.kind(self.shelf)


class ShelfSubject(SinkSubject):
    tasks = 2

    def __init__(self, sink: type[ShelfSink] = ShelfSink, kind: type[ShelfStore] = ShelfStore) -> None:
        self.shelf, self.sink, self.kind = Shelf(), sink, kind
        self.mode = "upsert" if issubclass(kind, UpsertStore) else "append"

    def make(self) -> BatchingSink:
        return self.sink(self.shelf, self.kind)

    def rows(self) -> list[tuple[int, int]]:
        return list(self.shelf.rows.values())

    @contextmanager
    def away(self) -> Iterator[None]:
        self.shelf.is_away = True
        yield
        self.shelf.is_away = False

    @contextmanager
    def lost_answer(self) -> Iterator[None]:
        self.shelf.loses = True
        yield

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "shelf_kit:forgetful", []


class AcksAndForgets(ShelfSink):
    def execute(self, tup: Tuple[Any], out: Collector[Never]) -> None:
        out.ack(tup)


def forgetful() -> ShelfSubject:
    """Made in another process: what it stores is gone with that."""
    return ShelfSubject(AcksAndForgets)


def stuck(pid: str) -> Never:
    """In another process: says something that is no number, and stays."""
    Path(pid).write_text(str(os.getpid()))
    print("no number", flush=True)
    time.sleep(600)
    raise AssertionError("nobody has ended it")
