"""`HandOver`: the bolt that hands one stream over to Spark, as segments on disk. Each record is stored once, even if it
is replayed.

A query declares one for each of its inputs. Batches come from `bolts.sinks.batching`, files from
`bridge.handover.store`. Must not know Spark: any reader of Arrow files can read the segments.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import count, repeat
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Never

from bolts.sinks.batching import BatchingSink, HeldTuples
from bolts.sinks.contract import SinkStore, StoreAway
from bridge.arrow.schema import columns_of
from bridge.files.started import Started
from bridge.handover.store import HandOverStore
from topology.codes.runtime import HANDOVER_FORGETS
from topology.components import Collector, Task
from topology.core.tuples import Tuple
from topology.records import Record

FOLDER: Final = "spark"  # name within the run's folder for components' files
LOOK_S: Final = 0.2  # seconds between two checks for segments that can be forgotten
ENOUGH: Final = 500  # records that fill a segment if no more arrive within PAUSE_S: at max_pending none will
PAUSE_S: Final = 0.002  # seconds
LOOKED_AT: Final = 20_000  # inputs checked per step; takes a few milliseconds of the loop

log = logging.getLogger("kedge.bolts")


class HandOver(BatchingSink):
    """Write records into segments, `spark/<query>/stream/<input>/<task>/` in the run's folder, and ack each once its
    segment is durable. The early ack means that a replay does not make a record older, so Spark never drops it as late
    (D16).

    A replay is dropped for as long as its message may come again: until a decided checkpoint has the message. That
    holds for any later run on the same folder, and for another number of tasks, so Spark need not deduplicate. A
    segment is removed when its messages are done and all readers have passed it. Records of earlier processes go when
    they have come again, or as the oldest if there are more than a million.

    Read it by `shuffle()`, with any number of tasks: tuples are dealt by identity, so that a replay meets the task that
    knows it. A record that does not fit its columns fails alone: ints beyond 64 bits, lone surrogates, Decimals with
    too many digits, values of another type than declared. If the disk is full, the sink waits and tries again. If an
    fsync fails, the process ends.

    cls        The record class. A class that has no columns in Spark raises ConfigurationError.
    batch      The maximum number of records in a segment; its bytes are bounded too.
    within_ms  The longest time, in milliseconds, that a record waits for its segment to fill if it arrives during a
               write. The wait is shorter if hundreds of records wait and no more come, because the sources are at
               max_pending.
    """

    remembers: ClassVar[bool] = True
    dedup: ClassVar[Literal["shared", "task"]] = "shared"  # because identities choose the task
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
        """Raises ConfigurationError. Does no I/O; `open` does."""
        super().__init__(batch=batch, within_ms=within_ms)
        self._check_class(cls)
        self.query, self.input, self.cls = query, input, cls
        self._keeper: asyncio.Task[None] | None = None

    async def open(self, task: Task) -> None:
        """Open the sink. Also raises ConfigurationError for a folder that is not writable, is damaged, or is missing
        although an earlier run used it."""
        self._task = task
        started = Started(task.notes, self.query)
        for number in count(task.index, task.tasks):  # its own folder, and those of tasks that no longer exist
            started.check(f"{self.input}/{number}", self._folder() / str(number))
            if not started.is_noted(f"{self.input}/{number}"):
                break
        self._wants_end = False
        self._wake = asyncio.Event()
        self._taken_at: deque[int] = deque()  # `Decided.gathered` when each of the waiting inputs came
        await super().open(task)
        started.note(f"{self.input}/{task.index}")
        self._told_squeezed = False
        self._tell_squeezed()
        self._keeper = asyncio.create_task(self._keep(), name=f"{task.component}: keeper")
        self._keeper.add_done_callback(lambda _: self._news.set())

    def take_inputs(self, tuples: Sequence[Tuple[Any]], out: Collector[Never]) -> None:
        super().take_inputs(tuples, out)
        self._taken_at.extend(repeat(self._task.frontier.gathered, len(tuples)))

    async def flush(self, out: Collector[Never]) -> None:
        """Return when everything is durable and the end is noted in the folder. Returns at once if the store is
        unavailable; the end is then noted when the store is back."""
        await super().flush(out)
        self._wants_end = True
        self._wake.set()
        group_commit = self._keeper
        assert group_commit is not None, "it is open"
        while self._says_end() and not group_commit.done():
            self._news.clear()
            await self._news.wait()
        if group_commit.done() and not self._ending.is_set():  # a bug of ours: no task is left that would note the end
            raise RuntimeError("the task that keeps the hand-over's folder has ended") from group_commit.exception()

    async def close(self) -> None:
        """Close the sink."""
        if self._keeper is not None:
            self._ending.set()
            self._wake.set()
            await asyncio.wait([self._keeper])
        await super().close()

    def summary(self) -> Iterable[str]:
        """Yield how many records were handed over, and to which query."""
        yield f"{self.stored:,} of {self.input!r} handed over to {self.query!r}, {self.duplicates:,} known already"
        if squeezed := self._segments.remembered.squeezed:
            yield f"{squeezed:,} of earlier processes are not remembered any more: they never came again"

    def _check_class(self, cls: type[Record]) -> None:
        columns_of(cls)

    def _make_store(self) -> SinkStore:
        self._segments = HandOverStore(self._folder, self.cls, self._task)
        return self._segments

    def _folder(self) -> Path:
        """Return the input's folder, within the run's own folder: the numbers that say which messages are done mean
        nothing with another state directory."""
        return self._task.folder / FOLDER / self.query / "stream" / self.input

    async def _gather(self) -> None:
        """Gather a batch as the base class does, but do not wait for records that cannot come while the sources wait
        for acks."""
        until = self._first_at + self.within_ms / 1000
        while self.waiting >= ENOUGH and not self._hurry and not self._ending.is_set():
            before = self.waiting
            if before >= self.batch or self._loop.time() >= until:
                return
            await asyncio.sleep(PAUSE_S)
            if self.waiting == before:
                return
        await super()._gather()

    async def _commit(self, batch: HeldTuples) -> None:
        """Write one batch. The run may have gone back since its inputs came: what is known of them counts as old as
        they are."""
        self._segments.taken_at = self._taken_at[0]
        for _ in batch.tuples:
            self._taken_at.popleft()
        await super()._commit(batch)

    # -- in the background

    def _says_end(self) -> bool:
        """Return True if the end is wanted and can be noted now."""
        return self._wants_end and not self.away and self.broken is None and not self._ending.is_set()

    async def _keep(self) -> None:
        """Note the end if that is wanted, and forget segments that are done; at `close` for the last time."""
        ends = False
        while not ends:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            ends = self._ending.is_set()
            if self._wants_end and self._idle.is_set() and self.broken is None:
                await self._end()
            if self.broken is None:
                await self._forget()

    async def _end(self) -> None:
        try:
            await self._patience.ask(self._segments.end)
        except StoreAway:
            return  # gave up, because the sink closes
        finally:
            self._news.set()
        self._wants_end = False
        self._news.set()

    async def _forget(self) -> None:
        """Forget what is done at the last decided checkpoint, and remove what readers have passed too."""
        more = True
        while more:
            over, more = self._segments.remembered.forget(self._task.frontier, LOOKED_AT)
            self._tell_squeezed()
            try:
                await self._patience.once(self._segments.forgotten, over)
            except StoreAway:
                return  # no room for the note: nothing was removed, and the next check tries again

    def _tell_squeezed(self) -> None:
        """Warn once that the bound has ended something."""
        remembered = self._segments.remembered
        if remembered.squeezed and not self._told_squeezed:
            self._told_squeezed = True
            log.warning(
                "%s: %d outputs of earlier processes never came again, and are not remembered any more: there are more "
                "than %d (%s)",
                *(self._component, remembered.squeezed, self._segments.most, HANDOVER_FORGETS),
            )
