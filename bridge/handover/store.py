"""Write tuples into the segments of one hand-over task, and recall their identities from there after a restart.

Knows segments, columns, identities and the checkpoint's position; must not know the loop, collectors or acks. Every
call blocks. One thread makes all calls, except those that `SegmentIdentities` allows from another thread.

Identities are stored in the segments (C7). When a task opens, it reads those of all tasks' folders, because the number
of tasks may have changed, and keeps the identities that are dealt to it now (C4), the newest EARLIER_MAX of them.
Folders that belong to no task any more are dealt to the tasks, which clear them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from acker.identity import content_hash
from bolts.sinks.contract import BadRow, Written, stored_by_halves
from bolts.sinks.keys import WriteCounts
from bolts.sinks.values import BadValue
from bridge.arrow.schema import FORMER, OURS, Columns, columns_of
from bridge.files.consistency import begun_to_read
from bridge.files.query import QueryFolder
from bridge.files.segments import SegmentBounds, Segments, damaged, put
from bridge.handover.dedup import EARLIER_MAX, Filed, SegmentIdentities, Waited, pair_of
from bridge.handover.rows import Rows, messages_of, plain_rows
from topology.codes.settings import SPARK_HANDOVER_CLASS_CHANGED
from topology.components import Task
from topology.core.tuples import Tuple
from topology.errors import ConfigurationError, RecordError
from topology.groupings import slot_of_identity, task_of_slot
from topology.records import Record

_ID, _CONTENT = OURS
_KEY_FIELDS: Final = (
    pa.field(_ID, pa.binary(16), nullable=False),
    pa.field(_CONTENT, pa.uint64(), nullable=False),
)


class _Recalled(NamedTuple):
    """A segment that an earlier run has left. It sorts by age."""

    written_ns: int
    number: int
    log: int  # number of the task that wrote it
    segments: Segments


class _Log:
    """A folder that this task clears, and which of its segments can be removed."""

    def __init__(self, segments: Segments, kept: SegmentBounds) -> None:
        self.segments = segments
        self.kept = kept
        self.over: set[int] = set()  # segments on disk, of which no identity is remembered
        self.filed: set[int] = set()  # segments of which some identity is remembered


class HandOverStore:
    """The store of a hand-over; see `bolts.sinks.contract.Store`. `folder`: returns the input's folder, and is called
    when the store opens. `columns`: how records are stored, if not as one column per field."""

    def __init__(
        self, folder: Callable[[], Path], cls: type[Record], task: Task, columns: Columns[Any] | None = None
    ) -> None:
        self.most = EARLIER_MAX  # pairs beyond which those of earlier lives are forgotten, the oldest first
        self.remembered = SegmentIdentities(self.most)
        self.next = 0  # number of the next segment
        self.taken_at = 0  # `Decided.gathered` when the oldest input of the batch came; set before each `write`
        self._folder_of = folder
        self._cls = cls
        self._columns = columns_of(cls) if columns is None else columns
        self._schema = pa.schema([*self._columns.schema, *_KEY_FIELDS])
        self._task = task
        self._own: Segments | None = None
        self._logs: dict[int, _Log] = {}
        self._read: Mapping[str, int] = {}  # task → number of segments that Spark had read when the store opened

    # -- the Store

    def open(self) -> None:
        self.close()
        pa.array([0])  # the first array imports pandas, which takes 0.5 s: do that before records wait
        self.folder = self._folder_of()
        self.remembered = SegmentIdentities(self.most)
        self._logs = {}
        own = self._own = Segments(self.folder / str(self._task.index))
        own.open()
        self._read = begun_to_read(QueryFolder(self.folder.parent.parent), self.folder.name)
        recalled: list[_Recalled] = []
        for number in self._folders():
            segments = own if number == self._task.index else Segments(self.folder / str(number))
            recalled += self._left(number, segments)
        self._recall(recalled)
        own.goes_on()
        self._say_tasks(self.folder / "tasks", str(self._task.tasks))

    def write(self, tuples: Sequence[Tuple[Any]]) -> Written:
        written = Written(WriteCounts())
        again: dict[int, int] = {}  # place in the batch → place of the equal row before it
        rows = self._plain(tuples) or self._looked_at(tuples, written, again)
        for part in rows.segments():
            self._write(part, written)
        for place, first in again.items():
            if first in written.refused:  # the first row was not stored
                written.refused[place] = written.refused[first]
                written.tally.duplicates -= 1
            else:
                self._came_again(tuples[place])
        return written

    def close(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close()

    # -- the other calls of a hand-over, made in the same thread

    def end(self) -> None:
        """Note that everything is handed over. Raises StoreAway."""
        assert self._own is not None
        self._own.end(self.next)

    def forgotten(self, over: Iterable[Filed]) -> None:
        """Take note of segments that were forgotten, and remove those that all readers have passed. Raises StoreAway;
        the next call then tries again."""
        for filed in over:
            if (log := self._logs.get(filed.log)) is not None:
                log.filed.discard(filed.number)
                log.over.add(filed.number)
        for log in self._logs.values():
            self._clear(log)

    # -- internals

    def _plain(self, tuples: Sequence[Tuple[Any]]) -> Rows | None:
        """Return the rows if none is refused and none is known, which is nearly always so. Otherwise return None."""
        records = [tup.record for tup in tuples]
        if not {self._cls}.issuperset(map(type, records)):
            return None
        try:
            contents = self._columns.contents(records)
        except RecordError:
            return None
        rows = plain_rows(tuples, contents)
        rows.new = self._is_new(rows.pairs)
        return rows if rows.new else None

    def _is_new(self, pairs: Sequence[bytes]) -> bool:
        """Return True if no pair is known, and none occurs twice."""
        return len({*pairs}) == len(pairs) and self.remembered.contents.keys().isdisjoint(pairs)

    def _looked_at(self, tuples: Sequence[Tuple[Any]], written: Written, again: dict[int, int]) -> Rows:
        """Return the rows after a check one by one. `written` gets the rows that are refused or already stored (C9,
        B2), `again` those that occur more than once in this batch."""
        rows = Rows([], [], tuples, [], [])
        places: list[int] = []
        first: dict[tuple[bytes, int], int] = {}  # (pair, content) of a row → its place
        cls, content_of, remembered = self._cls, self._columns.content, self.remembered
        for place, tup in enumerate(tuples):
            record = tup.record
            if type(record) is not cls:
                written.refused[place] = f"received a {type(record).__name__}; only {cls.__name__} is handed over here"
                continue
            try:
                content = content_of(record)
            except RecordError as error:
                written.refused[place] = self._why(record, error)
                continue
            pair, hashed = pair_of(tup.origin, tup.identity), content_hash(content)
            if remembered.holds(pair, hashed):
                self._came_again(tup)
                written.tally.duplicates += 1
                continue
            if (same := first.setdefault((pair, hashed), place)) != place:
                again[place] = same
                written.tally.duplicates += 1
                continue
            rows.pairs.append(pair)
            rows.contents.append(hashed)
            rows.sizes.append(len(content))
            places.append(place)
        rows.tuples, rows.places = [tuples[place] for place in places], places
        return rows

    def _came_again(self, tup: Tuple[Any]) -> None:
        self.remembered.again(pair_of(tup.origin, tup.identity), messages_of(tup), self._waited())

    def _write(self, rows: Rows, written: Written) -> None:
        """Write one segment."""
        arrays, rows = self._arrays(rows, written)
        if not rows:
            return
        keys = [pa.array(rows.pairs, pa.binary(16)), pa.array(rows.contents, pa.uint64())]
        assert self._own is not None
        self._own.write(self.next, pa.RecordBatch.from_arrays([*arrays, *keys], schema=self._schema))
        filed = Filed(self._task.index, self.next, rows.pairs, rows.messages(), self._waited())
        self._logs[filed.log].filed.add(filed.number)
        self.next += 1
        written.tally.stored += len(rows)
        new = rows.new or self._is_new(rows.pairs)
        written.tally.divergent += [pair.hex() for pair in self.remembered.add(filed, rows.contents, new=new)]

    def _arrays(self, rows: Rows, written: Written) -> tuple[list[pa.Array], Rows]:
        """Return the columns of the rows that fit, and these rows."""
        records = rows.records
        try:
            return self._columns.arrays(records), rows
        except BadValue:
            bad: set[int] = set()

        def fit(part: Sequence[int]) -> WriteCounts:
            try:
                self._columns.arrays([records[number] for number in part])
            except BadValue as error:
                raise BadRow(str(error)) from error
            return WriteCounts()

        def refuse(number: int, why: str) -> None:
            bad.add(number)
            written.refused[rows.places[number]] = why

        stored_by_halves(range(len(rows)), fit, refuse)
        good = rows.without(bad)
        return self._columns.arrays(good.records), good

    def _why(self, record: Record, error: RecordError) -> str:
        try:
            self._columns.arrays([record])
        except (BadValue, RecordError) as better:
            return str(better)
        return str(error)

    def _say_tasks(self, path: Path, tasks: str) -> None:
        """Note the current number of tasks for readers. Only the first task does that."""
        if self._task.index == 0 and (not path.exists() or path.read_bytes() != tasks.encode()):
            put(path, tasks.encode())

    def _folders(self) -> list[int]:
        return sorted(int(entry) for entry in os.listdir(self.folder) if entry.isdecimal())

    def _left(self, number: int, segments: Segments) -> Iterator[_Recalled]:
        """Yield the segments of one task's folder whose identities may be needed. Raises ConfigurationError."""
        task, kept = self._task, segments.kept()
        is_mine = number == task.index or (number >= task.tasks and number % task.tasks == task.index)
        if is_mine:
            numbers, after = segments.checked_numbers(kept)
            if self._read.get(str(number), 0) > after:  # Spark would never read a segment that we wrote there
                raise damaged(segments.path(after), "is missing, but the checkpoint has read it or is about to")
            self._logs[number] = _Log(segments, kept)
            self._check_class(segments, numbers)
            if number == task.index:
                self.next = after
        else:
            numbers = segments.numbers()
        for segment in numbers:
            if segment < kept.over:
                if is_mine:
                    self._logs[number].over.add(segment)
                continue
            try:
                yield _Recalled(segments.path(segment).stat().st_mtime_ns, segment, number, segments)
            except FileNotFoundError:
                continue  # another task that already runs has removed this finished segment

    def _recall(self, recalled: list[_Recalled]) -> None:
        """Read the identities of these segments, of the newest ones first. Beyond the bound they are left out."""
        found: list[tuple[Filed, Sequence[int]]] = []
        remembered = 0
        for segment in sorted(recalled, reverse=True):
            log = self._logs.get(segment.log)  # None: another task clears it
            if (full := remembered >= self.most) and log is None:
                continue
            try:
                batch = segment.segments.read(segment.number)
            except FileNotFoundError:
                continue  # as in `_left`
            if full and log is not None:
                self.remembered.squeezed += batch.num_rows
                log.over.add(segment.number)
                continue
            pairs, hashes = self._dealt(batch, everything=log is not None)
            if pairs:
                now = self._task.frontier.gathered
                filed = Filed(-1 if log is None else segment.log, segment.number, pairs, None, Waited(now, now))
                found.append((filed, hashes))
                remembered += len(pairs)
            if log is not None:
                log.filed.add(segment.number)
        for filed, contents in reversed(found):
            self.remembered.add(filed, contents)

    def _dealt(self, batch: pa.RecordBatch, *, everything: bool) -> tuple[list[bytes], list[int]]:
        """Return the pairs and contents of the rows of a segment that are dealt to this task."""
        pairs, contents = (batch.column(name).to_pylist() for name in OURS)
        if everything:
            return pairs, contents
        task = self._task
        mine = [task_of_slot(slot_of_identity(int.from_bytes(pair[8:])), task.tasks) == task.index for pair in pairs]
        return [*compress(pairs, mine)], [*compress(contents, mine)]

    def _waited(self) -> Waited:
        return Waited(self.taken_at, self._task.frontier.gathered)

    def _check_class(self, segments: Segments, numbers: Sequence[int]) -> None:
        """Raises ConfigurationError if unread segments hold another version of the class."""
        unread = [number for number in numbers if number >= segments.done()]
        if unread and (there := _without_former(segments.read(unread[0]).schema)) != self._schema:
            text = f"{segments.path(unread[0])} holds another version of {self._cls.__name__}: {_changes(there, self)}"
            raise ConfigurationError(text, code=SPARK_HANDOVER_CLASS_CHANGED)

    def _clear(self, log: _Log) -> None:
        done = log.segments.done()
        gone = {number for number in log.over if number < done}
        mine = log.segments is self._own
        over = min(log.filed, default=self.next if mine else max(log.over, default=-1) + 1)
        if not gone and over <= log.kept.over:
            return
        kept = SegmentBounds(max(over, log.kept.over), max([log.kept.read, *(number + 1 for number in gone)]))
        log.segments.keep(kept)
        log.kept = kept
        log.segments.remove(sorted(gone))
        log.over -= gone


def _without_former(schema: pa.Schema) -> pa.Schema:
    """Return the schema without columns that only earlier versions wrote."""
    return pa.schema([field for field in schema if field.name not in FORMER])


def _changes(there: pa.Schema, store: HandOverStore) -> str:
    before = {field.name: field for field in there}
    now = {field.name: field for field in store._schema}
    parts = [f"{name!r} is new" for name in now if name not in before]
    parts += [f"{name!r} is gone" for name in before if name not in now]
    parts += [
        f"{name!r} was {before[name].type} and is now {now[name].type}"
        for name in now
        if name in before and before[name] != now[name]
    ]
    return ", ".join(parts) or "its fields are in another order"
