"""Sinks of a topology on Spark, driven as Kedge's workers drive them, one batch at a time, in the driver and in Spark's
Python processes.

A batch is done when each of its rows is acked or rejected, so Spark's commit of a batch means that it is stored. A
repeated batch meets sinks that know its identities. Knows the contract of bolts; must not know Spark.
"""

import asyncio
import concurrent.futures
import contextlib
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from bridge.engine.rows import EngineRow, Rejected
from bridge.engine.stage import Routing
from bridge.engine.user_errors import USERS, ComponentRaised, at_input
from topology.codes.tuples import TUPLE_ALREADY_FINISHED
from topology.components import Task
from topology.core.tuples import Tuple
from topology.errors import KedgeError, NotYet, Reject, TupleStateError
from topology.runtime.hot.outputs import waits
from topology.runtime.prototypes import prototype_copy
from topology.runtime.worker.start_wait import RETRY_LAST_S, open_in_time
from topology.user_frames import described, shown

LOOK_S: Final = 0.002  # seconds between two checks for answers to all rows of a batch
AWAY_S: Final = 0.05  # the same while a store is unavailable
TELL_S: Final = 1.0  # seconds between two checks for unavailable stores
SHOWN_MAX: Final = 1_000  # characters of a rejected record that are shown
FLUSHES: Final = "on Spark no more tuples come before these are answered; add a flush(self, out) that answers for them"
TOLD: Final = ("stored", "duplicates")  # counts of a `BatchingSink` that are added up over processes

T = TypeVar("T")
OpenTask = Callable[[str, int], Task]
Away = Mapping[str, str]  # sink → why its store is unavailable


class BatchAnswers:
    """The collector of one sink's task for one batch: what was acked and what has failed. `moved` counts the sink's
    calls about any tuple."""

    def __init__(self) -> None:
        self.failed: list[tuple[Tuple[Any], str]] = []
        self.moved = 0
        self._open: set[int] = set()

    @property
    def waits(self) -> int:
        """Return the number of tuples that are neither acked nor failed."""
        return len(self._open)

    def given(self, tup: Tuple[Any]) -> None:
        """Note that this tuple is given to the sink."""
        self._open.add(id(tup))

    def emit(self, *_: object, **__: object) -> None:
        raise AssertionError("a sink cannot emit")

    def ack(self, tup: Tuple[Any]) -> None:
        self._answered(tup)

    def ack_all(self, tuples: Iterable[Tuple[Any]]) -> list[Tuple[Any]]:
        """Ack those of the tuples that are open. Return the others."""
        finished = []
        for tup in tuples:
            if self.is_open(tup):
                self.ack(tup)
            else:
                finished.append(tup)
        return finished

    def fail(self, tup: Tuple[Any], reason: str) -> None:
        self._answered(tup)
        self.failed.append((tup, reason))

    def touch(self, tup: Tuple[Any]) -> None:
        self.moved += 1

    async def drain(self) -> None:
        """Return at once: nothing is below a sink."""

    def is_open(self, tup: Tuple[Any]) -> bool:
        return id(tup) in self._open

    def _answered(self, tup: Tuple[Any]) -> None:
        if id(tup) not in self._open:
            raise TupleStateError("a sink acked or failed a tuple twice", code=TUPLE_ALREADY_FINISHED)
        self._open.discard(id(tup))
        self.moved += 1


