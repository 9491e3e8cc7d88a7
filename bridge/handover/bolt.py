"""`HandOver`: the bolt that hands one stream over to Spark, as segments on the disk; each record once, whatever is
replayed.

What a query declares for each of its inputs; the batches are `batching`'s, the files `handover_store`'s. Must not know
Spark: what was handed over is read by whoever can read Arrow.
"""

import asyncio
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import ClassVar, Final, Literal, Never

from bolts.sinks.batching import BatchingSink
from bolts.sinks.contract import SinkStore, StoreAway
from bridge.arrow.schema import columns_of
from bridge.files.started import Started
from bridge.handover.store import HandOverStore
from topology.components import Collector, Task
from topology.records import Record
from topology.storage.encoding.floors import packed_floor

FOLDER: Final = "spark"  # of the run's folder for what components keep
LOOK_S: Final = 0.2  # between two looks at what is over
ENOUGH: Final = 500  # records that are worth a segment where no more come for PAUSE_S: at max_pending none will
PAUSE_S: Final = 0.002
LOOKED_AT: Final = 20_000  # inputs at once: some milliseconds of the loop


class HandOver(BatchingSink):
    """Writes records into segments, `spark/<query>/stream/<input>/<task>/` in the run's folder, and acks them once that
    is durable: so early that a replay ages no record, and Spark never drops one as late (D16). A replay is dropped,
    for as long as its message may come again, by any later run on the same folder and with another number of tasks too;
    so Spark need not deduplicate. What is over for us and that all readers have passed is removed.

    Reads by `shuffle()`, and any number of tasks: tuples are dealt by identity, so that a replay meets the task that
    knows it. A record that has no place in its columns fails alone: ints beyond 64 bits, lone surrogates, Decimals of
    more digits, values of another type than declared. Where the disk is full the sink waits and asks again; where an
    fsync fails, the process ends.

    cls        The record class; one that Spark has no columns for is a ConfigurationError.
    batch      Records in a segment, at most; also bounded in bytes.
    within_ms  A record that comes during a write waits this long, at most, for its segment to fill; less where
               hundreds wait and no more come, as the sources are at max_pending.
    """

    remembers: ClassVar[bool] = True
    dedup: ClassVar[Literal["shared", "task"]] = "shared"  # as identities choose the task
    durability: ClassVar[str] = "an fsync of each segment and its folder"

    def __init__(
        self,
        cls: type[Record],
        query: str,
        input: str,
        *,
        batch: int = 10_000,
        within_ms: float = 20.0,
    ) -> None:
        """Raises ConfigurationError. Does no I/O: `open` does."""
        super().__init__(batch=batch, within_ms=within_ms)
        self._check_class(cls)
        self.query, self.input, self.cls = query, input, cls
        self._keeper: asyncio.Task[None] | None = None

    async def open(self, task: Task) -> None:
        """As a sink's. Raises ConfigurationError for a folder that can't be written, is damaged, or has gone since an
        earlier run, too."""
        self._task = task
        begun = Started(task.notes, self.query)
        for number in count(task.index, task.tasks):  # its own, and those of tasks that there are no more
            begun.check(f"{self.input}/{number}", self._folder() / str(number))
            if not begun.is_noted(f"{self.input}/{number}"):
                break
        self._wants_end = False
        self._nudge = asyncio.Event()
        self._floors: list[bytes] = []  # by which something was forgotten last
        await super().open(task)
        begun.note(f"{self.input}/{task.index}")
        task.floors.restore(self._segments.floors)
        self._keeper = asyncio.create_task(self._keep(), name=f"{task.component}: keeper")
        self._keeper.add_done_callback(lambda _: self._news.set())

    async def flush(self, out: Collector[Never]) -> None:
        """Returns when all is durable, and it is said there that this is the end; at once where the store is away, and
        then that is said when it is back."""
        await super().flush(out)
        self._wants_end = True
        self._nudge.set()
        group_commit = self._keeper
        assert group_commit is not None, "it is open"
        while self._says_end() and not group_commit.done():
            self._news.clear()
            await self._news.wait()
        if group_commit.done() and not self._ending.is_set():  # a mistake of ours: nobody would say the end any more
            raise RuntimeError("what keeps the folder of the hand-over has ended") from group_commit.exception()

    async def close(self) -> None:
        """As a sink's."""
        if self._keeper is not None:
            self._ending.set()
            self._nudge.set()
            await asyncio.wait([self._keeper])
        await super().close()

    def summary(self) -> Iterable[str]:
        """What was handed over, and where."""
        yield f"{self.stored:,} of {self.input!r} handed over to {self.query!r}, {self.duplicates:,} known already"

    def _check_class(self, cls: type[Record]) -> None:
        columns_of(cls)

    def _make_store(self) -> SinkStore:
        self._segments = HandOverStore(self._folder, self.cls, self._task)
        return self._segments

    def _folder(self) -> Path:
        """In the run's own folder: what is over is told by numbers that mean nothing beside another state directory."""
        return self._task.folder / FOLDER / self.query / "stream" / self.input

    async def _gather(self) -> None:
        """As a sink's; but where the sources wait for acks, it waits for nothing that can't come."""
        waiting = self._waiting
        until = self._first_at + self.within_ms / 1000
        while len(waiting) >= ENOUGH and not self._hurry and not self._ending.is_set():
            before = len(waiting)
            if before >= self.batch or self._loop.time() >= until:
                return
            await asyncio.sleep(PAUSE_S)
            if len(waiting) == before:
                return
        await super()._gather()

    # -- in the background

    def _says_end(self) -> bool:
        """Whether the end is wanted, and can be said now."""
        return self._wants_end and not self.away and self.broken is None and not self._ending.is_set()

    async def _keep(self) -> None:
        """Says the end where that is wanted, and forgets what is over, until `close`."""
        while not self._ending.is_set():
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._nudge.wait()
            except TimeoutError:
                pass
            self._nudge.clear()
            if self._wants_end and self._idle.is_set() and self.broken is None:
                await self._end()
            await self._forget()

    async def _end(self) -> None:
        try:
            await self._patience.ask(self._segments.end)
        except StoreAway:
            return  # given up, as the sink closes
        finally:
            self._news.set()
        self._wants_end = False
        self._news.set()

    async def _forget(self) -> None:
        floors = self._task.floors
        more = True
        while more and not self._ending.is_set():
            over, more = self._segments.remembered.forget(floors, LOOKED_AT)
            if over:
                self._floors = [packed_floor(one) for one in floors.announced()]
            try:
                await self._patience.once(self._segments.forgotten, over, self._floors)
            except StoreAway:
                return  # no room for the note: nothing was removed, and the next look tries again
