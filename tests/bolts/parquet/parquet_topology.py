"""Numbered records through a state into Parquet files, for runs whose workers are killed."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from bolts.sinks.parquet.sink import ParquetSink
from topology import Bolt, Config, Message, Positions, Record, Spout, State, Task, Topology


class Ordinal(Record):
    number: int


class Tripled(Record):
    number: int
    times: int
    tens: int


class Ordinals(Spout):
    """1 … count, from where it was left. `pause_s` comes after each hundredth."""

    def __init__(self, count: int, pause_s: float = 0.0) -> None:
        self.count, self.pause_s = count, pause_s

    def open(self, task: Task, positions: Positions) -> None:
        at = positions.get("", 1)
        assert isinstance(at, int)
        self.first = at

    async def records(self) -> AsyncIterator[Message[Ordinal]]:
        for number in range(self.first, self.count + 1):
            yield Message(Ordinal(number), number)
            if self.pause_s and number % 100 == 0:
                await asyncio.sleep(self.pause_s)


class Triple(Bolt):
    """Counts each number: what is processed twice would be a second row with another count."""

    def process(self, ordinal: Ordinal, state: State[int]) -> Iterator[Tripled]:
        times = state.get(0) + 1
        state.set(times)
        yield Tripled(ordinal.number, times, ordinal.number % 10)


def topology(
    folder: str, count: int = 5_000, rows_per_file: int = 200, partitioned: bool = False, pause_s: float = 0.0
) -> Topology:
    topology = Topology("parquet-runs", Config(max_pending=2 * rows_per_file))
    ordinals = topology.spout("ordinals", Ordinals(count, pause_s))
    tripled = topology.bolt("triple", Triple(), ordinals.fields("number"), tasks=2)
    sink = ParquetSink(
        folder, rows_per_file=rows_per_file, seconds_per_file=0.5, partition_by="tens" if partitioned else None
    )
    topology.bolt("store", sink, tripled.shuffle())
    return topology