class Sinks:
    """Sinks of a topology, on an event loop in a thread of its own. Each call blocks.

    places   the name of each sink, and the number of its task.
    tell     is called each second during a long call, with the sinks that wait for their stores and the reasons;
             and with nothing once none waits any more.
    prepare  is called with each sink's name and object before it is opened.
    """

    def __init__(
        self,
        routing: Routing,
        places: Iterable[tuple[str, int]],
        task_of: OpenTask,
        tell: Callable[[Away], None] = lambda away: None,
        prepare: Callable[[str, Any], None] = lambda name, sink: None,
    ) -> None:
        self._routing, self._task_of, self._tell, self._prepare = routing, task_of, tell, prepare
        self._places = tuple(places)
        self._silent_s = routing.plan.config.tree_timeout_s
        self._start_timeout_s = routing.plan.config.start_timeout_s
        self._sinks: dict[tuple[str, int], Any] = {}
        self._closed: dict[str, str] = {}  # sink that cannot be opened yet → the reason
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True, name="sinks")
        self._thread.start()

    def open(self, *, patient: bool = False) -> None:
        """Open all sinks, or none. Raises ComponentRaised, and ConfigurationError for what a user has to fix. Waits for
        an unavailable store: without limit if `patient`, otherwise for `start_timeout_s`, after which it raises
        StartError."""
        self._done(self._open(patient))

    def take(self, rows: Iterable[EngineRow]) -> tuple[Counter[tuple[str, str]], list[Rejected]]:
        """Give each sink its rows in order, and return once all are acked or failed: the counts, and the rows that
        failed for good. Raises ComponentRaised for an exception of a sink other than Reject, and what a sink is
        `broken` by. Afterwards the same rows may be given again."""
        return self._done(self._take([*rows]))

    def tally(self) -> Counter[tuple[str, str]]:
        """Return the numbers of stored and known records since the sinks were opened, for sinks that count them."""
        found: Counter[tuple[str, str]] = Counter()
        for (name, _), sink in self._sinks.items():
            found.update({(name, what): getattr(sink, what) for what in TOLD if hasattr(sink, what)})
        return found

    def close(self) -> tuple[dict[str, list[str]], list[ComponentRaised]]:
        """Close all sinks. Return their summaries by name, and their exceptions, which do not keep other sinks from
        being closed. They may be opened again."""
        return self._done(self._close())

    def end(self) -> None:
        """Stop the event loop. The sinks cannot be opened again."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _done(self, doing: Coroutine[Any, Any, T]) -> T:
        future, was_away = asyncio.run_coroutine_threadsafe(doing, self.loop), False
        while not concurrent.futures.wait([future], TELL_S).done:
            away = {**self._closed, **{name: sink.away for (name, _), sink in [*self._sinks.items()] if sink.away}}
            if away or was_away:
                self._tell(away)
            was_away = bool(away)
        if was_away:
            self._tell({})
        return future.result()

    async def _open(self, patient: bool) -> None:
        try:
            for name, task in self._places:
                while (sink := await self._opened(name, task, patient)) is None:
                    continue
                self._sinks[name, task] = sink
        except BaseException:
            await self._close()
            raise

    async def _opened(self, name: str, task: int, patient: bool) -> Any:
        """Return the open sink. If its store is unavailable, wait and return None, so that the caller tries again."""
        sink = prototype_copy(self._routing.plan.components[name])
        self._prepare(name, sink)
        try:
            opening = partial(sink.open, self._task_of(name, task))
            if patient:
                await _awaited(opening())
            else:
                await open_in_time(name, opening, asyncio.get_running_loop().time, self._start_timeout_s)
        except USERS as error:
            with contextlib.suppress(*USERS):  # the first exception is the reason
                await _awaited(sink.close())
            if not isinstance(error, KedgeError):
                raise ComponentRaised(name, "open", error) from error
            if not patient or not isinstance(error, NotYet):
                raise
            self._closed[name] = str(error)
            await asyncio.sleep(RETRY_LAST_S)
            return None
        self._closed.pop(name, None)
        return sink

    async def _take(self, rows: list[EngineRow]) -> tuple[Counter[tuple[str, str]], list[Rejected]]:
        counts: Counter[tuple[str, str]] = Counter()
        rejected: list[Rejected] = []
        rows.sort(key=lambda row: row.position)
        alive = []  # ids name them while they are here
        # New for each batch: late answers to a failed batch do not count.
        answers = {place: BatchAnswers() for place in self._places}
        for row in rows:
            name = self._routing.component(row)
            tup = self._routing.tuple(row)
            alive.append(tup)
            sink = self._sinks[name, row.task]
            counts[name, "executed"] += 1
            try:
                if call_of(sink) == "execute":
                    await _executed(sink, tup, answers[name, row.task])
                elif (error := await _processed(sink, tup)) is not None:
                    rejected.append(_rejected(name, tup, described(error)))
            except USERS as error:
                raise sink.broken or at_input(name, call_of(sink), error, tup.record) from error
        for (name, task), given in answers.items():
            await self._until_answered(name, self._sinks[name, task], given)
            rejected += [_rejected(name, tup, why) for tup, why in given.failed]
        return counts, rejected

    async def _until_answered(self, name: str, sink: Any, answers: BatchAnswers) -> None:
        """Return once a sink has acked or failed all tuples that it was given. A sink that does nothing is given as
        long as a tree in Kedge's workers; an unavailable store is waited for without limit."""
        flush = getattr(sink, "flush", None)
        moved, since = -1, 0.0
        while answers.waits:
            if sink.broken is not None:
                raise sink.broken
            if flush is not None:
                try:
                    await _awaited(flush(answers))
                except USERS as error:
                    raise sink.broken or ComponentRaised(name, "flush", error) from error
            if moved != answers.moved or sink.away:
                moved, since = answers.moved, self.loop.time()
            elif self.loop.time() - since > self._silent_s:
                text = f"{answers.waits:,} tuples were neither acked nor failed within {self._silent_s:g} s; {FLUSHES}"
                raise ComponentRaised(name, call_of(sink), TimeoutError(text))
            if answers.waits:
                await asyncio.sleep(AWAY_S if sink.away else LOOK_S)

    async def _close(self) -> tuple[dict[str, list[str]], list[ComponentRaised]]:
        said: dict[str, list[str]] = {}
        raised: list[ComponentRaised] = []
        while self._sinks:
            (name, _), sink = self._sinks.popitem()
            try:
                if lines := [str(line) for line in sink.summary()]:
                    said.setdefault(name, []).extend(lines)
            except USERS as error:
                raised.append(ComponentRaised(name, "summary", error))
            try:
                await _awaited(sink.close())
            except USERS as error:
                raised.append(ComponentRaised(name, "close", error))
        return said, raised


