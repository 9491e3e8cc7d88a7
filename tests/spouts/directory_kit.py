"""Folders with real files for tests of `Directory`: written under a hidden name, and renamed into place."""

import asyncio
import gzip
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from acker.identity import MessageId
from spouts.directory.spout import Directory
from topology.components import Notes, Positions, Task
from topology.runtime.clock import LoopClock
from topology.storage.directory.state_dir import MemoryNotes
from topology.testing.sources import SourceItem, SourceSubject
from topology.testing.sources.driver import DrivenSource, Memory

WAIT_S = 30.0  # on a busy machine
FILES_EACH = 3  # files of one `put`


def place(path: Path, content: bytes) -> Path:
    """Makes a file as it should be done: it is complete when it gets its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return hidden.rename(path)


class DirectorySubject(SourceSubject):
    tasks = 2

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def make(self) -> Directory[SourceItem]:
        pattern = self.folder / "*.jsonl*"
        return Directory(pattern, value=SourceItem, follow=True, quiet_s=0, poll_interval_s=0.02)

    def put(self, numbers: Sequence[int]) -> None:
        begin = len(list(self.folder.iterdir()))
        for index in range(FILES_EACH):
            lines = [self.payload(number) + b"\n" for number in numbers[index::FILES_EACH]]
            ending = ".gz" if index == 1 else ""
            place(self.folder / f"{begin + index:06}.jsonl{ending}", b"".join(lines))

    def put_bad(self) -> bytes:
        place(self.folder / f"{len(list(self.folder.iterdir())):06}.jsonl", b'\n{"number": "one"}\n\n')
        return b'{"number": "one"}'

    @contextmanager
    def away(self) -> Iterator[None]:
        elsewhere = self.folder.with_name("elsewhere")
        self.folder.rename(elsewhere)
        yield
        elsewhere.rename(self.folder)

    def missing(self) -> Directory[SourceItem]:
        return Directory(self.folder / "none" / "*", value=SourceItem, follow=True)

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "directory_kit:DirectorySubject", [str(self.folder)]


@asynccontextmanager
async def opened(
    spout: Any, memory: Memory | None = None, tasks: int = 1, index: int = 0
) -> AsyncIterator[DrivenSource]:
    source = DrivenSource(spout, memory or Memory(), tasks, index)
    await source.open()
    try:
        yield source
    finally:
        await source.close()


async def read_all(spout: Any, memory: Memory | None = None, *, settles: bool = True) -> DrivenSource:
    """All that a source gives that ends; all of it is settled."""
    async with opened(spout, memory) as source:
        async with asyncio.timeout(WAIT_S):
            while not source.ended:
                new = await source.poll()
                if settles:
                    await source.settle(new)
    return source


def task_of(notes: Notes | None, folder: Path, tasks: int = 1, index: int = 0) -> Task:
    """A task on the running loop that has a folder for files of its own."""
    clock = LoopClock(asyncio.get_running_loop())
    return Task(
        "t", "lines", index, tasks, clock, random.Random(0), notes or MemoryNotes(), folder_of=lambda: made(folder)
    )


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


async def settled_by(
    spout: Any, task: Task, positions: Mapping[str, MessageId] | None = None, *, count: int | None = None
) -> list[str]:
    """The texts of up to `count` lines that a source gives, which are settled at once."""
    spout.open(task, Positions(positions or {}))
    found: list[str] = []
    async with asyncio.timeout(WAIT_S):
        while count is None or len(found) < count:
            messages = await spout.poll(128)
            if not messages:
                break
            for message in messages:
                found.append(message.record.text)
                spout.settled([message.id], message.partition)
    await spout.close()
    return found


def texts(source: DrivenSource) -> list[str]:
    return [message.record.text for message in source.messages]


def names_in(folder: Path) -> list[str]:
    return sorted(os.path.relpath(path, folder) for path in folder.rglob("*") if path.is_file())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # files set no event
            await asyncio.sleep(0.01)
