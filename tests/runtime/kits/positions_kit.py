"""What the tests of positions share: a numbered source, a bolt that is stuck, and marks as a store has them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from letters_kit import until
from runtime_kit import Number, Same

from topology import Bolt, Config, Message, Positions, Spout, Task, Topology
from topology.filesystem.files import DiskFiles
from topology.runtime.embedded.run import EmbeddedRun
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Mark
from topology.testing import Captured

Id = int | str


class Counted(Spout):
    """`count` numbers, each under an id that is made of it; reads from where it is told, or always from the start."""

    def __init__(self, count: int, *, id_of: Callable[[int], Id] = int, heeds: bool = True, epoch: str = "") -> None:
        self.count, self.id_of, self.heeds, self.epoch = count, id_of, heeds, epoch
        self.next = 0
        self.told: list[Id] = []
        self.resumed: dict[str, Any] = {}

    def __deepcopy__(self, memo: object) -> "Counted":
        return self

    def open(self, task: Task, positions: Positions) -> None:
        self.resumed = dict(positions)
        position = positions.of("", self.epoch)
        ids = [self.id_of(n) for n in range(self.count)]
        self.next = ids.index(position) if self.heeds and position is not None else 0  # type: ignore[arg-type]

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        found = range(self.next, min(self.count, self.next + limit))
        self.next += len(found)
        return [Message(Number(n), self.id_of(n)) for n in found]

    def partitions(self) -> Mapping[str, str]:
        return {"": self.epoch}

    def ack(self, id: Any) -> None:
        self.told.append(id)


class Stuck(Bolt):
    """Never ends with some numbers, while `stuck` has them; gives the others back."""

    def __init__(self, stuck: set[int]) -> None:
        self.stuck = stuck

    def __deepcopy__(self, memo: object) -> "Stuck":
        return self

    async def process(self, number: Number) -> Sequence[Number]:
        while number.n in self.stuck:  # noqa: ASYNC110 – virtual time, and nothing tells
            await asyncio.sleep(0.01)
        return [number]


def topology_of(spout: Any, *bolts: Any, config: Config | None = None) -> tuple[Topology, Captured[Number]]:
    topology = Topology("kept", config)
    stream: Any = topology.spout("numbers", spout)
    for index, bolt in enumerate(bolts or (Same(),)):
        stream = topology.bolt(f"bolt{index}", bolt, stream.shuffle(), concurrency=64 if isinstance(bolt, Stuck) else 1)
    captured = Captured[Number]()
    topology.bolt("captured", captured, stream.shuffle())
    return topology, captured


def marks_in(path: Path, worker: int = 0) -> tuple[Mark, ...]:
    store = SqliteStore(DiskFiles(), path / f"worker-{worker}.db")
    try:
        return store.loaded.marks
    finally:
        store.close()


def numbers_of(captured: Captured[Number]) -> list[int]:
    return sorted(one.n for one in captured.records)


async def aborted_when(run: EmbeddedRun, captured: Captured[Number], count: int, *, after_s: float = 0.5) -> None:
    await until(lambda: len(captured.records) >= count)
    await asyncio.sleep(after_s)
    run.abort()


class Slow(Counted):
    """Ten numbers a poll, and half a tenth of a second between two polls."""

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        await asyncio.sleep(0.05)
        return await super().poll(min(limit, 10))
