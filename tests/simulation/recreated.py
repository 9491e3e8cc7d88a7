"""A source that is recreated in the middle of a run: its ids begin again from zero, in another epoch (C2, F51).

What is gone of the old epoch can't be read again, so it changes over only once it may forget all that it gave.
Must not know what befalls a run.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from acker.identity import MessageId
from topology import Message, Record, Spout, Task
from topology.components import Positions

LOOK_S: Final = 0.05


class Recreated(Spout):
    """Gives `before`, then `after`, both with ids from 0 on. What the outside world is like, all its lives share."""

    def __init__(self, before: Sequence[Record], after: Sequence[Record]) -> None:
        self.epochs = (before, after)
        self.world: dict[str, Any] = {"epoch": 0, "told": set()}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Recreated":
        copy = Recreated(*self.epochs)
        copy.world = self.world
        return copy

    def emits(self) -> tuple[type[Record], ...]:
        return (type(self.epochs[0][0]),)

    def partitions(self) -> Mapping[str, str]:
        return {"": f"epoch-{self.world['epoch']}"}

    def open(self, task: Task, positions: Positions) -> None:
        resume = positions.of("", self.partitions()[""])
        self._next = resume if isinstance(resume, int) else 0
        if self.world["epoch"] == 0:
            self.world["told"] |= {*range(self._next)}  # all before the position is done

    async def poll(self, limit: int) -> list[Message[Any]]:
        records = self.epochs[self.world["epoch"]]
        if self._next == len(records) and self.world["epoch"] == 0:
            while len(self.world["told"]) < len(records):  # noqa: ASYNC110 - an event would be of one life, not of all
                await asyncio.sleep(LOOK_S)
            self.world["epoch"], self._next = 1, 0
            records = self.epochs[1]
        ids = range(self._next, min(self._next + limit, len(records)))
        self._next += len(ids)
        return [Message(records[id], id) for id in ids]

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        if self.world["epoch"] == 0:
            self.world["told"].update(ids)
