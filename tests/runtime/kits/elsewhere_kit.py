"""A topology that reads what it has put elsewhere itself, as it does with a query's results: by a file in the folder of
the run. What workers make by name, and a test for the supervisor's own copy.

    numbers → hand ⇢ (a file) ⇢ back → store

`hand` appends each number to its file once, and when it is flushed says in another one that this is all. `back` ends
when it has read what stands before that.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Never

from runtime_kit import Number

from bolts import SqliteSink
from topology import Bolt, Collector, Config, Message, Positions, Spout, Task, Topology, Tuple
from topology.runtime.os_process.output import Output
from topology.runtime.supervisor.supervisor import SupervisedRun

LOADER = f"{__name__}:made"


class Numbers(Spout):
    def __init__(self, count: int) -> None:
        self.count = count

    def open(self, task: Task, positions: Positions) -> None:
        begin = positions.of("", "")
        self.next = begin if isinstance(begin, int) else 0

    async def records(self) -> AsyncIterator[Message[Number]]:
        for n in range(self.next, self.count):
            if n % 50 == 0:
                await asyncio.sleep(0.01)
            yield Message(Number(n), n)


class Hand(Bolt):
    """With `stuck` its first flush never returns: whoever waits for it has to kill its worker."""

    remembers = True

    def __init__(self, stuck: bool) -> None:
        self.stuck = stuck

    def open(self, task: Task) -> None:
        folder = task.folder / "hand"
        folder.mkdir(exist_ok=True)
        self.path, self.all, self.stuck_at = folder / "numbers", folder / "all", folder / "stuck"
        self.known = set(_numbers(self.path))

    def execute(self, tup: Tuple[Number], out: Collector[Never]) -> None:
        if tup.record.n not in self.known:
            with self.path.open("a") as file:
                file.write(f"{tup.record.n}\n")
            self.known.add(tup.record.n)
        out.ack(tup)

    async def flush(self, out: Collector[Never]) -> None:
        if self.stuck and not self.stuck_at.exists():
            self.stuck_at.touch()
            await asyncio.sleep(1_000)
        self.all.touch()


class Back(Spout):
    ends_last = True

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s

    def open(self, task: Task, positions: Positions) -> None:
        folder = task.folder / "hand"
        self.path, self.all = folder / "numbers", folder / "all"
        begin = positions.of("", "")
        self.next = begin if isinstance(begin, int) else 0

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        while True:
            last = self.all.exists()
            found = _numbers(self.path)[self.next :][: min(limit, 20)]
            if found or last:
                break
            await asyncio.sleep(0.005)
        await asyncio.sleep(self.pause_s)
        first, self.next = self.next, self.next + len(found)
        return [Message(Number(n), first + index) for index, n in enumerate(found)]


def _numbers(path: Path) -> list[int]:
    """Those that are written to their end."""
    text = path.read_text() if path.exists() else ""
    return [int(line) for line in text.split("\n")[:-1]]


def made(directory: str, count: int = 400, pause_s: float = 0.0, stuck: bool = False, store: Any = None) -> Topology:
    """`back` is declared before `hand`, and its reader too: no order of declaration tells who is flushed when."""
    topology = Topology("elsewhere", Config())
    numbers = topology.spout("numbers", Numbers(count))
    back = topology.spout("back", Back(pause_s))
    topology.bolt("store", store or SqliteSink(os.path.join(directory, "store.db")), back.global_())
    topology.bolt("hand", Hand(stuck), numbers.shuffle())
    return topology


def supervised(directory: Path, *, state: bool = True, **settings: Any) -> SupervisedRun:
    """On two workers: `numbers` and `hand` on the first, `back` and `store` on the second."""
    given: dict[str, Any] = {"directory": str(directory), **settings}
    return SupervisedRun(
        made(**given),
        workers=2,
        loader=LOADER,
        arguments=given,
        state_dir=directory / "state" if state else None,
        report=lambda line: None,
        output=Output(lambda worker, stream, line: None),
    )
