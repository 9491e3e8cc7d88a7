"""A source with partitions, each of them read by one task: its ids are numbers or texts, its partitions are named at
the start or as they are met. It may give nothing for seconds, and then all that is asked for.

Must not know what befalls a run.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from acker.identity import MessageId
from topology import Message, Record, Spout, Task
from topology.components import Positions

FIRST: Final = 980  # of the ids: as texts, 1000 comes before 999


class Partitioned(Spout):
    """Gives the records of all partitions in turns. `waits`: before which polls it waits, and for how many seconds.
    `told` gets the numbers of records that are settled."""

    shared_ids = True

    def __init__(
        self,
        records: Sequence[Record],
        partitions: int,
        *,
        texts: bool = False,
        as_met: bool = False,
        waits: Mapping[int, float] | None = None,
        told: Callable[[Sequence[int]], None] = lambda numbers: None,
    ) -> None:
        self.lanes = {f"lane{lane}": range(lane, len(records), partitions) for lane in range(partitions)}
        self.records, self.told = records, told
        self.kind = type(records[0])
        self.texts, self.as_met, self.waits = texts, as_met, waits or {}

    def emits(self) -> tuple[type[Record], ...]:
        return (self.kind,)

    def open(self, task: Task, positions: Positions) -> None:
        self._left: dict[str, list[Message[Record]]] = {}
        self._polls = 0
        self._until: float | None = None  # the end of the present wait
        for number, (lane, numbers) in enumerate(self.lanes.items()):
            if number % task.tasks == task.index:
                ids: list[MessageId] = [str(FIRST + n) if self.texts else FIRST + n for n in numbers]
                first = ids.index(positions[lane]) if lane in positions else 0
                self.told(numbers[:first])
                of_lane = [*zip(numbers, ids, strict=True)][first:]
                self._left[lane] = [Message(self.records[n], id, lane) for n, id in of_lane]
        self._named = dict.fromkeys((lane for lane in self._left if not self.as_met or lane in positions), "")

    def partitions(self) -> Mapping[str, str]:
        return self._named

    async def poll(self, limit: int) -> list[Message[Record]]:
        if wait_s := self.waits.get(self._polls, 0.0):
            now = asyncio.get_running_loop().time()
            self._until = now + wait_s if self._until is None else self._until
            await asyncio.sleep(self._until - now)
            self._until = None
        self._polls += 1
        given: list[Message[Record]] = []
        while len(given) < limit and any(self._left.values()):
            for left in self._left.values():
                given += left[:1] if len(given) < limit else []
                del left[: 1 if given and left and given[-1] is left[0] else 0]
        if more := {message.partition for message in given} - self._named.keys():
            self._named = {**self._named, **dict.fromkeys(sorted(more), "")}
        return given

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        self.told([int(id) - FIRST for id in ids])
