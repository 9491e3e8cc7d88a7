"""Sinks of a topology on Spark, in the driver: driven as Kedge's workers drive them, a batch at a time.

A batch is done when each of its rows is acked, or rejected; so Spark's commit of it says that it is stored, and a batch
that is repeated meets sinks that know its identities. Knows the contract of bolts; no Spark.
"""

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, TypeVar

from bridge.engine_parts import Routing
from bridge.engine_rows import Rejected, Row
from topology.codes.tuples import K612
from topology.components import Task, Tuple
from topology.errors import Reject, TupleStateError
from topology.runtime.copying import prototype_copy
from topology.runtime.failures import described, shown
from topology.runtime.outputs import waits

LOOK_S: Final = 0.002  # between two looks whether all rows of a batch are answered
SHOWN_MAX: Final = 1_000  # characters of a rejected record

T = TypeVar("T")
OpenTask = Callable[[str, int], Task]


class Answers:
    """The collector of one sink's task: what of a batch was acked, and what has failed."""

    def __init__(self) -> None:
        self.failed: list[tuple[Tuple[Any], str]] = []
        self._open: set[int] = set()

    @property
    def waits(self) -> bool:
        """Whether something is neither acked nor failed."""
        return bool(self._open)

    def given(self, tup: Tuple[Any]) -> None:
        """This one goes to the sink."""
        self._open.add(id(tup))

    def emit(self, *_: object, **__: object) -> None:
        raise AssertionError("what emits nothing is a sink")

    def ack(self, tup: Tuple[Any]) -> None:
        self._answered(tup)

    def fail(self, tup: Tuple[Any], reason: str) -> None:
        self._answered(tup)
        self.failed.append((tup, reason))

    def touch(self, tup: Tuple[Any]) -> None:
        """Nothing has a deadline here."""

    async def drain(self) -> None:
        """Nothing is below a sink."""

    def is_open(self, tup: Tuple[Any]) -> bool:
        return id(tup) in self._open

    def _answered(self, tup: Tuple[Any]) -> None:
        if id(tup) not in self._open:
            raise TupleStateError("a sink has acked or failed a tuple twice", code=K612)
        self._open.discard(id(tup))


class Sinks:
    """All sinks of a topology, each task of each, on an event loop in a thread of their own. Blocks in each call."""

    def __init__(self, routing: Routing, task_of: OpenTask) -> None:
        self._routing, self._task_of = routing, task_of
        components = routing.plan.components
        self._places = [(name, task) for name in routing.mapped.sinks for task in range(components[name].tasks)]
        self._sinks: dict[tuple[str, int], tuple[Any, Answers]] = {}
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True, name="sinks")
        self._thread.start()

    def open(self) -> None:
        """Opens them. Raises what that raises, ConfigurationError for what a user has to mend."""
        self._done(self._open())

    def take(self, rows: Iterable[Row]) -> tuple[Counter[tuple[str, str]], list[Rejected]]:
        """Gives each its rows, in their order, and returns once all are acked or failed: counts, and those that have
        failed for good. Raises what a `process` raises, but for Reject."""
        return self._done(self._take([*rows]))

    def close(self) -> dict[str, list[str]]:
        """Closes them; what they say at the end, by name. They may be opened again."""
        return self._done(self._close())

    def end(self) -> None:
        """Ends their loop: they are not opened again."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _done(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self.loop).result()

    async def _open(self) -> None:
        components = self._routing.plan.components
        for name, task in self._places:
            sink = prototype_copy(components[name])
            self._sinks[name, task] = sink, Answers()
            await _awaited(sink.open(self._task_of(name, task)))

    async def _take(self, rows: list[Row]) -> tuple[Counter[tuple[str, str]], list[Rejected]]:
        counts: Counter[tuple[str, str]] = Counter()
        rejected: list[Rejected] = []
        rows.sort(key=lambda row: row.position)
        alive = []  # ids name them while they are here
        for row in rows:
            name = self._routing.component(row)
            tup = self._routing.tuple(row)
            alive.append(tup)
            sink, answers = self._sinks[name, row.task]
            counts[name, "executed"] += 1
            if hasattr(sink, "execute"):
                await _executed(sink, tup, answers)
            elif (error := await _processed(sink, tup)) is not None:
                rejected.append(_told(name, tup, described(error)))
        for name, task in self._places:
            rejected += [one async for one in self._answers(name, task)]
        return counts, rejected

    async def _answers(self, name: str, task: int) -> AsyncIterator[Rejected]:
        """What has failed of what this one was given, once it has answered for all of it."""
        sink, answers = self._sinks[name, task]
        flush = getattr(sink, "flush", None)
        while answers.waits:
            if sink.broken is not None:
                raise sink.broken
            if flush is not None:
                await _awaited(flush(answers))
            if answers.waits:
                await asyncio.sleep(LOOK_S)
        failed, answers.failed = answers.failed, []
        for tup, why in failed:
            yield _told(name, tup, why)

    async def _close(self) -> dict[str, list[str]]:
        said: dict[str, list[str]] = {}
        while self._sinks:
            (name, _), (sink, _) = self._sinks.popitem()
            if lines := [str(line) for line in sink.summary()]:
                said.setdefault(name, []).extend(lines)
            await _awaited(sink.close())
        return said


async def _executed(sink: Any, tup: Tuple[Any], answers: Answers) -> None:
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


def _told(name: str, tup: Tuple[Any], why: str) -> Rejected:
    return Rejected(name, why, shown(tup.record, SHOWN_MAX))
