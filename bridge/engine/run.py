"""The one query of a topology on Spark, in its driver: batches to sinks, due timers back into the query, and the end of
a bounded run.

The order of what is durable: rows of sinks in Spark's processes, rows of sinks here, then rejections, counts and
timers, then Spark's commit of the batch. A batch that Spark repeats has the same rows with the same identities, so each
of these recognises the repeat. All runs on a state directory share the checkpoint, because the bolts' state is in it.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow.compute import sort_indices  # pyright: ignore[reportAttributeAccessIssue]  # made at run time
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bridge.arrow.schema import to_table
from bridge.engine.counts_and_timers import FILE, CountsAndTimers
from bridge.engine.handover import SUMMARY, keep_summary
from bridge.engine.mapping import Mapped
from bridge.engine.offsets import checkpoint, missing, newest, offsets, reached
from bridge.engine.python_process import Process, PythonProcess, sweep
from bridge.engine.query import ROWS_AT_ONCE, CountsParam, chained, storing
from bridge.engine.rows import (
    DDL,
    REJECTED,
    TIMERS,
    WIDE,
    DueNow,
    EngineRow,
    KeyTimers,
    Rejected,
    rejected_of,
    rows_of,
    timers_of,
)
from bridge.engine.sinks import Sinks, counts_itself, summary_of_all, with_counts
from bridge.engine.source import FORMAT, EngineSource
from bridge.engine.timers_source import TIMERS_INPUT, TimersInput
from bridge.engine.user_errors import ComponentRaised, error_lines
from bridge.errors import UserError
from bridge.files.input import StreamInput
from bridge.files.query import Ends, Epoch, QueryFolder, place
from bridge.queries.options import AVAILABLE_NOW, DEFAULT
from topology.codes.code import FRESH
from topology.components import Task
from topology.runtime.state.value import due_of as micros_of


class EndWait:
    """Detects the end of these inputs while no query reads them."""

    def __init__(self, streams: Iterable[StreamInput]) -> None:
        """Does no I/O."""
        self._seen: list[tuple[StreamInput, dict[str, int]]] = [(stream, {}) for stream in streams]

    def over(self) -> bool:
        """Return True if each task has said that it ends where its segments do. A call costs as much as has come since
        the call before: numbers have no gaps, and a segment that was seen stays until it is read."""
        return all(self._is_over(stream, seen) for stream, seen in self._seen)

    def _is_over(self, stream: StreamInput, seen: dict[str, int]) -> bool:
        below = {task: seen.get(task) or stream.of(task).done() for task in stream.tasks()}
        seen |= stream.reached(below)
        return stream.ended(seen)


LOOKS_S: Final = 0.1  # seconds between two checks of the query and of due timers
STATUS_S: Final = 5.0  # seconds between two reports of progress
PLAN: Final = "plan"  # file in the query's folder: the fingerprint of the checkpoint's topology
NONE: Final = -1  # stands for no epoch


@dataclass(frozen=True)
class Settings:
    """The query's settings from `kedge run`. `trigger`: as in `bridge.queries.options`; `partitions`: the number of
    partitions of rows that are grouped by keys; `run`: the run's name, which is the same in all lives of the driver."""

    trigger: str = DEFAULT
    partitions: int = 2
    run: str = ""


def input_name(mapped: Mapped, number: int) -> str:
    """Return the folder name of a spout's stream."""
    spout, cls = mapped.streams[number]
    return f"{mapped.plan.components[spout].known_as}.{cls.__name__}"


