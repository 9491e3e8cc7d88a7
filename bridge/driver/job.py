"""A batch job in the driver, cut by cut, in a thread of its own.

A cut is one point of all inputs: for each task, the segments from which and up to which the job reads. It is settled in
a file before the job begins. Nothing is folded or forgotten until its results are published, so a repeated job reads
the same records. The order of what is durable: the cut, then its results as a whole, then each of their files in its
place, then the end.

    cut     JSON: the newest cut, with its number, the numbers of segments, and its first batch of results
"""

import errno
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from py4j.protocol import Py4JNetworkError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from bridge.arrow.schema import mismatches
from bridge.driver.job_results import ROWS_MAX, TELLS, ResultWriter, Staged
from bridge.driver.job_source import FORMAT, Histories
from bridge.errors import UserError
from bridge.files.history import FOLD_SEGMENTS, History, Keeping
from bridge.files.input import StreamInput
from bridge.files.query import Ends, Epoch, QueryFolder, place
from bridge.files.segments import read_schema
from bridge.queries.driver_spec import QuerySpec
from bridge.spark.errors import no_room
from topology.codes.code import FRESH
from topology.errors import ConfigurationError

LOOKS_S: Final = 0.1  # seconds between two checks for new records
FORGETS_S: Final = 5.0  # seconds between two checks for records that are too old
AGAIN_S: Final = 10.0  # seconds until a job is tried again
TRIES: Final = 3  # of a job if an earlier one has succeeded: a table may be unavailable for a while


@dataclass(frozen=True)
class Cut:
    """One point of all inputs; see above. `base`: the number of the first batch of its results."""

    number: int
    base: int
    begin: Ends
    ends: Ends


class BatchJob(Protocol):
    """The job's function. `columns`: the columns that it reads of its inputs."""

    @property
    def keeping(self) -> Keeping: ...

    @property
    def columns(self) -> frozenset[str]: ...

    def __call__(self, *frames: DataFrame) -> DataFrame: ...


