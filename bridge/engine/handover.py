"""What Kedge's workers run of a topology that is on Spark: its spouts, a hand-over of each of their streams, and the
end of the run, which the driver tells. Knows files and tuples; no Spark, and none of the topology's bolts.
"""

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

QUERY: Final = "engine"  # the folder of the one query
RECORD: Final = "record"  # the column of a segment that has the record's bytes
SUMMARY: Final = "summary"  # JSON in the query's folder: the name of a run, and the lines to say at its end
RUN: Final = "run"  # there, too: the name of the run under way, as each worker process would draw another one


def begin_run(query: Path, run: str) -> None:
    """From now on this is the run that is under way. Writes only in its first life: the next one may have no room."""
    if run_of(query) != run:
        place(query / RUN, run.encode(), durable=False)


def run_of(query: Path) -> str:
    """The name of the run that is under way; empty before there was any."""
    try:
        return (query / RUN).read_text()
    except FileNotFoundError:
        return ""


def keep_summary(query: Path, run: str, lines: Iterable[str]) -> None:
    """What is to be said at the end of this run; durable when it returns."""
    put(query / SUMMARY, {"run": run, "lines": [*lines]})


def summary_of(query: Path, run: str) -> list[str] | None:
    """The same, where it was kept in this run. Earlier releases have kept lines without a name. Raises
    ConfigurationError for what can't be read."""
    try:
        told: Any = json.loads((query / SUMMARY).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise damaged(query / SUMMARY, f"can't be read ({error})") from error
    return told.get("lines") if isinstance(told, dict) and told.get("run") == run else None


class HandOverBytes(HandOver):
    """A `HandOver` whose records stay bytes, of whatever class they are."""

    def __init__(self, cls: type[Record], input: str) -> None:
        super().__init__(cls, QUERY, input)

    def summary(self) -> Iterable[str]:
        yield f"{self.stored:,} handed over to Spark, {self.duplicates:,} known already"

    def _check_class(self, cls: type[Record]) -> None:
        """Any will do."""

    def _make_store(self) -> SinkStore:
        self._segments = HandOverStore(self._folder, self.cls, self._task, Encoded(self.cls))
        return self._segments


class Outcomes(SparkResults[Rejected]):
    """What Spark's batches have rejected, and the end of the run, as a source; it tells what the driver has counted.
    `timed`: bolts have timers, and those that are due by the end are waited for: a run with nothing new would else be
    over before there is a driver."""

    def __init__(self, inputs: Sequence[str], *, timed: bool = False) -> None:
        super().__init__(Rejected, QUERY, inputs)
        self.timed = timed

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        self._query: Path = query_folder(task.folder, QUERY)
        self._clock = task.clock
        super().open(task, positions)

    def summary(self) -> Iterable[str]:
        told = summary_of(self._query, run_of(self._query))
        if told is not None:
            return told
        ends = self._folder.ended()
        if ends is None or any(one.goes_on(ends.get(name, {})) for name, one in self._streams.items()):
            return ["it was not at the end of what was handed over; the next run goes on there"]
        return ["nothing new was handed over"]

    def _complete(self) -> bool:
        if not super()._complete():
            return False
        return not self.timed or (not self._timers_wait() and super()._complete())  # an epoch may have begun for them

    def _timers_wait(self) -> bool:
        epoch = self._folder.epoch()
        ended = -1 if epoch is None else epoch.number
        return timers_wait(self._query / FILE, due_of(self._clock.utc()), run_of(self._query), ended)


class Rejections(Bolt):
    """What bolts on Spark have rejected becomes a dead letter here."""

    def process(self, given: Rejected) -> Iterator[Never]:
        """Raises Reject."""
        raise Reject(f"{given.component!r} has rejected {given.record}: {given.text}", code=RECORD_REJECTED_ON_SPARK)