class EngineRunning:
    """The query in one life of the driver. `run` raises everything that keeps it from continuing. `python_process.life`
    differs in each life of the driver."""

    def __init__(
        self, session: SparkSession, python_process: PythonProcess, settings: Settings, say: Callable[[str], None]
    ) -> None:
        self.folder = QueryFolder(python_process.query)
        self._session, self._python_process, self._settings, self._say = session, python_process, settings, say
        self._process = Process(python_process)
        self.mapped = self._process.mapped
        self.inputs = [input_name(self.mapped, number) for number in range(len(self.mapped.streams))]
        self.streams = {name: StreamInput(self.folder.input(name)) for name in self.inputs}
        components = self.mapped.plan.components
        here = [name for name in self.mapped.sinks if name not in self.mapped.shared]
        self._sinks = self._sinks_of((name, task) for name in here for task in range(components[name].tasks))
        self._book = CountsAndTimers(python_process.query / FILE)
        self._timers = TimersInput(self.folder.input(TIMERS_INPUT)) if self.mapped.timed else None
        self._at_end_fire = [name for name in self.mapped.timed if components[name].prototype.fires_at_end]
        self._counts = session.sparkContext.accumulator({}, CountsParam())
        self._storing = storing(python_process, self._counts) if self.mapped.shared else None
        self._counted: dict[tuple[str, str], int] = {}
        self._epoch = Epoch()
        self._query: StreamingQuery | None = None
        self._open = False  # True if sinks are open, and the query runs or waits to
        self._at_end: Ends | None = None
        self._fired_all = False  # True if timers that become due from now on are for the next run
        self._waiting = EndWait(())
        self._trouble: BaseException | None = None
        self._said_done: Ends = {}
        self._last_report: tuple[str, list[str], float] = ("", [], 0.0)

    # -- lifecycle

    def begin(self) -> None:
        """Start the query, if it has anything to do. Raises UserError."""
        self._session.dataSource.register(EngineSource)
        for folder in (self._python_process.query, self._python_process.notes, self._python_process.away):
            sweep(folder)
        self._check_plan()
        self._python_process.raised.sweep()
        if problem := missing(self.folder, self.inputs, self._book, timed=self._timers is not None):
            raise UserError(f"the topology cannot resume: {problem}")
        epoch = self.folder.epoch()
        if epoch is None:
            epoch = Epoch()
            self.folder.begin(epoch)
        self._epoch = epoch
        closed = NONE if self.folder.closing() is None else epoch.number
        first = self._book.begin(self._settings.run, closed)
        self._fired_all = closed not in (NONE, first)  # then an earlier life of this run has fired them
        ends = self.folder.ended()
        if ends is None:
            self._start()
        else:
            self._say_done(ends)

    def run(self) -> None:
        """Check the query forever. Never returns; raises what ends the driver."""
        while True:
            self.look()
            time.sleep(LOOKS_S)

    def look(self) -> None:
        """Check the query once. Blocks while the query ends."""
        if not self._open:
            ends = self.folder.ended() or {}
            if self._due() or any(stream.goes_on(ends.get(name, {})) for name, stream in self.streams.items()):
                self._epoch = Epoch(self._epoch.number + 1, begin=ends)
                self.folder.begin(self._epoch)
                self._fired_all = False
                self._start()
            return
        if self._query is None:
            if self._waiting.over():
                self._start_query()
            return
        if self._at_end is not None:
            self._finish(self._query, self._at_end)
        elif not self._query.isActive:
            self._stopped(self._query)
        else:
            if self.folder.closing() is None:  # otherwise the timers are for the next run
                self._fire(self._due())
            self._tell()

    def close(self) -> None:
        """Stop the query, and release what this process holds. Files stay as they are."""
        if self._query is not None:
            self._query.stop()
        self._sinks.close()
        self._sinks.end()
        self._process.close()
        self._book.close()
        if self._timers is not None:
            self._timers.close()

    def _check_plan(self) -> None:
        path, now = self.folder.folder / PLAN, self.mapped.plan.fingerprint
        if path.exists() and path.read_text() != now:
            raise UserError(
                "the topology's components, streams, groupings or numbers of tasks differ from those of Spark's "
                f"checkpoint; restore the topology as it was; or {FRESH}"
            )
        place(path, now.encode())

    def _start(self) -> None:
        (self.folder.folder / SUMMARY).unlink(missing_ok=True)  # of an earlier end, perhaps in this run
        self._sinks.open()
        self._try_shared()
        self._open, self._waiting = True, EndWait(self.streams.values())
        if self._timers is not None:
            self._timers.begin(newest(self.folder).get(TIMERS_INPUT, {}).get("0", 0))
        if self._settings.trigger != AVAILABLE_NOW:
            self._start_query()

    def _try_shared(self) -> None:
        """Open and close each sink that runs in Spark's processes once in the driver. Errors that a user has to fix are
        then reported when the run begins, and not by a batch."""
        tried = self._sinks_of((name, 0) for name in self.mapped.shared)
        try:
            tried.open()
            _, raised = tried.close()
            self._say_raised(raised)
        finally:
            tried.end()

    def _start_query(self) -> None:
        frames = [self._frame(name, number) for number, name in enumerate(self._all_inputs)]
        made = chained(frames, self.mapped, self._python_process, self._settings.partitions, self._counts)
        writer = made.writeStream.queryName(self.mapped.plan.topology).outputMode("append").foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(checkpoint(self.folder)))
        trigger = self._settings.trigger
        if trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        elif trigger != DEFAULT:
            writer = writer.trigger(processingTime=trigger)
        self._query = writer.start()

    @property
    def _all_inputs(self) -> list[str]:
        return [*self.inputs, *([TIMERS_INPUT] if self._timers is not None else [])]

    def _frame(self, name: str, number: int) -> DataFrame:
        options = {
            "folder": str(self.folder.folder),
            "input": name,
            "begin": "{}",
            "life": self._python_process.life,
            "parts": str(self._settings.partitions),
            "number": str(number),
            # Segments of a single input are sorted by number, independent of the clock. Timers come behind them.
            "among": "yes" if len(self.inputs) > 1 or name == TIMERS_INPUT else "no",
        }
        return self._session.readStream.format(FORMAT).schema(DDL).options(**options).load()

    def _stopped(self, query: StreamingQuery) -> None:
        if self._trouble is not None:
            raise self._trouble
        error = query.exception()
        if error is not None:
            raise error
        if self._settings.trigger != AVAILABLE_NOW:
            raise RuntimeError("the query stopped without an error")
        self._start_query()  # for timers that have fired at the end

    def _finish(self, query: StreamingQuery, ends: Ends) -> None:
        if query.isActive:
            query.processAllAvailable()
            query.stop()
        self._query, self._at_end, self._open = None, None, False
        said, raised = self._sinks.close()
        self._say_raised(raised)
        keep_summary(self.folder.folder, self._settings.run, self._summary(said))
        self.folder.end(self._epoch, ends)
        self._say_done(ends)
        self._say(f"complete: {self._line()}")

    def _summary(self, said: Mapping[str, list[str]]) -> Iterable[str]:
        counts = self._book.counts()
        for name in self.mapped.level:
            taken, given = counts.get((name, "executed"), 0), counts.get((name, "emitted"), 0)
            emits = f", {given:,} out" if self.mapped.plan.components[name].streams else ""
            yield f"{name}: {taken:,} in{emits}"
            for line in self._summary_elsewhere(name, counts) if name in self.mapped.shared else said.get(name, ()):
                yield f"  {line}" if line.startswith(" ") else f"{name}: {line}"

    def _summary_elsewhere(self, name: str, counts: Mapping[tuple[str, str], int]) -> list[str]:
        if not counts_itself(self.mapped.plan.components[name].prototype):
            return []
        prepare = with_counts(self._process.routing, counts)
        return summary_of_all(name, counts, lambda: self._sinks_of([(name, 0)], prepare), self._say_raised)

    def _say_raised(self, raised: Iterable[ComponentRaised]) -> None:
        """Report errors that end nothing, because all rows are stored."""
        for error in raised:
            text, lines = error_lines(error)
            for line in [*(f"| {line}" for line in lines), text]:
                self._say(line)

    def _sinks_of(
        self, places: Iterable[tuple[str, int]], prepare: Callable[[str, Any], None] = lambda name, sink: None
    ) -> Sinks:
        process, components = self._process, self.mapped.plan.components

        def task_of(name: str, index: int) -> Task:
            return process.task(name, index, components[name].tasks)

        return Sinks(process.routing, places, task_of, process.away.note, prepare)

    # -- batches

    def _take(self, frame: DataFrame, batch: int) -> None:
        """Process the rows of a batch, which are durable when this returns. Called in Spark's thread."""
        try:
            if self._storing is not None:
                frame = frame.mapInArrow(self._storing, DDL)
            table = frame.toArrow()
            self._python_process.raised.forget()
            self._keep(table, batch)
        except BaseException as error:
            self._trouble = error
            raise

    def _keep(self, table: pa.Table, batch: int) -> None:
        counts: Counter[tuple[str, str]] = Counter()
        rejected: list[Rejected] = []
        timers: list[KeyTimers] = []
        for rows in in_order(table):
            taken, refused = self._sinks.take(row for row in rows if row.to >= 0)
            counts += taken
            rejected += [*(rejected_of(row.record) for row in rows if row.to == REJECTED), *refused]
            timers += [timers_of(row.record) for row in rows if row.to == TIMERS]
        if rejected:
            self.folder.write(batch, pa.Table.from_batches([to_table(Rejected, rejected)]))
        self._book.keep(batch, counts + self._newly_counted(), timers)
        if batch:
            self._say_done(reached(offsets(self.folder, batch - 1)))
        read = offsets(self.folder, batch)
        if all(read[name]["ended"] == self._python_process.life for name in self.inputs):
            self._inputs_ended(read)

    def _inputs_ended(self, read: dict[str, dict[str, Any]]) -> None:
        if self._timers is not None and not self._fired_all and self.folder.closing() is None:
            ends = {name: item for name, item in reached(read).items() if name in self.inputs}
            self._book.begin_end(json.dumps([self._epoch.number, ends], sort_keys=True), self._at_end_fire)
            while self._fire(self._due() or self._book.at_end()):
                continue
            self._timers.end()
            self._fired_all = True
        if all(item["ended"] == self._python_process.life for item in read.values()):
            ends = reached(read)
            if self.folder.closing() is None:
                self.folder.close(self._epoch, ends)
            self._at_end = ends

    def _newly_counted(self) -> Counter[tuple[str, str]]:
        now = dict(self._counts.value)
        new = Counter({what: count - self._counted.get(what, 0) for what, count in now.items()})
        self._counted = now
        return new

    # -- timers

    def _due(self) -> list[DueNow]:
        if self._timers is None or self._fired_all:
            return []
        return self._book.due(micros_of(self._process.clock.utc()))

    def _fire(self, timers: list[DueNow]) -> bool:
        """Send these timers to their bolts, and return True if any was sent. They are written before they are
        forgotten: a timer that arrives twice has fired already."""
        if not timers or self._timers is None or not self._timers.write(timers):
            return False
        self._book.fired(timers)
        return True

    # -- reports

    def _say_done(self, ends: Ends) -> None:
        if ends != self._said_done:
            for name, numbers in ends.items():
                StreamInput(self.folder.input(name)).say_done(numbers)
            self._said_done = ends

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._last_report[2] < STATUS_S:
            return
        line, away = self._line(), self._process.away.read()
        if (line, [*away]) != self._last_report[:2]:
            self._say("; ".join([line, *(f"{name}: {why}" for name, why in away.items())]))
        self._last_report = (line, [*away], now)

    def _line(self) -> str:
        counts = self._book.counts()
        return ", ".join(f"{name} {counts.get((name, 'executed'), 0):,}" for name in self.mapped.level)


def in_order(table: pa.Table) -> Iterator[list[EngineRow]]:
    """Yield the rows of a batch by position, a part at a time, because Python objects take more than twice the memory
    of the Arrow columns. Also handles a batch of 2 GiB and more, which exceeds what a `binary` column can hold."""
    table = table.cast(WIDE).combine_chunks()
    order = sort_indices(table.column("position"))
    for begin in range(0, len(order), ROWS_AT_ONCE):
        yield rows_of(table.take(order.slice(begin, ROWS_AT_ONCE)))
