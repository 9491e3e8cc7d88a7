"""`ParquetSink`: stores records in Parquet files, each once, also after replays.

This is the class that a user declares. `batching` keeps the contract of sinks, and `ParquetStore` writes the files.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from os import PathLike, fspath
from typing import Any, ClassVar, Final, Never

from bolts.sinks.batching import ANSWERED_AT_ONCE, BatchingSink
from bolts.sinks.contract import SinkStore
from bolts.sinks.parquet.partitions import PartitionBy, Partitions
from bolts.sinks.parquet.places import check_url, place_of
from bolts.sinks.parquet.store import ParquetStore
from topology.clients.errors import invalid
from topology.clients.extras import client
from topology.components import Collector, Task
from topology.core.tuples import Tuple
from topology.errors import TupleStateError
from topology.secrets import Secret

ROWS: Final = 1_000  # rows of a file, if the user does not say: half of a spout task's max_pending
SECONDS: Final = 10.0  # seconds after which a file is written with the rows there are
SECONDS_MAX: Final = 60.0
REMEMBERS_S: Final = 7 * 86_400.0  # seconds
TOUCH_S: Final = 5.0  # seconds between two reports that held inputs are still wanted
MANY: Final = 1_000  # rows that came at once, after which a pause …
QUIET_S: Final = 1.0  # … of so many seconds, or half of a file's time, may be one of max_pending
COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")

log = logging.getLogger("kedge.bolts")


class ParquetSink(BatchingSink):
    """Store records of one class in Parquet files, and ack them when their file is complete and durable.

        topology.bolt("store", ParquetSink("lake/logins", partition_by="country"), logins.shuffle())

    A file is written when there are `rows_per_file` rows, or when its first row has waited for `seconds_per_file`, and
    at the end of a bounded run. Until then its rows are held unacked, so sources wait at `max_pending`: for large
    files, set `Config(max_pending=…)` to twice `rows_per_file`. A reader sees a file whole or not at all.

    Columns are the record's fields: int64, float64, bool, string, binary, timestamps in microseconds of UTC,
    decimal128(38, 18), structs for records and tuples of fixed length, lists for other tuples and frozensets, values of
    enums, and JSON as text for unions. The last column, `kedge_key`, has 24 bytes that name the row for ever. A replay
    has the key of its row and is dropped, also in a later run: `open` reads the keys of the files. A value that a
    column would change is refused, and fails alone.

    path     A folder, which is made if its parent is there, also as `file:///PATH` with percent-escapes; or a URL of
             pyarrow's: `s3://BUCKET/PATH`. As a Secret if it has a password.
    rows_per_file, seconds_per_file  See above. At most 60 seconds, and less than drain_timeout_s.
    partition_by  A field, or several, whose values name the folders of files: `country=NO/…`. Or a function of the
             record that returns a relative path, of up to 700 bytes and 32 folders. Fields that name folders are not in
             the files.
    compression  zstd, snappy, gzip, lz4, brotli or none.
    remembers_s  Seconds for which a file's keys are known; a replay after that is stored again. None: for ever.
             `open` reads 24 bytes for each row of files that are so old.
    filesystem  A function that returns a pyarrow.fs.FileSystem, in which `path` is a path: for credentials, other
             servers, or fsspec. It has to show a file only when its stream is closed, and whole. Each of its errors
             counts as an outage; but `open` raises ConfigurationError for an ImportError and for refused credentials.

    One task, one sink, one process writes a folder, under a lock. Nothing locks a store of objects: there the user has
    to take care. Memory: the rows of three files at most, and 30 MB for keys.
    """

    imports_at_open: ClassVar[tuple[str, ...]] = ("pyarrow",)
    durability: ClassVar[str] = "a complete file, which is synced, or which the store of objects has confirmed"

    def __init__(
        self,
        path: str | PathLike[str] | Secret,
        *,
        rows_per_file: int = ROWS,
        seconds_per_file: float = SECONDS,
        partition_by: PartitionBy = None,
        compression: str = "zstd",
        remembers_s: float | None = REMEMBERS_S,
        filesystem: Callable[[], Any] | None = None,
    ) -> None:
        """Raises ConfigurationError. Does no I/O: `open` does."""
        if type(rows_per_file) is not int or rows_per_file < 1:
            raise invalid(f"ParquetSink: rows_per_file is a number of rows of at least 1, not {rows_per_file!r:.80}")
        if isinstance(seconds_per_file, bool) or not 0 <= seconds_per_file <= SECONDS_MAX:
            text = f"ParquetSink: seconds_per_file is a number, 0 to {SECONDS_MAX:g}, not {seconds_per_file!r:.80}"
            raise invalid(text)
        if compression not in COMPRESSIONS:
            raise invalid(f"ParquetSink: compression is {', '.join(COMPRESSIONS)}, not {compression!r:.80}")
        if remembers_s is not None and not 0 < remembers_s < float("inf"):
            raise invalid(f"ParquetSink: remembers_s is a number of seconds above 0, or None, not {remembers_s!r:.80}")
        super().__init__(batch=rows_per_file, within_ms=seconds_per_file * 1000)
        self._path = path if isinstance(path, Secret) else Secret(fspath(path))
        if not self._path.reveal():
            raise invalid("ParquetSink: path is a folder or a URL, not an empty text")
        if filesystem is None:
            check_url(self._path)
        self._partitions = Partitions(partition_by)
        self.compression, self.remembers_s, self.filesystem = compression, remembers_s, filesystem
        self._files: ParquetStore | None = None
        self._hinted = False

    async def open(self, task: Task) -> None:
        """Take the folder, and read the keys in it; see `BatchingSink.open`."""
        self._clock = task.clock
        self._last_at = 0.0  # loop time at which a tuple came last
        await super().open(task)

    def take_inputs(self, tuples: Sequence[Tuple[Any]], out: Collector[Never]) -> None:
        """See `BatchingSink.take_inputs`."""
        super().take_inputs(tuples, out)
        self._last_at = self._loop.time()

    def summary(self) -> Iterable[str]:
        """Yield the counts, and the place of the files."""
        if self._files is not None:
            where, files = self._files.place.where, self._files.files
            yield f"{self.stored:,} rows stored in {files:,} files in {where}, {self.duplicates:,} known already"

    def _make_store(self) -> SinkStore:
        arrow = client("pyarrow", package="pyarrow", extra="parquet", needed_by="ParquetSink")
        for module in ("pyarrow.parquet", "pyarrow.fs"):
            client(module, package="pyarrow", extra="parquet", needed_by="ParquetSink")
        self._files = ParquetStore(
            arrow,
            place_of(self._path, self.filesystem, arrow),
            self._partitions,
            compression=self.compression,
            remembers_s=self.remembers_s,
            clock=self._clock,
        )
        return self._files

    # -- files in place of group commits: a lone row waits too

    async def _write(self) -> None:
        while not self._ending.is_set():
            await self._arrival.wait()
            self._arrival.clear()
            while self._waiting and not self._ending.is_set():
                await self._gather()
                if self._ending.is_set():
                    break
                batch = self._waiting.take(self.batch)
                if self._waiting:
                    self._first_at = self._last_at  # what is left came with the rows that filled the file
                self._room.set()
                await self._commit(batch)
            if not self._waiting:
                self._idle.set()
                self._news.set()
        self._fail(self._waiting.take(self.waiting), "the sink was closed before this was stored")

    async def _gather(self) -> None:
        """Return when a file is full, its time is over, the input ends, or the sink is closed."""
        until = self._first_at + self.within_ms / 1000
        while self.waiting < self.batch and not self._hurry and not self._ending.is_set():
            left = until - self._loop.time()
            if left <= 0:
                self._hint()
                return
            self._arrival.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, TOUCH_S)):
                    await self._arrival.wait()
            if left > TOUCH_S:
                await self._touch()

    async def _touch(self) -> None:
        """Report that the held inputs are still wanted, some at a time."""
        held = [*self._waiting.each()]
        for begin in range(0, len(held), ANSWERED_AT_ONCE):
            for tup, out in held[begin : begin + ANSWERED_AT_ONCE]:
                with contextlib.suppress(TupleStateError):
                    out.touch(tup)
            await asyncio.sleep(0)

    def _hint(self) -> None:
        """Warn once if many rows came quickly, and then none: their sources may wait for this very sink."""
        quiet_s = self._loop.time() - self._last_at
        if not self._hinted and self.waiting >= MANY and quiet_s > max(QUIET_S, self.within_ms / 2000):
            self._hinted = True
            text = (
                "%s: a file has %d rows, and not %d: none has come for %.0f s. If the sources wait at max_pending, set "
                "it to twice rows_per_file, or make files smaller"
            )
            log.warning(text, self._component, self.waiting, self.batch, quiet_s)
