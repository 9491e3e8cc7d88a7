"""`SparkResults`: the results of a Spark query, as a spout. Knows the files that the driver writes; must not know
Spark.

A message is one row of a batch's file. The driver writes a batch's file once, so a row keeps its id. A sink recognises
a result that is emitted again by that id.
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

ROW_BITS: Final = 32  # low bits of a message's id; the bits above hold the batch's number
LOOK_S: Final = 0.01  # seconds between two checks for a new batch


@dataclass
class Batch(Generic[R]):
    """A batch whose rows are being emitted. `open`: the number of rows that no decided checkpoint has."""

    number: int
    records: list[R]
    next: int
    open: int


class SparkResults(Spout, Generic[R]):
    """The results of a query, in the order of its batches. `spark_query` declares one for each query.

    A result's id is its batch and its row. The results have a name that is drawn when the query starts. With another
    state directory, or with --fresh, all results are therefore new, and a sink that appends stores them again. If that
    matters, use a sink that updates by a key. The file of a batch is removed when a decided checkpoint has all of its
    rows as done, except the newest file.
    """

    ends_last = True

    def __init__(self, cls: type[R], query: str, inputs: Sequence[str]) -> None:
        """Raises ConfigurationError for a class that has no columns."""
        columns_of(cls)
        self.cls = cls
        self.query = query
        self.inputs = tuple(inputs)

    def emits(self) -> tuple[type[Record], ...]:
        """Return the one class."""
        return (self.cls,)

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Resume at the position, which is the first result that is not done, or the last one that is. Raises
        ConfigurationError if the results of an earlier run are missing."""
        alone(task, "reads the results of one query")
        self._folder = QueryFolder(query_folder(task.folder, self.query))
        self._streams = {name: StreamInput(self._folder.input(name)) for name in self.inputs}
        started = Started(task.notes, self.query)
        started.check("results", self._folder.named)
        name = self._folder.name(secrets.token_hex(8))
        started.note("results")
        self._epochs: Mapping[str, str] = {"": name}
        at = positions if isinstance(positions, Positions) else Positions(positions)
        position = at.of("", name) or 0
        if type(position) is not int or position < 0:
            raise no_position(position, "a position in a query's results is a number")
        self._next_batch, self._first_row = position >> ROW_BITS, position & (1 << ROW_BITS) - 1
        self._given: Batch[R] | None = None
        self._open: dict[int, Batch[R]] = {}
        self._drop(number for number in self._folder.batches() if number < self._next_batch)

    async def poll(self, limit: int) -> list[Message[R]]:
        """Return the next results, up to `limit`. Return an empty list once the query has processed the last segment
        that was handed over. Raises ConfigurationError if a file of results is unreadable."""
        while True:
            if self._given is not None:
                return self._rows(self._given, limit)
            complete = self._complete()
            numbers = [number for number in self._folder.batches() if number >= self._next_batch]
            if numbers:
                records = await asyncio.to_thread(self._read, numbers[0])
                self._give(numbers[0], records)
            elif complete:
                return []
            else:
                await asyncio.sleep(LOOK_S)

    def partitions(self) -> Mapping[str, str]:
        """Return one partition, whose epoch is the name of these results."""
        return self._epochs

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        """Count the rows as done. Removes a batch's file with its last row, once there is a newer file. A row that is
        done and in no decided checkpoint may be asked for again, so its file stays (P11); a dead letter does not need
        it."""
        for id in ids:
            assert isinstance(id, int)
            batch = self._open.get(id >> ROW_BITS)
            if batch is not None:
                batch.open -= 1
        self._drop(number for number in [*self._open] if not self._open[number].open)

    def _complete(self) -> bool:
        """Return True if the query has ended. Call this before looking for files: a file that arrives in between is
        then not missed."""
        ends: Ends | None = self._folder.ended()
        return ends is not None and all(stream.is_at(ends.get(name, {})) for name, stream in self._streams.items())

    def _read(self, number: int) -> list[R]:
        path, advice = self._folder.batch(number), ""
        try:
            return from_table(self.cls, self._folder.read(number))
        except Changed as error:
            why = f"{path} {error}"
        except (pa.ArrowException, OSError) as error:
            why = f"{path}: {error}"
        except (RecordError, OverflowError) as error:  # not visible in the schema: values of enums, years
            why = f"{path}: {error}"
            advice = f"change the query so that each row fits {self.cls.__name__}; then {FRESH}"
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
            batch.records = []  # only the count of its open rows is needed now
        return messages

    def _drop(self, numbers: Iterable[int]) -> None:
        """Remove the files of batches that are done, except the newest: it shows the driver what it has written."""
        newest = max(self._folder.batches(), default=-1)
        for number in [*numbers]:
            if number < newest:
                self._folder.batch(number).unlink(missing_ok=True)
                self._open.pop(number, None)


def query_folder(folder: Path, query: str) -> Path:
    """Return the folder of a query's files, within the run's folder for files."""
    return folder / "spark" / query