class HistoryRunning:
    """Run `job`, which makes one DataFrame from those of all records that are kept of its inputs.

    `run` raises everything that keeps the job from continuing: UserError for what a user has to fix.
    """

    def __init__(
        self,
        session: SparkSession,
        spec: QuerySpec,
        job: BatchJob,
        folder: Path,
        life: str,
        say: Callable[[str], None],
        *,
        now_ns: Callable[[], int] = time.time_ns,
        fold_segments: int = FOLD_SEGMENTS,
        rows_max: int = ROWS_MAX,
    ) -> None:
        self.spec = spec
        self.folder = QueryFolder(folder)
        self._session = session
        self._job = job
        self._say = say
        self._now_ns = now_ns
        self._rows_max = rows_max
        self._declared = spec.output_schema()
        self._wanted = pa.schema([field for field in self._declared if field.name != spec.revision])  # of the job
        self._histories = {
            name: History(
                StreamInput(self.folder.input(name)),
                self.folder.history(name),
                spec.input_schema(name).names,
                fold_segments=fold_segments,
            )
            for name in spec.inputs
        }
        self._staged = Staged(self.folder)
        self._cut: Cut | None = None
        self._pending = False  # True if the present cut has no results yet
        self._since_ns: int | None = None  # when the first file that is in no cut was written
        self._tries = 0
        self._has_run = False  # True if a job has succeeded in this life
        self._not_before = 0.0  # monotonic time of the next try
        self._forgets_at = 0.0  # monotonic time of the next check for old records
        self._reported_no_room = False

    def begin(self) -> None:
        """Open the histories, and check that the job can run. Raises UserError if it cannot."""
        self._session.dataSource.register(Histories)
        try:
            for name, history in self._histories.items():
                history.open()
                self._check_class(name, history)
        except ConfigurationError as error:
            raise UserError(str(error)) from error
        self._resume()
        self._made(Cut(-1, 0, {}, {name: {} for name in self._histories}))

    def run(self) -> None:
        """Check for work forever. Never returns; raises what ends the driver."""
        while True:
            self.look()
            time.sleep(LOOKS_S)

    def look(self) -> None:
        """Check once for work. Blocks while a job runs."""
        if time.monotonic() < self._not_before:
            return
        try:
            if self._pending:
                self._try()
            else:
                self._look_for_new()
        except ConfigurationError as error:
            raise UserError(str(error)) from error
        except Exception as error:
            if not (words := no_room(error)):
                raise
            self._not_before = time.monotonic() + AGAIN_S
            if not self._reported_no_room:
                self._reported_no_room = True
                self._say(f"{self.spec.name}: the disk has no room ({words}); the job resumes once it has")

    # -- when a job runs

    def _look_for_new(self) -> None:
        for history in self._histories.values():
            history.reach()
        if self._is_due():
            self._settle()
            return
        for history in self._histories.values():
            history.fold()
        if time.monotonic() >= self._forgets_at:
            self._forgets_at = time.monotonic() + FORGETS_S
            self._forget()

    def _is_due(self) -> bool:
        ends = self._cut.ends if self._cut is not None else {}
        if all(history.has_ended() for history in self._histories.values()):
            return self._cut is None or any(its.is_beyond(ends.get(name, {})) for name, its in self._histories.items())
        if not self._job.keeping.every_s:
            return False
        if self._since_ns is None:
            found = [its.written_after(ends.get(name, {})) for name, its in self._histories.items()]
            self._since_ns = min((its for its in found if its is not None), default=None)
        return self._since_ns is not None and self._now_ns() - self._since_ns >= self._job.keeping.every_s * 10**9

    def _settle(self) -> None:
        """Settle a new cut, which does not change from here on."""
        batches = self.folder.batches()
        base = batches[-1] + 1 if batches else 0
        begin = {name: history.first for name, history in self._histories.items()}
        ends = {name: {**history.reached} for name, history in self._histories.items()}
        cut = Cut(0 if self._cut is None else self._cut.number + 1, base, begin, ends)
        place(self.folder.folder / "cut", json.dumps(asdict(cut)).encode())
        self._staged.clear()
        self._begin(cut)

    def _resume(self) -> None:
        try:
            fields = json.loads((self.folder.folder / "cut").read_bytes())
        except FileNotFoundError:
            return
        epoch = self.folder.epoch()
        self._cut = Cut(**fields)
        if epoch is None or epoch.number != self._cut.number:
            self._begin(self._cut)
        self._pending = self.folder.ended() is None

    def _begin(self, cut: Cut) -> None:
        self.folder.begin(Epoch(cut.number, cut.base, cut.begin))  # from here on the results are incomplete
        self._cut, self._pending, self._since_ns, self._tries = cut, True, None, 0

    # -- the job

    def _try(self) -> None:
        """Run the job of the present cut."""
        assert self._cut is not None
        try:
            self._finish(self._cut)
        except (ConfigurationError, Py4JNetworkError):  # a damaged file or a JVM that is gone: no other try helps
            raise
        except Exception as error:  # raised by Spark, a JDBC driver, or the user's function for a table
            self._tries += 0 if no_room(error) else 1
            if no_room(error) or not self._has_run or self._tries == TRIES:
                raise
            self._not_before = time.monotonic() + AGAIN_S
            self._say(f"{self.spec.name}: the job failed and is tried again: {type(error).__name__}: {error!s:.300}")

    def _finish(self, cut: Cut) -> None:
        parts = self._staged.settled(cut.number)
        if parts is None:
            began = time.monotonic()
            self._say(f"{self.spec.name}: job {cut.number + 1} starts")
            parts, rows = self._results(cut)
            self._staged.settle(cut.number, parts)
            took = time.monotonic() - began
            self._say(f"{self.spec.name}: job {cut.number + 1} is complete, {rows:,} results in {took:.1f} s")
        self._staged.publish(cut.base, parts)
        self.folder.end(Epoch(cut.number), cut.ends)
        self._staged.clear()
        self._pending, self._has_run, self._reported_no_room = False, True, False

    def _results(self, cut: Cut) -> tuple[list[str], int]:
        """Return the files of the job's results, and the number of rows in them."""
        folder = self._staged.begin()
        writer = ResultWriter(
            str(folder), self._wanted, self._declared.names, self.spec.revision, cut.number, self._rows_max
        )
        reports = self._made(cut).mapInArrow(writer, TELLS).collect()
        for report in reports:
            if report["misfit"]:
                text = (
                    f"query {self.spec.name!r} has a result that {self.spec.declares} cannot hold: {report['misfit']}"
                )
                raise UserError(text)
            if report["room"]:
                raise OSError(errno.ENOSPC, report["room"])
        return [f"{folder.name}/{report['name']}" for report in reports], sum(report["rows"] for report in reports)

    def _made(self, cut: Cut) -> DataFrame:
        """Return what the function makes of a cut. Raises UserError if its columns are not those of the output."""
        made = self._job(*(self._frame(name, cut) for name in self.spec.inputs))
        if wrong := mismatches(self._wanted, to_arrow_schema(made.schema, timezone="UTC")):
            text = f"query {self.spec.name!r} returns other columns than {self.spec.declares} has: {'; '.join(wrong)}"
            raise UserError(text)
        return made

    def _frame(self, name: str, cut: Cut) -> DataFrame:
        options = {
            "folder": str(self.folder.folder),
            "input": name,
            "begin": json.dumps(cut.begin.get(name, {})),
            "ends": json.dumps(cut.ends[name]),
        }
        fields = [field for field in self.spec.input_schema(name) if field.name in self._job.columns]
        schema = from_arrow_schema(pa.schema(fields))
        return self._session.read.format(FORMAT).schema(schema).options(**options).load()

    # -- the history

    def _forget(self) -> None:
        if self._cut is None:
            return
        before_ns = self._now_ns() - self._job.keeping.retention_s * 10**9
        for name, history in self._histories.items():
            squeezed = history.forget(self._cut.ends.get(name, {}), before_ns, self._job.keeping.bytes_max)
            if squeezed:
                self._say(
                    f"{self.spec.name}: removed {squeezed:,} bytes of {name!r} that are younger than the retention, "
                    f"because the history is limited to {self._job.keeping.bytes_max:,} bytes"
                )

    def _check_class(self, name: str, history: History) -> None:
        """Raises UserError if the history holds another version of the record."""
        wanted = self.spec.input_schema(name)
        for path in history.samples():
            there = read_schema(path)
            if wrong := [own.name for own in wanted if own.name not in there.names or there.field(own.name) != own]:
                raise UserError(
                    f"{path} holds another version of the record, with another {wrong[0]!r}: give "
                    f"the query another name than {self.spec.name!r}, or {FRESH}"
                )
