"""The topology that the chaos tests run: numbered sentences are split, and each occurrence of a word is one row.

    numbers ─ Sentence ─► split (a task on each of two workers) ─ Word ─► store (SqliteSink, one task)

No bolt has state: after a worker's death its spouts read on from what was kept, and what the sink knows it drops.
`trouble` is what a task of `split` does, once in a run, when it meets the record `at`.
"""

import asyncio
import ctypes
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Never

from bolts import Print, SqliteSink
from topology import Bolt, Collector, Message, Record, Spout, Task, Topology, Tuple

DIGITS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Sentence(Record):
    n: int
    text: str


class Word(Record):
    n: int
    place: int
    text: str


class Nothing(Record):
    pass


def text_of(n: int) -> str:
    """A few words that name the number, in an order that matters: "two-five one-zero-four" is 25,104."""
    return " ".join("-".join(DIGITS[int(digit)] for digit in str(part)) for part in divmod(n, 1000))


class Book:
    """What one task of a spout has read, and how much of that is done, in a file that outlives its process: SIGKILL
    takes nothing that was written to memory shared with it."""

    FORM: Final = struct.Struct("<QQQ")

    def __init__(self, folder: Path, component: str, index: int) -> None:
        path = folder / f"{component}-{index}-{os.getpid()}"
        path.write_bytes(bytes(self.FORM.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), self.FORM.size)
        self.read = self.done = self.dead = 0

    def write(self) -> None:
        self.FORM.pack_into(self._memory, 0, self.read, self.done, self.dead)


def note_opened(path: Path, position: int) -> None:
    """Adds where a task of the spout has begun to what the earlier ones have noted."""
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    try:
        os.write(file, f"{os.getpid()} {position}\n".encode())
    finally:
        os.close(file)


@cache
def works(folder: Path) -> None:
    """Leaves a file that says so of this process; called for each record."""
    signs = folder / "working"
    signs.mkdir(exist_ok=True)
    (signs / str(os.getpid())).touch()


class Numbers(Spout):
    """Task i of n emits every n-th of the first `count` numbers, from i on; about `rate` a second, or all it can. All
    share a partition, and ids grow in each, so that another number of tasks resumes at the lowest of their marks."""

    shared_ids = True

    def __init__(self, folder: Path, count: int, rate: int) -> None:
        self.folder, self.count, self.rate = folder, count, rate

    def open(self, task: Task, positions: Mapping[str, Any]) -> None:
        kept = positions.get("", 0)
        self.next, self.step = kept + (task.index - kept) % task.tasks, task.tasks
        note_opened(self.folder.parent / "opened", kept)
        self.book = Book(self.folder, task.component, task.index)
        self.loop = asyncio.get_running_loop()
        self.begun = self.loop.time()

    async def poll(self, limit: int) -> list[Message[Sentence]]:
        if self.rate:
            due = self.begun + self.book.read / self.rate - self.loop.time()
            if due > 0:
                await asyncio.sleep(due)
            limit = min(limit, max(1, self.rate // 200))
        numbers = range(self.next, self.count, self.step)[:limit]
        self.next += len(numbers) * self.step
        self.book.read += len(numbers)
        self.book.write()
        return [Message(Sentence(n, text_of(n)), n) for n in numbers]

    def ack(self, id: Any) -> None:
        self.book.done += 1
        self.book.write()

    def fail(self, id: Any) -> None:
        self.book.dead += 1
        self.book.write()


class Silent(Spout):
    """Takes a worker's first place, so that what is declared after it is on the other one. Has nothing to say."""

    async def poll(self, limit: int) -> list[Message[Nothing]]:
        return []


class Split(Bolt):
    def __init__(self, folder: Path, trouble: str, at: int, seconds: float) -> None:
        self.folder, self.trouble, self.at, self.seconds = folder, trouble, at, seconds

    def process(self, sentence: Sentence) -> Iterator[Word]:
        works(self.folder)
        if self.trouble and sentence.n == self.at:
            self.misbehave()
        for place, word in enumerate(sentence.text.split()):
            yield Word(sentence.n, place, word)

    def misbehave(self) -> None:
        if self.trouble.startswith("always "):
            TROUBLES[self.trouble.removeprefix("always ")](self.seconds)
        elif first_to(self.folder / "trouble"):
            TROUBLES[self.trouble](self.seconds)


TROUBLES: Final[Mapping[str, Callable[[float], Any]]] = {
    "_exit": lambda _: os._exit(1),
    "segfault": lambda _: ctypes.string_at(0),
    "abort": lambda _: os.abort(),
    "exit": lambda _: sys.exit(1),
    "hang": lambda seconds: ctypes.PyDLL(None).sleep(int(seconds)),  # and keeps the interpreter's lock to itself
    "sleep": time.sleep,  # the whole loop, and that is the point
}


def first_to(path: Path) -> bool:
    """Whether nobody has made this file before, in whatever process."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class SlowSink(SqliteSink):
    """Takes `every_s` for each row."""

    every_s = 0.0

    async def execute(self, tup: Tuple[Record], out: Collector[Never]) -> None:
        await asyncio.sleep(self.every_s)
        if (room := super().execute(tup, out)) is not None:
            await room


def topology(
    folder: str,
    count: int = 200_000,
    rate: int = 0,
    layout: str = "together",
    slow_s: float = 0.0,
    trouble: str = "",
    at: int = 0,
    seconds: float = 0.0,
    loud: bool = False,
    splits: int = 2,
) -> Topology:
    """`layout` says where things are on two workers, 0 and 1:

    together   spout and sink on 0
    apart      sink on 0, spout on 1
    both       a task of the spout on each, sink on 0
    """
    place = Path(folder)
    topology = Topology("numbered")
    silent = topology.spout("silent", Silent()) if layout == "apart" else None
    numbers = topology.spout("numbers", Numbers(place / "books", count, rate), tasks=2 if layout == "both" else 1)
    words = topology.bolt("split", Split(place, trouble, at, seconds), numbers.shuffle(), tasks=splits)
    sink = SlowSink(place / "store.db") if slow_s else SqliteSink(place / "store.db", records=[Word], batch=2000)
    if isinstance(sink, SlowSink):
        sink.every_s = slow_s
    inputs = [silent.global_()] if silent is not None else []
    topology.bolt("store", sink, *inputs, words.global_())
    if loud:
        topology.bolt("print", Print(), words.shuffle(), tasks=2)
    return topology
