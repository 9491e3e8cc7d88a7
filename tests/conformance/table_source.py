"""A source of a user's for the suite of sources: the rows of an SQLite table, which go once they are settled. Its
subject can take the table away. Other processes make it, too."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from acker.identity import MessageId
from topology import Malformed, Message, NotYet, Record, Spout, Task
from topology.testing.sources import SourceItem, SourceSubject

LOOK_S = 0.005


class TableSource(Spout):
    """Rows in the order of their numbers. With n tasks, task i has each n-th row."""

    shared_ids = True

    def __init__(self, path: str) -> None:
        self.path = path
        self.away = ""
        self.given = 0

    def emits(self) -> tuple[type[Record], ...]:
        return (SourceItem, Malformed)

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        if not os.path.exists(self.path):
            raise NotYet(f"TableSource: {self.path} is not there")
        self.task = task
        self.given = 0

    async def poll(self, limit: int) -> list[Message[Any]]:
        while not (rows := self.rows(limit)):  # noqa: ASYNC110  # a table sets no event
            await asyncio.sleep(LOOK_S)
        self.given = rows[-1][0]
        return [self.message(*row) for row in rows]

    def rows(self, limit: int) -> list[tuple[int, bytes]]:
        query = "SELECT number, payload FROM items WHERE number > ? AND number % ? = ? ORDER BY number LIMIT ?"
        try:
            with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as database:
                found = database.execute(query, (self.given, self.task.tasks, self.task.index, limit)).fetchall()
            self.away = ""
        except sqlite3.Error as error:
            self.away = f"{self.path} can't be read: {error}"
            return []
        return found

    def message(self, number: int, payload: bytes) -> Message[Any]:
        try:
            found = msgspec.json.decode(payload, type=dict[str, Any])
            return Message(SourceItem(msgspec.convert(found["number"], int), found["text"]), number)
        except (msgspec.MsgspecError, KeyError) as error:
            return Message(Malformed(payload, str(error)), number)

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        try:
            with closing(sqlite3.connect(f"file:{self.path}?mode=rw", uri=True)) as database, database:
                database.executemany("DELETE FROM items WHERE number = ?", [(one,) for one in ids])
        except sqlite3.Error:
            return


class TableSubject(SourceSubject):
    tasks = 2

    def __init__(self, path: str, source: str = "TableSource") -> None:
        self.path = Path(path)
        self.source = source
        if not self.path.exists():
            with closing(sqlite3.connect(self.path)) as database, database:
                database.execute("CREATE TABLE items (number INTEGER PRIMARY KEY AUTOINCREMENT, payload BLOB)")

    def make(self) -> Spout:
        import test_source_suite

        kind = getattr(test_source_suite, self.source, TableSource)
        made: Spout = kind(str(self.path))
        return made

    def _put(self, payloads: Sequence[bytes]) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.executemany("INSERT INTO items (payload) VALUES (?)", [(one,) for one in payloads])

    def put(self, numbers: Sequence[int]) -> None:
        self._put([self.payload(number) for number in numbers])

    def put_bad(self) -> bytes:
        self._put([b'{"number": "one", "text": ""}'])
        return b'{"number": "one", "text": ""}'

    @contextmanager
    def away(self) -> Iterator[None]:
        aside = self.path.rename(self.path.with_name("aside"))
        yield
        aside.rename(self.path)

    def missing(self) -> Spout:
        made = self.make()
        vars(made)["path"] = str(self.path.with_name("missing"))
        return made

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "table_source:TableSubject", [str(self.path), self.source]
