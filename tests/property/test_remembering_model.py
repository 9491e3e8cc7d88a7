"""What a task remembers of its inputs against a plain model: random groups, late and early ends, dead letters, inputs
that come again under other numbers, and rows that are filed again. Nothing is forgotten whose message may come again,
all else is in the end, and the count of bytes is that of what is remembered (D4, D14, E1).
"""

from random import Random

import pytest

from acker.floors import Floors
from acker.progress import NUMBER_BITS, Progress
from acker.roots import owner
from topology.runtime.state.dedup import Memory, Pair, RememberedInput, RememberedRow

FIRST = owner(0, 1)


def message(number: int) -> int:
    return FIRST << NUMBER_BITS | number


class World:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.floors = Floors((0,))
        self.memory = Memory(self.floors)
        self.number_of: dict[Pair, int] = {}  # an input's message, by its last number
        self.unfinished: set[int] = set()
        self.dead: set[int] = set()  # origins
        self.emitted = 0
        self.rows = 0
        self.row = RememberedRow()
        self.open: list[tuple[Pair, RememberedInput]] = []

    def comes(self) -> None:
        self.emitted += 1
        self.unfinished.add(self.emitted)
        pair = self.emitted, self.emitted * 7
        size = self.random.randrange(1, 500)
        entry = RememberedInput(0, (message(self.emitted),), self.row, bytes=size)
        self.memory.add(pair, entry)
        self.open.append((pair, entry))
        self.number_of[pair] = self.emitted

    def comes_again(self) -> None:
        waiting = [pair for pair, number in self.number_of.items() if number in self.unfinished]
        if waiting:
            pair = self.random.choice(waiting)
            self.emitted += 1
            self.unfinished.discard(self.number_of[pair])
            self.unfinished.add(self.emitted)
            self.number_of[pair] = self.emitted
            self.memory.renumbered(self.memory.entries[pair], (message(self.emitted),))

    def ends(self) -> None:
        entries = self.memory.entries
        kept = [number for pair, number in self.number_of.items() if pair in entries and entries[pair].row.kept]
        if self.unfinished & set(kept):  # an input is acked once it is kept
            number = self.random.choice(sorted(self.unfinished & set(kept)))
            if self.random.random() < 0.1:
                self.dead |= {pair[0] for pair, one in self.number_of.items() if one == number}
            self.unfinished.discard(number)

    def is_kept(self, *, again: bool | None = None) -> None:
        again = self.random.random() < 0.3 if again is None else again
        refiled = [*self.memory.sparse(self.rows)] if again else []
        entries, self.open = [*self.open, *refiled], []
        if entries:
            row, self.row = self.row, RememberedRow()
            self.rows += 1
            row.number, row.pairs = self.rows, [pair for pair, _ in entries]
            messages = [entry.messages[0] for _, entry in entries]
            row.first, row.last = min(messages), max(messages)
            row.size = sum(entry.bytes for _, entry in entries)
            if refiled and self.random.random() < 0.5:
                self.forgets()  # between the two
            self.memory.is_kept(row, refiled)
            self.memory.gone(self.memory.empty_rows())

    def is_told(self) -> None:
        unfinished = frozenset(map(message, self.unfinished))
        self.floors.announce(Progress(message(self.emitted), unfinished, first=FIRST, dead=frozenset(self.dead)))

    def forgets(self, *, thorough: bool = False) -> None:
        self.memory.forget(self.random.randrange(1, 60), thorough=thorough)

    def check(self) -> None:
        entries = self.memory.entries
        for pair, number in self.number_of.items():
            assert pair in entries or (number not in self.unfinished and pair[0] not in self.dead)
        assert self.memory.bytes == sum(entry.bytes for entry in entries.values() if entry.counted)
        gone = self.memory.empty_rows()
        assert not set(gone) & {entry.row.number for entry in entries.values() if entry.row.kept}
        self.memory.gone(gone)


@pytest.mark.parametrize("seed", range(25))
def test_nothing_that_may_come_again_is_forgotten_and_all_else_is_in_the_end_D4(seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    world = World(random)
    steps = [world.comes, world.comes_again, world.ends, world.is_kept, world.is_told, world.forgets]
    weights = [random.choice((10, 40, 200)), 1, random.choice((8, 30, 150)), 4, 4, 6]
    for step in random.choices(steps, weights, k=1500):
        step()
        if step in (world.forgets, world.is_kept):
            world.check()
    world.comes()
    world.is_kept()
    while world.unfinished:
        world.ends()
    world.is_told()
    for _ in range(world.rows + 1):
        world.memory.forget(1, thorough=True)
    world.check()
    assert {pair[0] for pair in world.memory.entries} == world.dead
    assert len(world.memory.rows) <= len(world.dead)


@pytest.mark.parametrize("stuck", [(), (3,), tuple(range(7, 20_000, 50))], ids=["none", "one", "one in 50"])
def test_what_is_stuck_does_not_hold_up_that_all_else_is_forgotten_as_it_comes_E4(
    stuck: tuple[int, ...],
) -> None:
    """As commits do it, for rows of any length, with what little is left of old rows filed again once in a while."""
    for size in (1, 5, 15, 16, 100, 1000):
        world = World(Random(1))
        most = 0
        for commit in range(max(20, 12_000 // size)):
            for _ in range(size):
                world.comes()
            world.memory.forget(2 * size, thorough=False)
            world.is_kept(again=commit % 20 == 19)
            world.unfinished = {number for number in stuck if number <= world.emitted}
            world.is_told()
            most = max(most, len(world.memory) - len(world.unfinished))
        assert most <= 40 * max(size, 16) + min(size, 16) * len(world.unfinished), (size, most)
