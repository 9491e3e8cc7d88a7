"""Drive a source as a spout task does: open, poll, end messages, settle, close, and again where it left.

Must not know any check of the suite, nor a server.
"""

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable
from itertools import groupby
from operator import attrgetter
from random import Random
from typing import Any, Final

from acker.identity import MessageId
from topology.components import Message, Positions, Spout, Task
from topology.dead_letters import Malformed
from topology.records import Record
from topology.runtime.clock import LoopClock
from topology.storage.directory.state_dir import MemoryNotes

QUIET_S: Final = 0.5  # seconds without a message after which nothing more is expected
LIMIT: Final = 128  # messages of one poll, as in a run
LOOK_S: Final = 0.005  # seconds between two looks for a condition


class SourceItem(Record):
    """The record that most subjects give: their payload is {"number": 1, "text": "item 1"}."""

    number: int
    text: str


class Memory:
    """The knowledge of a run's state directory of one task: its notes, which messages are done, and where to resume."""

    def __init__(self) -> None:
        self.notes = MemoryNotes()
        self.done: set[tuple[str, MessageId]] = set()
        self.given: dict[str, dict[MessageId, None]] = {}  # partition → ids in order
        self.epochs: dict[str, str] = {}

    def positions(self) -> Positions:
        """Return the oldest message of each partition that is not done, or the newest one if all are."""
        found: dict[str, MessageId] = {}
        for partition, ids in self.given.items():
            undone = next((each for each in ids if (partition, each) not in self.done), None)
            found[partition] = undone if undone is not None else next(reversed(ids))
        return Positions(found, self.epochs)


class DrivenSource:
    """One task's copy of a source, opened. Messages that are done already are passed over, as in a run."""

    def __init__(self, prototype: Spout, memory: Memory, tasks: int = 1, index: int = 0) -> None:
        self.spout: Any = copy.deepcopy(prototype)
        self.memory = memory
        self.messages: list[Message[Any]] = []  # in their order, without those that were done before
        self.repeated = 0  # messages that came although they were done
        self.ended = False
        self._under_way: set[tuple[str, MessageId]] = set()
        self._tasks, self._index = tasks, index

    async def open(self) -> None:
        """Open the source at the positions of its memory."""
        clock = LoopClock(asyncio.get_running_loop())
        task = Task("conformance", "source", self._index, self._tasks, clock, Random(self._index), self.memory.notes)
        await awaited(self.spout.open(task, self.memory.positions()))

    async def poll(self, limit: int = LIMIT) -> list[Message[Any]]:
        """Poll once; return the messages that are new to this run."""
        given = list(await self.spout.poll(limit))
        assert len(given) <= limit, f"poll({limit}) returned {len(given)} messages"
        if not given:
            self.ended = True
        self.memory.epochs = dict(self.spout.partitions())
        new = []
        for message in given:
            name = message.partition, message.id
            assert message.partition in self.memory.epochs, f"partitions() does not name {message.partition!r}"
            if name in self.memory.done:
                self.repeated += 1
                self.spout.settled([message.id], message.partition)
            elif name not in self._under_way:
                self._under_way.add(name)
                self.memory.given.setdefault(message.partition, {})[message.id] = None
                new.append(message)
        self.messages += new
        return new

    async def take(self, count: int, within_s: float) -> list[Message[Any]]:
        """Poll until so many new messages have come in all, or the source has ended, or the time is over."""
        try:
            async with asyncio.timeout(within_s):
                while len(self.messages) < count and not self.ended:
                    await self.poll(min(LIMIT, count - len(self.messages)))
        except TimeoutError:
            pass
        return self.messages

    async def rest(self, quiet_s: float = QUIET_S) -> list[Message[Any]]:
        """Poll until nothing has come for a while."""
        while not self.ended:
            try:
                async with asyncio.timeout(quiet_s):
                    await self.poll()
            except TimeoutError:
                break
        return self.messages

    async def settle(self, messages: list[Message[Any]]) -> None:
        """End these messages, as by a decided checkpoint."""
        self.memory.done.update((message.partition, message.id) for message in messages)
        for message in messages:
            self.spout.ack(message.id)
        for partition, some in groupby(messages, attrgetter("partition")):
            self.spout.settled([message.id for message in some], partition)

    async def close(self) -> None:
        """Close the source, as at the end of a run."""
        await awaited(self.spout.close())


def is_malformed(message: Message[Any]) -> bool:
    """Return True if its source could not read it."""
    return isinstance(message.record, Malformed)


async def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Return True if the condition came true in that time."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  # what a server or a thread has done sets no event
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        return False
    return True


async def awaited(result: Awaitable[None] | None) -> None:
    """Await it if it has to be awaited."""
    if result is not None and inspect.isawaitable(result):
        await result
