"""One query in the driver, from its first epoch to the end of a bounded run, in a thread of its own.

Its batches become files. Once every task of every input has said that it ends, the query's watermark moves to the end
of time, so that Spark itself closes the open windows; no artificial row is sent. The order of what is durable: first
the rows, then Spark's commit of the batch; first where the stream ends, then the watermark; first the last rows, then
the end.
"""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from bridge.arrow.schema import mismatches
from bridge.driver.batch import InBatch, QueryRun, as_it_is, keep, wanted
from bridge.driver.connect_end import with_end
from bridge.driver.source import FORMAT
from bridge.errors import UserError
from bridge.files.consistency import disagreement, missing_epoch
from bridge.files.input import StreamInput
from bridge.files.lease import Lease
from bridge.files.query import Ends, Epoch, QueryFolder
from bridge.queries.driver_spec import QuerySpec
from bridge.queries.late_records import COLUMN, counts_late, dropped_rows, late_records
from bridge.spark.session import is_remote, parallelism, started

END_OF_TIME_MS: Final = 253_370_764_800_000  # 9999-01-01 as a watermark, later than any event
LOOKS_S: Final = 0.1  # seconds between two checks whether the query lives or has to start again
STATUS_S: Final = 5.0  # seconds between two reports of progress


class Running:
    """One query. Its function may have a method `in_batch(frame, say)`, which makes a batch's results from the rows
    that the query gives for it. `in_batch` returns a DataFrame that is no stream, for example a join with a table as it
    is at that moment.

    `run` raises everything that keeps the query from continuing. `life` differs in each life of the driver.
    """

    def __init__(
        self,
        session: SparkSession,
        spec: QuerySpec,
        function: Callable[..., DataFrame],
        folder: Path,
        life: str,
        say: Callable[[str], None],
    ) -> None:
        self.spec = spec
        self.folder = QueryFolder(folder)
        self.streams = {name: StreamInput(self.folder.input(name)) for name in spec.inputs}
        self._session = session
        self._function = function
        self._life = life
        self._say = say
        self._in_batch: InBatch = getattr(function, "in_batch", as_it_is)
        self._heard: Any = None  # over Spark Connect: the messages of batches, which run in the server
        self._epoch = Epoch()
        self._query: StreamingQuery | None = None
        self._at_end: Ends | None = None  # set once only the batch that closes the windows is left
        self._trouble: BaseException | None = None  # exception of a batch that ran here; Spark would change its text
        self._started = threading.Event()  # set once `_query` is; its first batch may have begun before
        self._said_done: Ends = {}
        self._rows = 0
        self._last_report = ("", 0.0)  # the last report, and when
        self._looked_at = -1  # number of the last batch whose late rows are counted
        self._late = 0

    def begin(self) -> None:
        """Start the query, if it has anything to do. Raises UserError for a query that cannot be started."""
        epoch = self.folder.epoch()
        if epoch is None:
            if problem := missing_epoch(self.folder):
                raise UserError(f"query {self.spec.name!r} cannot resume: {problem}")
            epoch = Epoch()
            self.folder.begin(epoch)
        self._epoch = epoch
        self.folder.clear(epoch)
        if is_remote(self._session):
            Lease(self.folder.folder).hold()
        ends = self.folder.ended()
        if ends is None:
            if problem := disagreement(self.folder, epoch, [*self.spec.inputs]):
                raise UserError(f"query {self.spec.name!r} cannot resume: {problem}")
            self._start()
        else:
            self._say_done(ends)

    def run(self) -> None:
        """Check the query forever. Never returns; raises what ends the driver."""
        while True:
            self.look()
            time.sleep(LOOKS_S)

    def look(self) -> None:
        """Check the query once. Blocks while the last windows are closed."""
        if self._query is None:
            ends = self.folder.ended() or {}
            if any(stream.goes_on(ends.get(name, {})) for name, stream in self.streams.items()):
                self._begin_anew(ends)
            return
        if self._at_end is not None:
            self._finish(self._query, self._at_end)
            return
        if self._heard is not None:
            self._rows = self._heard.hear()
            self._at_end = self.folder.closing()
        if not self._query.isActive:
            self._raise(self._query)
        self._tell(self._query)

    # -- its life

    def _begin_anew(self, ends: Ends) -> None:
        """Start the query again, because its watermark is at the end of time: records after an end need a new epoch."""
        numbers = self.folder.batches()
        base = numbers[-1] + 1 if numbers else self._epoch.base
        self._epoch = Epoch(self._epoch.number + 1, base, ends)
        self.folder.begin(self._epoch)
        self.folder.clear(self._epoch)
        self._started.clear()
        self._looked_at = -1
        self._start()

    def _start(self) -> None:
        frames = [self._frame(name) for name in self.spec.inputs]
        with with_end(self.folder.folder):
            made = self._function(*frames)
        if not isinstance(made, DataFrame) or not made.isStreaming:
            what = f"a {type(made).__name__}" if not isinstance(made, DataFrame) else "a DataFrame that is no stream"
            raise UserError(f"query {self.spec.name!r} returns {what}; it must return a DataFrame made from its input")
        none = self._session.createDataFrame([], made.schema)
        given = self._in_batch(none, self._say).schema if self._in_batch is not as_it_is else made.schema
        wrong = mismatches(wanted(self.spec), to_arrow_schema(given, timezone="UTC"))
        if wrong:
            text = f"query {self.spec.name!r} returns other columns than {self.spec.declares} has: {'; '.join(wrong)}"
            raise UserError(text)
        take = self._take
        if is_remote(self._session):
            from bridge.driver.connect import Heard, Remote

            take = Remote(self._life_of_it(), self._in_batch)
            self._heard = Heard(self._life_of_it(), self._say)
        writer = made.writeStream.queryName(self.spec.name).outputMode(self.spec.mode).foreachBatch(take)
        self._query = started(writer.option("checkpointLocation", str(self.folder.checkpoint(self._epoch))))
        self._started.set()

    def _frame(self, name: str) -> DataFrame:
        options = {
            "folder": str(self.folder.folder),
            "input": name,
            "begin": json.dumps(self._epoch.begin.get(name, {})),
            "life": self._life,
            "parts": str(parallelism(self._session)),
            "leased": "yes" if is_remote(self._session) else "",
        }
        schema = from_arrow_schema(self.spec.input_schema(name))
        if counts_late(self._function):
            schema = schema.add(COLUMN, "long", False)
            options["checkpoint"] = str(self.folder.checkpoint(self._epoch))
        return self._session.readStream.format(FORMAT).schema(schema).options(**options).load()

    def _finish(self, query: StreamingQuery, ends: Ends) -> None:
        query.processAllAvailable()
        if self._heard is not None:
            self._rows = self._heard.hear()
        self._tell_late(query)
        self._tell_open(query)
        query.stop()
        self._query = self._at_end = None
        self.folder.end(self._epoch, ends)
        self._say_done(ends)
        self._say(f"{self.spec.name}: complete, {self._rows:,} results")

    def _raise(self, query: StreamingQuery) -> None:
        if self._trouble is not None:
            raise self._trouble
        if self._heard is not None:
            self._heard.hear()
        error = query.exception()
        raise error if error is not None else RuntimeError(f"query {self.spec.name!r} has stopped by itself")

    # -- its batches

    def _take(self, frame: DataFrame, batch: int) -> None:
        """Write the rows of a batch, which are durable when this returns. Called in Spark's thread."""
        try:
            self._keep(frame, batch)
        except BaseException as error:
            self._trouble = error
            raise

    def _keep(self, frame: DataFrame, batch: int) -> None:
        kept = keep(self._life_of_it(), frame, batch, self._in_batch, self._say)
        self._rows += kept.rows
        if kept.before is not None:
            self._say_done(kept.before)
        if kept.ended is not None:
            self._close(kept.ended)

    def _life_of_it(self) -> QueryRun:
        return QueryRun(self.spec, self.folder, self._epoch, self._life)

    def _close(self, ends: Ends) -> None:
        """Note the end of the stream and move the watermark. Called for the batch that holds nothing but the end; the
        next batch closes all windows."""
        if self.folder.closing() is None:
            self.folder.close(self._epoch, ends)
        self._started.wait()
        query: Any = self._query
        query._jsq.streamingQuery().watermarkTracker().setWatermark(END_OF_TIME_MS)
        self._at_end = ends

    # -- reports

    def _say_done(self, ends: Ends) -> None:
        if ends != self._said_done:
            for name, numbers in ends.items():
                self.streams[name].say_done(numbers)
            self._said_done = ends

    def _tell(self, query: StreamingQuery) -> None:
        """Report the progress if it has changed, and late records, at intervals."""
        now = time.monotonic()
        if now - self._last_report[1] < STATUS_S:
            return
        text = f"{self.spec.name}: {self._rows:,} results"
        if self._rows and text != self._last_report[0]:
            self._say(text)
        self._last_report = (text, now)
        self._tell_late(query)

    def _tell_late(self, query: StreamingQuery) -> None:
        """Report late records, because Spark drops them without a word (D16)."""
        last = query.lastProgress
        if last is None or last["batchId"] == self._looked_at:
            return
        new = [progress for progress in query.recentProgress if progress["batchId"] > self._looked_at]
        in_records = counts_late(self._function)
        late = late_records(new) if in_records else dropped_rows(new)
        self._looked_at = last["batchId"]
        if not late:
            return
        self._late += late
        if in_records:
            self._say(
                f"{self.spec.name}: {self._late:,} {'record' if self._late == 1 else 'records'} so far came after the "
                "watermark had closed one of their windows, which lacks them; a longer watermark keeps them"
            )
        else:
            self._say(
                f"{self.spec.name}: Spark has dropped rows that came later than its watermark, {self._late:,} so far; "
                "a row is one record or, if records are aggregated first, all records of a batch with the same key "
                "and window; a longer delay in withWatermark keeps them"
            )

    def _tell_open(self, query: StreamingQuery) -> None:
        """Report windows that stay open at the end. Over Spark Connect the end arrives only through `withWatermark`, so
        a query that declares its watermark in SQL keeps its windows open."""
        last = query.lastProgress if self._heard is not None else None
        if last is None or not sum(operator["numRowsTotal"] for operator in last["stateOperators"]):
            return
        watermark = dict(last["eventTime"] or {}).get("watermark", "")
        if "1970" < watermark < "9":
            self._say(
                f"{self.spec.name}: windows that are open at the end of the run stay open and have no result: over "
                "Spark Connect, only a query that calls withWatermark with a column of its rows closes them"
            )
