"""What the tests of sources share: a real task, and what a source has emitted, with its identities."""

import asyncio
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from acker.identity import MessageId, message_pair, partition_seed
from topology.components import Clock, Message, Notes, Task
from topology.runtime.clock import LoopClock
from topology.storage.directory.state_dir import MemoryNotes

PATIENCE_S = 20.0  # after which a test that waits for lines has failed
LINES = 8
LAST = "the last line"
BANNER = "# " + "the same banner in every file " * 40 + "\n"  # more than 1,024 bytes


@dataclass(frozen=True)
class Emitted:
    """One message, and the epoch that its partition had right after the poll."""

    record: Any
    id: MessageId
    partition: str
    epoch: str

    @property
    def pair(self) -> tuple[int, int]:
        """(origin, identity): what a sink knows the message by."""
        return message_pair(self.id, partition_seed("topology", "lines", self.partition, self.epoch))


def make_task(notes: Notes | None = None, clock: Clock | None = None, index: int = 0, tasks: int = 1) -> Task:
    """A task on the running loop. Its random numbers are the same in every run, as a careless host's would be."""
    clock = clock or LoopClock(asyncio.get_running_loop())
    return Task("topology", "lines", index, tasks, clock, random.Random(0), notes or MemoryNotes())


class Reading:
    """An opened source and all that it has emitted."""

    def __init__(
        self, spout: Any, task: Task | None = None, positions: Mapping[str, MessageId] | None = None, limit: int = 128
    ) -> None:
        self.spout = spout
        self.limit = limit
        self.emitted: list[Emitted] = []
        self.polls = 0
        spout.open(task or make_task(), positions or {})

    async def poll(self) -> Sequence[Message[Any]]:
        """One poll; checks what every poll promises."""
        messages: Sequence[Message[Any]] = await self.spout.poll(self.limit)
        assert len(messages) <= self.limit
        epochs = self.spout.partitions()
        assert epochs is self.spout.partitions()
        self.polls += 1
        self.emitted += [Emitted(m.record, m.id, m.partition, epochs[m.partition]) for m in messages]
        return messages

    async def to_the_end(self) -> list[Emitted]:
        """All that a source with an end emits."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.poll():
                pass
        return self.emitted

    async def until(self, count: int) -> list[Emitted]:
        """All emitted so far, once there are at least `count`."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.emitted) < count:
                await self.poll()
        return self.emitted

    async def until_text(self, text: str) -> list[Emitted]:
        """All emitted so far, once the line `text` is among them."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.texts:
                await self.poll()
        return self.emitted

    @property
    def texts(self) -> list[str]:
        return [one.record.text for one in self.emitted]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return [one.pair for one in self.emitted]

    def close(self) -> None:
        self.spout.close()


class SetClock:
    """A clock that stands where it is put."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now.timestamp()

    def utc(self) -> datetime:
        return self.now


def texts_of(name: str) -> list[str]:
    return [f"{name} line {number}" for number in range(LINES)]


def content_of(name: str) -> bytes:
    return "".join(f"{text}\n" for text in texts_of(name)).encode()


def append(path: Path, *texts: str) -> None:
    with path.open("ab") as file:
        file.write("".join(f"{text}\n" for text in texts).encode())


def aged(path: Path, hours: int) -> None:
    """Makes the file one that was last changed so long ago, as its successors came later."""
    at = path.stat().st_mtime_ns - hours * 3_600 * 10**9
    os.utime(path, ns=(at, at))


async def reads_the_rest_once(
    second: Reading, path: Path, before: Sequence[Emitted], expected: Sequence[str], follow: bool
) -> None:
    """A run that is resumed at the last message of the one `before` comes to all that is expected of both, once."""
    if follow:
        append(path, LAST)
        await second.until_text(LAST)
    else:
        await second.to_the_end()
    again, *rest = second.emitted
    assert again == before[-1], "a position is inclusive"
    assert [one.record.text for one in [*before, *rest]] == [*expected, *([LAST] if follow else [])]
    pairs = [one.pair for one in [*before, *rest]]
    assert len(set(pairs)) == len(pairs)
