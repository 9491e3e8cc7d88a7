"""Bolts that bring stale tuples about (D5, D15): an attempt fails while a tuple of it waits for long in a slow bolt.

Until that goes on the next attempt has come through, is done, announced as done, and forgotten. Whoever takes the tuple
then counts it twice. The same becomes of a tuple whose home has died meanwhile, and has given its message again. Must
not know topologies, nor what befalls them.
"""

import asyncio
from typing import Final

from tests.simulation.items import Item, Unlucky
from topology import Record

KEYS: Final = 7
SLOW_EVERY: Final = 17  # messages
SLOW_S: Final = 0.8, 3.5  # from past the next attempt, its announcement and what is forgotten for it; below a timeout


class Lot(Record):
    key: int
    n: int
    path: tuple[int, ...]


class Lots(Unlucky):
    def process(self, item: Item) -> list[Lot]:
        self.chance()
        return [Lot(item.n % KEYS, item.n, item.path)]


class LateLots(Unlucky):
    """As `Lots`; the first time that it sees one of the slow messages it takes long."""

    def __init__(self, share: float) -> None:
        super().__init__(share)
        self.seen: set[Item] = set()

    async def process(self, item: Item) -> list[Lot]:
        if is_slow(item) and item not in self.seen:
            self.seen.add(item)
            await asyncio.sleep(self.random.uniform(*SLOW_S))
        self.chance()
        return [Lot(item.n % KEYS, item.n, item.path)]


class Spoils(Unlucky):
    """Fails the slow messages so many times, each soon after it has come. Put it beside `LateLots`."""

    def __init__(self, times: int = 1) -> None:
        super().__init__(0.0)
        self.times = times
        self.seen: dict[Item, int] = {}

    def process(self, item: Item) -> None:
        if is_slow(item):
            self.seen[item] = self.seen.get(item, 0) + 1
            if self.seen[item] <= self.times:
                raise ValueError("spoilt")


def is_slow(item: Item) -> bool:
    return item.n % 1_000 % SLOW_EVERY == 3
