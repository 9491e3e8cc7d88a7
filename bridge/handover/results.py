"""`SparkResults`: what a Spark query gives, as a source. Knows the files that the driver writes, and no Spark.

A message is a row of a batch's file. The file of a batch is written once, so a row has its id for good, and a result
that is given again is known for the same.
"""

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic

import pyarrow as pa

from acker.identity import MessageId
from bridge.arrow.schema import columns_of, from_table
from bridge.files.input import StreamInput
from bridge.files.query import Ends, QueryFolder
from bridge.files.segments import Changed
from bridge.files.started import Started
from spouts.checks import alone, no_position
from topology.codes.code import FRESH
from topology.codes.settings import UNREADABLE_SPARK_RESULTS
from topology.components import Message, Positions, R, Spout, Task
from topology.errors import ConfigurationError, RecordError
from topology.records import Record

ROW_BITS: Final = 32  # of an id, below the number of the batch
LOOK_S: Final = 0.01  # between two looks for a new batch


@dataclass
class Batch(Generic[R]):
    """One that is being given. `open`: rows that are not done."""

    number: int
    records: list[R]
    next: int
    open: int


class SparkResults(Spout, Generic[R]):
    """The results of a query, in the order of its batches. `spark_query` declares one for each query.

    A result's id is its batch and its row, within results that have a name drawn when they begin: with another state
    directory, or with --fresh, all results are new ones, and a sink that appends stores them again; where that matters,
    let it update by a key. A batch's file goes when all of its rows are done, but the newest one stays.
    """

    ends_last = True

    def __init__(self, cls: type[R], query: str, inputs: Sequence[str]) -> None:
        """Raises ConfigurationError for a class that no columns can be."""
        columns_of(cls)
        self.cls = cls
        self.query = query
        self.inputs = tuple(inputs)

    def emits(self) -> tuple[type[Record], ...]:
        """The one class."""
        return (self.cls,)

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Goes on at the position: the first result that is not done, or the last that is. Raises ConfigurationError
        where the results of an earlier run are gone."""
        alone(task, "reads the results of one query")
        self._folder = QueryFolder(query_folder(task.folder, self.query))
        self._streams = {name: StreamInput(self._folder.input(name)) for name in self.inputs}
        begun = Started(task.notes, self.query)
        begun.check("results", self._folder.named)
        name = self._folder.name(secrets.token_hex(8))
        begun.note("results")
        self._epochs: Mapping[str, str] = {"": name}
        at = positions if isinstance(positions, Positions) else Positions(positions)
        position = at.of("", name) or 0
        if type(position) is not int or position < 0:
            raise no_position(position, "a position in a query's results is a number")
        self._next_batch, self._first_row = position >> ROW_BITS, position & (1 << ROW_BITS) - 1
        self._given: Batch[R] | None = None
        self._open: dict[int, Batch[R]] = {}
        self._drop(one for one in self._folder.batches() if one < self._next_batch)

    async def poll(self, limit: int) -> list[Message[R]]:
        """The next results, up to `limit`; an empty list once the query is complete, up to the last segment that was
        handed over. Raises ConfigurationError where a file of results can't be read."""
        while True:
            if self._given is not None:
                return self._rows(self._given, limit)
            complete = self._complete()
            numbers = [one for one in self._folder.batches() if one >= self._next_batch]
            if numbers:
                records = await asyncio.to_thread(self._read, numbers[0])
                self._give(numbers[0], records)
            elif complete:
                return []
            else:
                await asyncio.sleep(LOOK_S)

    def partitions(self) -> Mapping[str, str]:
        """One; its epoch is the name of these results."""
        return self._epochs

    def ack(self, id: MessageId) -> None:
        """Counts the row; the file goes with its last one, once there is a newer one."""
        assert isinstance(id, int)
        batch = self._open.get(id >> ROW_BITS)
        if batch is not None:
            batch.open -= 1
            if not batch.open:
                self._drop(one for one in [*self._open] if not self._open[one].open)

    def fail(self, id: MessageId) -> None:
        """A dead message is kept as a letter: the file is not needed for it."""
        self.ack(id)

    def _complete(self) -> bool:
        """Asked before looking for files, so that none comes between."""
        ends: Ends | None = self._folder.ended()
        return ends is not None and all(one.is_at(ends.get(name, {})) for name, one in self._streams.items())

    def _read(self, number: int) -> list[R]:
        path, advice = self._folder.batch(number), ""
        try:
            return from_table(self.cls, self._folder.read(number))
        except Changed as error:
            why = f"{path} {error}"
        except (pa.ArrowException, OSError) as error:
            why = f"{path}: {error}"
        except (RecordError, OverflowError) as error:  # what the schema does not say: values of enums, years
            why = f"{path}: {error}"
            advice = f"have the query give what a {self.cls.__name__} can be; then {FRESH}"
        raise ConfigurationError(
            f"results of query {self.query!r} can't be read: {why}", code=UNREADABLE_SPARK_RESULTS, next=advice
        )

    def _give(self, number: int, records: list[R]) -> None:
        row = self._first_row if number == self._next_batch else 0
        self._next_batch, self._first_row = number + 1, 0
        self._given = self._open[number] = Batch(number, records, row, len(records) - row)

    def _rows(self, batch: Batch[R], limit: int) -> list[Message[R]]:
        rows = range(batch.next, len(batch.records))[:limit]
        batch.next += len(rows)
        messages = [Message(batch.records[row], batch.number << ROW_BITS | row) for row in rows]
        if batch.next == len(batch.records):
            self._given = None
            batch.records = []  # from here on only its rows are counted
        return messages

    def _drop(self, numbers: Iterable[int]) -> None:
        """Removes files of batches that are done, but never the newest: the driver knows by it what it has written."""
        newest = max(self._folder.batches(), default=-1)
        for number in [*numbers]:
            if number < newest:
                self._folder.batch(number).unlink(missing_ok=True)
                self._open.pop(number, None)


def query_folder(folder: Path, query: str) -> Path:
    """Where a query's files are, in the run's folder for files."""
    return folder / "spark" / query
