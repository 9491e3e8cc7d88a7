"""A source for runs in whose middle something is done, however long that takes: slow until a file is there."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from spouts import Items
from topology.components import Message, R

STEP_S: Final = 0.01


class Slowly(Items[R]):
    """As fast as they are taken up to the item whose number is in the file `hurry`, or to the last one where that is
    empty; what is beyond that, or all while there is no such file, no faster than `rate` a second. A rate of 0: all at
    once."""

    def __init__(self, records: Iterable[R], rate: float, hurry: Path) -> None:
        super().__init__(records)
        self.rate = rate
        self.hurry = hurry

    async def poll(self, limit: int) -> list[Message[R]]:
        if self.rate and self._next >= self._fast_until():
            await asyncio.sleep(STEP_S)
            limit = min(limit, max(1, int(self.rate * STEP_S)))
        return await super().poll(limit)

    def _fast_until(self) -> float:
        try:
            return float(self.hurry.read_text() or "inf")
        except FileNotFoundError:
            return 0.0
