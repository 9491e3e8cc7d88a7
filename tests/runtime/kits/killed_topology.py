"""What `test_positions_killed` runs and kills: numbered records, written down as they are read, into a table."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from bolts import SqliteSink
from topology import Bolt, Config, Message, Positions, Record, Spout, Task, Topology


class Row(Record):
    n: int


class Numbers(Spout):
    """Up to `count`, every `tasks`-th from this task's own on, two thousand a second; from where it is told. Each
    that is read stands in a file, which outlives the process."""

    def __init__(self, count: int, folder: str) -> None:
        self.count, self.folder = count, folder

    def open(self, task: Task, positions: Positions) -> None:
        position = positions.get("", task.index)
        assert isinstance(position, int)
        self.next, self.step = position, task.tasks
        name = f"read-{task.index}"
        self.file = os.open(Path(self.folder) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(self.file, b"-\n")  # a run, or a worker, begins

    async def poll(self, limit: int) -> Sequence[Message[Row]]:
        await asyncio.sleep(0.01)
        found = range(self.next, self.count, self.step)[: min(limit, 20)]
        self.next += len(found) * self.step
        os.write(self.file, b"".join(b"%d\n" % n for n in found))
        return [Message(Row(n), n) for n in found]

    def close(self) -> None:
        os.close(self.file)


class Some(Bolt):
    """Takes its time with every hundredth, so that the others overtake it."""

    async def process(self, row: Row) -> Sequence[Row]:
        if row.n % 100 == 0:
            await asyncio.sleep(0.1)
        return [row]


def topology(folder: str, count: int = 10_000, tasks: int = 1) -> Topology:
    topology = Topology("killed", Config(max_pending=500))
    rows = topology.spout("numbers", Numbers(count, folder), tasks=tasks)
    some = topology.bolt("some", Some(), rows.shuffle(), tasks=2, concurrency=64)
    topology.bolt("store", SqliteSink(f"{folder}/rows.db"), some.global_())
    return topology
