"""Drive a sink as the runtime does, and keep its answers. Must not know any check of the suite, nor a store."""

import asyncio
import copy
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from random import Random
from typing import Any, Final

from acker.roots import NUMBERS, owner, pack
from topology.codes.tuples import TUPLE_ALREADY_FINISHED
from topology.components import Bolt, Collector, Task
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.errors import TupleStateError
from topology.records import Record
from topology.runtime.clock import LoopClock
from topology.runtime.tasks.batch_executor import takes_many
from topology.runtime.tasks.executor import SLICE_MAX

_WORD: Final = 2**64
ANSWERED_S: Final = 60.0  # seconds that a sink has after `flush` to answer its inputs
_LOOK_S: Final = 0.001  # seconds between two looks for completion: what a thread has done sets no event


class SinkItem(Record):
    """A record that the suite stores."""

    number: int
    revision: int
    text: str
    value: float


def item(number: int, revision: int = 1, text: str = "") -> SinkItem:
    return SinkItem(number, revision, text or f"item {number}", number / 8)


def delivery(record: SinkItem, message: int | None = None, subscription: int = 0) -> Tuple[Any]:
    """Return a tuple of message `message`, by default the record's number. It has the same identity at each replay, and
    for each subscription."""
    number = record.number if message is None else message
    origin, identity = (number * 2 + 1) % _WORD, (number * 7919 + 1) % _WORD
    root = pack(owner(0, 1), 1 + number % (NUMBERS - 1), subscription)
    return Tuple(record, origin, identity, root, (), Source("items", "SinkItem", tag=subscription))


class Answers:
    """A collector that keeps acks, in order, and rejects a second one as the runtime does.

    `on_ack` is called at the moment of an ack: what is not stored then was acked too early.
    """

    def __init__(self, on_ack: Callable[[Tuple[Any]], None] | None = None) -> None:
        self.acked: list[Tuple[Any]] = []
        self._done: set[int] = set()
        self._on_ack = on_ack

    def emit(self, *_: object, **__: object) -> None:
        raise AssertionError("a sink emits nothing")

    def ack(self, tup: Tuple[Any]) -> None:
        self._finish(tup)
        self.acked.append(tup)
        if self._on_ack is not None:
            self._on_ack(tup)

    def ack_all(self, tuples: Iterable[Tuple[Any]]) -> list[Tuple[Any]]:
        """Ack each tuple that is not done, and return those that are. Sinks may use this method of the runtime's
        collector."""
        finished = []
        for tup in tuples:
            if self.is_done(tup):
                finished.append(tup)
            else:
                self.ack(tup)
        return finished

    def fail(self, tup: Tuple[Any], reason: str) -> None:
        self._finish(tup)

    def touch(self, tup: Tuple[Any]) -> None:
        """Do nothing: the runtime touches held tuples too."""

    async def drain(self) -> None:
        """Do nothing: nothing is below a sink."""

    def is_done(self, tup: Tuple[Any]) -> bool:
        return id(tup) in self._done

    def _finish(self, tup: Tuple[Any]) -> None:
        if id(tup) in self._done:
            raise TupleStateError("the sink has acked or failed a tuple twice", code=TUPLE_ALREADY_FINISHED)
        self._done.add(id(tup))


class RecordedAnswers(Answers):
    """A collector that keeps fails too, in order."""

    def __init__(self, on_ack: Callable[[Tuple[Any]], None] | None = None) -> None:
        super().__init__(on_ack)
        self.failed: list[tuple[Tuple[Any], str]] = []

    def fail(self, tup: Tuple[Any], reason: str) -> None:
        super().fail(tup, reason)
        self.failed.append((tup, reason))

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the acked items, in that order."""
        return [tup.record.number for tup in self.acked]


class _NoNotes:
    def get(self, name: str) -> str | None:
        return None

    def set(self, name: str, text: str) -> None:
        raise AssertionError("a sink that notes something is not known to this suite")


def sink_task(tasks: int = 1, index: int = 0, component: str = "sink") -> Task:
    """Return a task on the running loop."""
    clock = LoopClock(asyncio.get_running_loop())
    return Task("conformance", component, index, tasks, clock, Random(index), _NoNotes())


@asynccontextmanager
async def opened(prototype: Bolt, tasks: int = 1, index: int = 0, component: str = "sink") -> AsyncIterator[Any]:
    """Yield a task's own copy of the sink, opened, and close it at the end, as a run does."""
    sink: Any = copy.deepcopy(prototype)
    try:
        await _awaited(sink.open(sink_task(tasks, index, component)))
        yield sink
    finally:
        await _awaited(sink.close())


async def give(sink: Any, tuples: Iterable[Tuple[Any]], out: Answers) -> list[Tuple[Any]]:
    """Pass the tuples to the sink as a run does, and return them.

    A sink with `take_inputs` gets as many tuples as it has room for; any other gets them one by one in `execute`. Waits
    when the sink waits for room. An exception of the sink fails these tuples, as in a run; the suite's own errors are
    raised.
    """
    passed, remaining = [], iter(tuples)
    while part := [*islice(remaining, max(1, min(SLICE_MAX, sink.inputs_room())) if takes_many(sink) else 1)]:
        passed += part
        try:
            if takes_many(sink) and sink.inputs_room() > 0:
                sink.take_inputs(part, out)
            else:
                await _awaited(sink.execute(part[0], out))
        except (AssertionError, TupleStateError):
            raise
        except Exception as error:
            for tup in part:
                if not out.is_done(tup):
                    out.fail(tup, f"{type(error).__name__}: {error}")
    return passed


async def feed(sink: Any, tuples: Iterable[Tuple[Any]], out: RecordedAnswers | None = None) -> RecordedAnswers:
    """Pass the tuples to the sink, end the input, and return after each was acked or failed."""
    out = out or RecordedAnswers()
    await fed(sink, tuples, out)
    return out


async def fed(sink: Any, tuples: Iterable[Tuple[Any]], out: Answers) -> None:
    """Do as `feed` does, for a collector of any kind."""
    passed = await give(sink, tuples, out)
    await flush(sink, out)
    if not await within(ANSWERED_S, lambda: all(map(out.is_done, passed))):
        owed = [tup.record for tup in passed if not out.is_done(tup)]
        text = (
            f"neither acked nor failed {ANSWERED_S:g} s after `flush`: {len(owed)} of {len(passed)} tuples, the first"
        )
        raise AssertionError(f"{text} is {owed[0]!r}")


async def flush(sink: Any, out: "Answers | Collector[Any]") -> None:
    if (call := getattr(sink, "flush", None)) is not None:
        await _awaited(call(out))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition. The check bounds the time."""
    while not condition():  # noqa: ASYNC110  # what a thread has done sets no event
        await asyncio.sleep(_LOOK_S)


async def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Return True if the condition came true in that time."""
    try:
        async with asyncio.timeout(seconds):
            await until(condition)
    except TimeoutError:
        return False
    return True


async def _awaited(result: Awaitable[None] | None) -> None:
    if result is not None and inspect.isawaitable(result):
        await result
