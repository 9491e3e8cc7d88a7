"""The part of a topology on Spark that Kedge's workers run: the spouts, a hand-over of each of their streams, and the
end of the run, which the driver reports. Knows files and tuples; must not know Spark or the topology's bolts."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Never

from acker.identity import MessageId
from bolts.sinks.contract import SinkStore
from bridge.arrow.schema import Encoded
from bridge.engine.counts_and_timers import FILE, timers_wait
from bridge.engine.rows import Rejected
from bridge.files.query import place, put
from bridge.files.segments import damaged
from bridge.handover.bolt import HandOver
from bridge.handover.results import SparkResults, query_folder
from bridge.handover.store import HandOverStore
from topology.codes.runtime import RECORD_REJECTED_ON_SPARK
from topology.components import Bolt, Task
from topology.errors import Reject
from topology.records import Record
from topology.runtime.state.value import due_of

QUERY: Final = "engine"  # folder name of the only query
RECORD: Final = "record"  # column of a segment that holds the record's bytes
SUMMARY: Final = "summary"  # JSON in the query's folder: the name of a run, and its summary's lines
RUN: Final = "run"  # file beside it: the name of the present run, because each worker process would draw its own


def begin_run(query: Path, run: str) -> None:
    """Note the name of the present run. Writes only in the run's first life, because the disk may be full in a later
    one."""
    if run_of(query) != run:
        place(query / RUN, run.encode(), durable=False)


def run_of(query: Path) -> str:
    """Return the name of the present run; empty if there was none."""
    try:
        return (query / RUN).read_text()
    except FileNotFoundError:
        return ""


def keep_summary(query: Path, run: str, lines: Iterable[str]) -> None:
    """Keep the lines to print at the end of this run, which are durable when this returns."""
    put(query / SUMMARY, {"run": run, "lines": [*lines]})


def summary_of(query: Path, run: str) -> list[str] | None:
    """Return the lines that were kept in this run, or None. Earlier releases kept lines without the run's name. Raises
    ConfigurationError for an unreadable file."""
    try:
        summary: Any = json.loads((query / SUMMARY).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise damaged(query / SUMMARY, f"can't be read ({error})") from error
    return summary.get("lines") if isinstance(summary, dict) and summary.get("run") == run else None


class HandOverBytes(HandOver):
    """A `HandOver` that stores records as bytes, whatever their class."""

    def __init__(self, cls: type[Record], input: str) -> None:
        super().__init__(cls, QUERY, input)

    def summary(self) -> Iterable[str]:
        yield f"{self.stored:,} handed over to Spark, {self.duplicates:,} known already"

    def _check_class(self, cls: type[Record]) -> None:
        """Accept any class."""

    def _make_store(self) -> SinkStore:
        self._segments = HandOverStore(self._folder, self.cls, self._task, Encoded(self.cls))
        return self._segments


class Outcomes(SparkResults[Rejected]):
    """The records that bolts on Spark rejected, and the end of the run, as a source. Its summary holds the driver's
    counts.

    `timed`: bolts have timers. The source then waits for the timers that are due by the end. Otherwise a run without
    new records would end before there is a driver.
    """

    def __init__(self, inputs: Sequence[str], *, timed: bool = False) -> None:
        super().__init__(Rejected, QUERY, inputs)
        self.timed = timed

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        self._query: Path = query_folder(task.folder, QUERY)
        self._clock = task.clock
        super().open(task, positions)

    def summary(self) -> Iterable[str]:
        lines = summary_of(self._query, run_of(self._query))
        if lines is not None:
            return lines
        ends = self._folder.ended()
        if ends is None or any(stream.goes_on(ends.get(name, {})) for name, stream in self._streams.items()):
            return ["it stopped before the end of the records that were handed over; the next run resumes there"]
        return ["no new records were handed over"]

    def _complete(self) -> bool:
        if not super()._complete():
            return False
        # Asked twice: an epoch may have begun for the timers.
        return not self.timed or (not self._timers_wait() and super()._complete())

    def _timers_wait(self) -> bool:
        epoch = self._folder.epoch()
        ended = -1 if epoch is None else epoch.number
        return timers_wait(self._query / FILE, due_of(self._clock.utc()), run_of(self._query), ended)


class Rejections(Bolt):
    """Make a dead letter of each record that a bolt on Spark rejected."""

    def process(self, given: Rejected) -> Iterator[Never]:
        """Raises Reject."""
        raise Reject(f"{given.component!r} has rejected {given.record}: {given.text}", code=RECORD_REJECTED_ON_SPARK)
