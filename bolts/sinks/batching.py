"""The part of a sink that all stores share: batches, acks after the durable write, back-pressure, counts, messages.

It keeps the contract of `contract`. Knows tuples and the loop, and no store: a `SinkStore` writes in a thread of its
own, so an fsync never holds up the loop. Batches follow the rule of a group commit. If no write is under way, a tuple
is written at once, even alone. Tuples that come during a write are the next batch: it gathers until it has `batch`
tuples or its first tuple has waited for `within_ms`. So a lone alert waits for one fsync, and a burst of ten thousand
costs a few. (Rejected: only a timer, which makes a lone alert wait; no timer, which syncs without a pause under steady
load.)
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, repeat
from typing import Any, ClassVar, Final, Literal, NamedTuple, Never

from bolts.sinks.contract import LOOK_BYTES_MAX, AsyncSinkStore, LooksThrough, SinkStore, SinkStoreBroken
from bolts.sinks.keys import WriteCounts
from bolts.sinks.retry import RetryForever
from bolts.sinks.upsert import Upsert
from topology.clients.errors import ServerAway
from topology.codes.runtime import SINK_FILE_DAMAGED, SINK_STORE_BROKEN, SINK_WRITER_DIED
from topology.codes.settings import INVALID_SINK_BATCHING, SINGLE_TASK_SINK, SINK_STORE_UNUSABLE
from topology.components import Bolt, Collector, Task
from topology.core.tuples import Tuple
from topology.errors import ConfigurationError, NotYet, TupleStateError, WorkerError
from topology.records import Record


class HeldTuples(NamedTuple):
    """Tuples, and the collector of each."""

    tuples: list[Tuple[Any]]
    outs: list[Collector[Never]]

    def __bool__(self) -> bool:
        return bool(self.tuples)

    def part(self, begin: int, end: int) -> "HeldTuples":
        return HeldTuples(self.tuples[begin:end], self.outs[begin:end])

    def take(self, count: int) -> "HeldTuples":
        """Remove and return the first tuples."""
        taken = self.part(0, count)
        del self.tuples[:count], self.outs[:count]
        return taken

    def each(self) -> Iterator[tuple[Tuple[Any], Collector[Never]]]:
        return zip(self.tuples, self.outs, strict=True)


# Tuples per batch, if the user does not say: half of a spout task's `max_pending`. One half waits while the other half
# is written.
BATCH: Final = 1_000
BATCHES_HELD: Final = 2  # batches that may wait while one is being written; above that `execute` waits
ANSWERED_AT_ONCE: Final = 1_000  # tuples acked before the loop gets a turn; about a millisecond
OPENING_S: Final = 0.2  # seconds that `open` waits for a store that is away, before the run reports that it waits
ALL_KNOWN: Final = 100  # if this many first outputs were all stored before, the log says so (C3)

log = logging.getLogger("kedge.bolts")


class BatchingSink(Bolt):
    """A sink that writes batches into a store. A subclass provides the store.

    `stored`, `duplicates`, `divergent` and `refused` count outputs since `open`: new rows, dropped replays, rows under
    a known identity with another content (in append mode `stored` includes them), and failed tuples. A write that
    succeeded without a known outcome is repeated, and its rows then count as duplicates.

    dedup        'shared': every task sees what all tasks have stored, so there may be several; 'task': one task only
                 (C4).
    remembers_s  seconds for which the sink knows what it has stored; a later replay is stored again. None: for ever
                 (C6).
    durability   the meaning of an ack, in a few words (C11).
    """

    drops_replays: bool = True  # the command reports this at the end of a run
    dedup: ClassVar[Literal["shared", "task"]] = "task"
    remembers_s: float | None = None
    durability: ClassVar[str] = "an fsync of each commit"

    def __init__(self, *, batch: int, within_ms: float) -> None:
        kind = type(self).__name__
        if type(batch) is not int or batch < 1:
            raise ConfigurationError(
                f"{kind}: batch is a number of tuples of at least 1, not {batch!r}", code=INVALID_SINK_BATCHING
            )
        if not isinstance(within_ms, int | float) or isinstance(within_ms, bool) or not 0 <= within_ms <= 60_000:
            text = f"{kind}: within_ms is a number of milliseconds, 0 to 60000, not {within_ms!r}"
            raise ConfigurationError(text, code=INVALID_SINK_BATCHING)
        self.upsert: Upsert | None = None  # the user's fields that name a row; None in append mode
        self.batch = batch
        self.within_ms = within_ms
        self.stored = self.duplicates = self.divergent = self.refused = 0
        self._waiting = HeldTuples([], [])
        self._writer: asyncio.Task[None] | None = None
        self._store: SinkStore | AsyncSinkStore | None = None
        self._looked_at = -1  # value of `stored` when the file was last looked through

    @abstractmethod
    def _make_store(self) -> SinkStore | AsyncSinkStore:
        """Return the store, not yet open. Called by `open`, on the loop."""

    async def open(self, task: Task) -> None:
        """Open the store.

        Raises ConfigurationError for more tasks than the store allows, and for anything that the store cannot use.
        Raises NotYet for a store that is away for longer than OPENING_S; the sink is then closed, and may be opened
        again.
        """
        if task.tasks > 1 and self.dedup == "task":
            raise ConfigurationError(
                f"{task.component!r} has {task.tasks} tasks, and a {type(self).__name__} writes its file from one",
                code=SINGLE_TASK_SINK,
            )
        self._component = task.component
        self._loop = asyncio.get_running_loop()
        self._arrival = asyncio.Event()  # the first tuple of a batch, or the one that fills it
        self._room = asyncio.Event()
        self._idle = asyncio.Event()  # set if every tuple taken has been acked or failed
        self._news = asyncio.Event()  # set once `_idle` is set, the store is away, or the writer has ended
        self._patience = RetryForever(task.component, task.random, self._tell_away)
        self._ending = self._patience.ending
        self._hurry = False
        self._first_at = 0.0  # loop time at which the oldest waiting tuple came
        self._trouble = ""
        self._idle.set()
        self._store = self._make_store()
        try:
            await self._patience.ask(self._store.open, limit_s=OPENING_S)
        except ServerAway as error:
            await self.close()
            raise NotYet(f"{type(self).__name__}: {error}", code=SINK_STORE_UNUSABLE) from error
        except SinkStoreBroken as error:
            raise ConfigurationError(f"{type(self).__name__}: {error}", code=SINK_STORE_UNUSABLE) from error
        self._writer = self._loop.create_task(self._write(), name=f"{task.component}: writer")
        self._writer.add_done_callback(self._writer_ended)

    def execute(self, tup: Tuple[Record], out: Collector[Never]) -> Awaitable[None] | None:
        """Take a tuple, to be acked when it is durable. If the sink is full, return an awaitable for room."""
        if self.inputs_room() < 1:
            return self._execute_later(tup, out)
        self.take_inputs((tup,), out)
        return None

    def inputs_room(self) -> int:
        """Return how many tuples the sink can take now."""
        return self.batch * BATCHES_HELD - self.waiting

    @property
    def waiting(self) -> int:
        """The number of tuples that wait for the next write."""
        return len(self._waiting.tuples)

    def take_inputs(self, tuples: Sequence[Tuple[Any]], out: Collector[Never]) -> None:
        """Do as `execute` does for each of these tuples: at least one, and no more than there is room for.

        If it raises, it has taken none. A run calls it for many tuples at once, which takes a tenth of the time.
        """
        self._check()
        before = self.waiting
        self._waiting.tuples.extend(tuples)
        self._waiting.outs.extend(repeat(out, len(tuples)))
        if not before:
            self._first_at = self._loop.time()
            self._idle.clear()
            self._arrival.set()
        if before < self.batch <= self.waiting:
            self._arrival.set()

    async def flush(self, out: Collector[Never]) -> None:
        """Wait until every tuple taken has been acked or failed, and the store's file was looked through.

        If the store is away, return at once: the sink's tuples then stay open, and so does the run. Raises WorkerError
        if the store is broken.
        """
        self._hurry = True
        self._arrival.set()
        while not self._idle.is_set() and not self.away and self.broken is None:
            self._news.clear()
            await self._news.wait()
        self._hurry = False
        if self.broken is not None:
            raise self.broken
        self._check()
        store: object = self._store
        if self._idle.is_set() and self._looked_at != self.stored and isinstance(store, LooksThrough):
            await self._look_through(store)

    async def close(self) -> None:
        """Finish the write under way, fail the waiting tuples, and close the store.

        After close, `execute` raises. Does not wait for a store that is away; one that does not close in time is
        cancelled, and the log says so. After SinkStoreBroken, nothing is acked or failed any more."""
        if self._store is None:
            return
        self._ending.set()  # from now on a call has a limit
        try:
            if self._writer is not None:
                self._arrival.set()
                await asyncio.wait([self._writer])
            await self._patience.once(self._store.close)
        except ServerAway as error:
            log.warning("%s: its store was not closed in order: %s", self._component, error)
        finally:
            self._patience.close()
            self._store = None

    async def _look_through(self, store: LooksThrough) -> None:
        """Check that everything this run reports as stored can be read. Raises WorkerError if it cannot (F72)."""
        self._looked_at = self.stored
        try:
            whole = await self._patience.once(store.look_through)
        except ServerAway as error:
            log.warning("%s: what is stored could not be looked through: %s", self._component, error)
        except SinkStoreBroken as error:
            self.broken = self._broken_by(error)
            self._news.set()
            raise self.broken from error
        else:
            if not whole:
                log.info(
                    "%s: its file has more than %d MiB, and is not looked through for damage",
                    *(self._component, LOOK_BYTES_MAX >> 20),
                )

    def _broken_by(self, error: SinkStoreBroken) -> WorkerError:
        if error.damaged:
            return WorkerError(
                f"{self._component}: {error}; it does not hold all that was stored", code=SINK_FILE_DAMAGED
            )
        return WorkerError(f"{self._component}: its store is broken: {error}", code=SINK_STORE_BROKEN)

    # -- taking

    async def _execute_later(self, tup: Tuple[Any], out: Collector[Never]) -> None:
        while self.inputs_room() < 1 and self.broken is None:
            self._check()
            self._room.clear()
            await self._room.wait()
        self.take_inputs((tup,), out)

    def _check(self) -> None:
        """Raise RuntimeError if nothing would write the tuples taken.

        If the store is broken, the process is about to end. Tuples that come meanwhile stay open, because a failure
        would spend one of their attempts.
        """
        if self._writer is None or self._ending.is_set():
            raise RuntimeError(f"{type(self).__name__} is not open")
        if self._writer.done() and self.broken is None:
            raise RuntimeError(f"{type(self).__name__}'s writer has ended") from self._writer.exception()

    def _writer_ended(self, writer: "asyncio.Task[None]") -> None:
        """Wake all waiters, so that they see the end of the writer."""
        error = None if writer.cancelled() else writer.exception()
        if error is not None and self.broken is None:
            log.error("%s: its writer ended: %r (%s)", self._component, error, SINK_WRITER_DIED, exc_info=error)
        self._room.set()
        self._idle.set()
        self._news.set()

    # -- writing

    async def _write(self) -> None:
        """Write batch after batch until `close`. Runs as a background task."""
        while not self._ending.is_set():
            await self._arrival.wait()
            self._arrival.clear()
            while self._waiting and not self._ending.is_set():
                batch = self._waiting.take(self.batch)
                self._room.set()
                await self._commit(batch)
                await self._gather()
            if not self._waiting:
                self._idle.set()
                self._news.set()
        self._fail(self._waiting.take(self.waiting), "the sink was closed before this was stored")

    async def _gather(self) -> None:
        """Let the tuples that came during a write become a batch. Return at once if there are none or their time is
        over."""
        until = self._first_at + self.within_ms / 1000
        if not self._waiting or self._loop.time() >= until:
            return
        try:
            async with asyncio.timeout_at(until):
                while self.waiting < self.batch and not self._hurry and not self._ending.is_set():
                    self._arrival.clear()
                    await self._arrival.wait()
        except TimeoutError:
            return

    async def _commit(self, batch: HeldTuples) -> None:
        """Write one batch, then ack or fail each of its tuples."""
        assert self._store is not None
        try:
            written = await self._patience.ask(self._store.write, batch.tuples)
        except ServerAway as error:  # the sink is closing: give the batch up
            self._fail(batch, str(error))
            return
        except SinkStoreBroken as error:  # set `broken` before this task is done: nothing may fail in between
            self.broken = self._broken_by(error)
            raise
        except Exception as error:  # a bug of ours: nothing is acked, and the sink stays in use
            log.exception("%s: writing %d tuples failed", self._component, len(batch.tuples))
            self._fail(batch, f"{type(error).__name__}: {error}")
            return
        self._count(written.tally)
        await self._answer(batch, written.refused)

    async def _answer(self, batch: HeldTuples, refused: Mapping[int, str]) -> None:
        """Fail the refused tuples of a batch and ack the others, a few at a time; other tasks of the loop run in
        between."""
        if refused:
            self.refused += len(refused)
            first = next(iter(refused.values()))
            self._say(first, f"refused {len(refused)} of {len(batch.tuples)} tuples, the first because: {first}")
        else:
            self._trouble = ""
        for begin in range(0, len(batch.tuples), ANSWERED_AT_ONCE):
            if begin:
                await asyncio.sleep(0)
            part = batch.part(begin, begin + ANSWERED_AT_ONCE)
            if refused:
                for place, (tup, out) in enumerate(part.each(), begin):
                    if place in refused:
                        self._finish(tup, partial(out.fail, tup, refused[place]))
                is_stored = [place not in refused for place in range(begin, begin + len(part.tuples))]
                part = HeldTuples([*compress(part.tuples, is_stored)], [*compress(part.outs, is_stored)])
            self._ack(part)

    def _ack(self, stored: HeldTuples) -> None:
        """Ack the stored tuples; if they share one kind of collector that has `ack_all`, by one call.

        The runtime's own collectors of one task are alike, so one acks for all, in a third of the time. The class is
        asked, not the object: anything that wraps a collector, even for some of the tuples only, hears each ack.
        """
        kinds = {*map(type, stored.outs)}
        if len(kinds) == 1 and hasattr(kinds.pop(), "ack_all"):
            out: Any = stored.outs[0]
            for tup in out.ack_all(stored.tuples):
                self._log_late(tup)
            return
        for tup, each in stored.each():
            self._finish(tup, partial(each.ack, tup))

    def _finish(self, tup: Tuple[Any], act: Callable[[], None]) -> None:
        """Ack or fail the tuple."""
        try:
            act()
        except TupleStateError:
            self._log_late(tup)

    # -- reporting

    def _tell_away(self, why: str) -> None:
        self.away = why
        self._news.set()

    def _fail(self, batch: HeldTuples, reason: str) -> None:
        for tup, out in batch.each():
            self._finish(tup, partial(out.fail, tup, reason))
        if batch:
            self.refused += len(batch.tuples)
            self._say(reason, f"failed {len(batch.tuples)} tuples: {reason}")

    def _log_late(self, tup: Tuple[Any]) -> None:
        """Log a tuple that the runtime had given up. If it was stored, its replay will be dropped: nothing is wrong."""
        log.debug("%s: a %s was finished already when its write ended", self._component, type(tup.record).__name__)

    def _say(self, cause: str, sentence: str) -> None:
        """Warn of a problem when it begins or changes, not at each replay."""
        if cause != self._trouble:
            self._trouble = cause
            log.warning("%s: %s", self._component, sentence)

    def _count(self, tally: WriteCounts) -> None:
        before = self.stored + self.duplicates
        self.stored += tally.stored
        self.duplicates += tally.duplicates
        if before < ALL_KNOWN <= self.stored + self.duplicates and not self.stored:
            log.warning(
                "%s: the first %d outputs were all stored before, by an earlier run or a worker that was replaced, and "
                "are dropped as duplicates; another store would store them",
                self._component,
                ALL_KNOWN,
            )
        if tally.divergent:
            self.divergent += len(tally.divergent)
            log.warning(
                "%s: %d outputs have the %s of a stored one and another content, the first is %s; %s. A bolt before "
                "this sink is not deterministic",
                self._component,
                len(tally.divergent),
                "identity" if self.upsert is None else "key and revision",
                tally.divergent[0],
                "both are kept" if self.upsert is None else "the stored one is kept",
            )
