"""A source for runs in whose middle something is done, however long that takes: slow until a file is there."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from spouts import Items
from topology.components import Message, R

STEP_S: Final = 0.01


class Slowly(Items[R]):
    """`rate` items a second, at most, until the file `hurry` is there; then, or with a rate of 0, as fast as they are
    taken."""

    def __init__(self, records: Iterable[R], rate: float, hurry: Path) -> None:
        super().__init__(records)
        self.rate = rate
        self.hurry = hurry

    async def poll(self, limit: int) -> list[Message[R]]:
        if self.rate and not self.hurry.exists():
            await asyncio.sleep(STEP_S)
            return await super().poll(min(limit, max(1, int(self.rate * STEP_S))))
        self.rate = 0.0
        return await super().poll(limit)