def call_of(sink: Any) -> str:
    """Return the name of the method that takes the sink's tuples."""
    return "execute" if hasattr(sink, "execute") else "process"


async def _executed(sink: Any, tup: Tuple[Any], answers: BatchAnswers) -> None:
    answers.given(tup)
    try:
        await _awaited(sink.execute(tup, answers))
    except Reject as error:
        if answers.is_open(tup):
            answers.fail(tup, described(error))


async def _processed(sink: Any, tup: Tuple[Any]) -> Reject | None:
    try:
        outputs = sink.process(tup.record)
        if outputs is not None and waits(outputs):
            await _awaited(outputs)
        elif isinstance(outputs, Iterator):
            for _ in outputs:
                pass
    except Reject as error:
        return error
    return None


async def _awaited(result: Any) -> None:
    if result is not None and inspect.isawaitable(result):
        await result


def _rejected(name: str, tup: Tuple[Any], why: str) -> Rejected:
    return Rejected(name, why, shown(tup.record, SHOWN_MAX))


OF: Final = "of "  # prefix of a class name in counts: how many of its records a sink was given

Counts = Mapping[tuple[str, str], int]


def counts_itself(sink: object) -> bool:
    """Return True if a sink has the counts that can be added up."""
    return all(hasattr(sink, what) for what in TOLD)


def with_counts(routing: Routing, counts: Counts) -> Callable[[str, Any], None]:
    """Return a function that sets a sink's counts before it is opened."""

    def prepare(name: str, sink: Any) -> None:
        for what in TOLD:
            setattr(sink, what, counts.get((name, what), 0))
        if hasattr(sink, "records"):  # the classes whose tables it had in other processes
            reads = [read.cls for read in routing.subscriptions if read.subscriber == name]
            sink.records = tuple(dict.fromkeys(cls for cls in reads if counts.get((name, f"{OF}{cls.__name__}"))))

    return prepare


def summary_of_all(
    name: str, counts: Counts, made: Callable[[], Sinks], tell: Callable[[Sequence[ComponentRaised]], None]
) -> list[str]:
    """Return the summary of a sink for all its copies. `made` returns one more copy, not yet open. If the copy cannot
    be opened now, return the counts and the reason. `tell` is called with everything that the copy raised, which ends
    nothing."""
    sinks = made()
    try:
        sinks.open()
        said, raised = sinks.close()
        tell(raised)
        return said.get(name, [])
    except (KedgeError, ComponentRaised) as error:
        if isinstance(error, ComponentRaised):
            tell([error])
        stored, known = (counts.get((name, what), 0) for what in TOLD)
        return [f"{stored:,} stored, {known:,} known already", f"its own summary is unavailable: {error}"]
    finally:
        sinks.end()
