"""Floors against a plain model, over random lives of three homes: nothing that may come again is ever over, what can't
is, in the end, and a tuple is refused exactly where nobody waits for it (D4, D5, D15, D17, E1).

The model knows what became of each message, and what it has caused: homes emit messages and begin sub-trees for some
of them, lives end, sources give again what their marks do not have, and some messages are dead until they are replayed.
Who hears of all that, hears it late, in the order of each home, but for what it was not there for.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from acker.floors import Floors
from acker.progress import NUMBER_BITS, Progress
from acker.roots import INCARNATIONS, owner, precedes

HOMES = 3


@dataclass(eq=False)
class Sent:
    """A source's message in the run: `number` changes when it is emitted once more."""

    origin: int
    home: int
    number: int
    dead: bool = False
    done: bool = False


@dataclass(eq=False)
class Remembered:
    """An input that somebody remembers, with the source's messages that it has come from."""

    messages: tuple[int, ...]
    origin: int
    causes: tuple[Sent, ...]
    owners: frozenset[int]  # the lives that it was sent in
    over: bool = False


@dataclass
class Life:
    owner: int
    emitted: int = 0
    sent: list[Sent] = field(default_factory=list)  # given by this life
    again: list[Sent] = field(default_factory=list)  # what the ones before had given and their marks have not
    subs: dict[int, Remembered] = field(default_factory=dict)  # message of a sub-tree → what it stands for
    lines: dict[int, int] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    given: int | None = None  # its newest message when it had given all again
    caught_up: bool = False

    @property
    def newest(self) -> int:
        return self.owner << NUMBER_BITS | self.emitted

    def number(self) -> int:
        self.emitted += 1
        return self.newest


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.incarnation = self.random.randrange(INCARNATIONS)
        self.lives = [Life(owner(home, self.incarnation)) for home in range(HOMES)]
        self.messages: list[Sent] = []
        self.inputs: list[Remembered] = []
        self.post: list[list[Progress]] = [[] for _ in range(HOMES)]  # of each home, on its way to who remembers
        self.floors = Floors(range(HOMES))
        self.origins = 0

    # -- what happens

    def emit(self) -> None:
        life = self.random.choice(self.lives)
        self.origins += 1
        home = self.lives.index(life)
        sent = Sent(self.origins, home, life.number())
        life.sent.append(sent)
        self.messages.append(sent)
        self._remember((sent,))

    def join(self) -> None:
        """Somebody emits for several messages, in their trees or, anchored to more, in a sub-tree of its own home."""
        open_ones = [one for one in self.messages if not one.done and self._is_present(one)]
        if len(open_ones) < 2:
            return
        self._remember(tuple(self.random.sample(open_ones, 2)))

    def sub_tree(self) -> None:
        open_ones = [one for one in self.messages if not one.done and self._is_present(one)]
        if not open_ones:
            return
        causes = tuple(self.random.sample(open_ones, min(len(open_ones), self.random.randint(1, 3))))
        life = self.random.choice(self.lives)
        message = life.number()
        self.origins += 1
        one = Remembered((message, message), self.origins, causes, frozenset((life.owner,)))
        life.subs[message] = one
        self.inputs.append(one)

    def _remember(self, causes: tuple[Sent, ...]) -> None:
        messages = tuple(one.number for one in causes)
        owners = frozenset(message >> NUMBER_BITS for message in messages)
        self.inputs.append(Remembered(messages, causes[0].origin if len(causes) == 1 else 0, causes, owners))

    def finish(self) -> None:
        """A message is done, or dead."""
        life = self.random.choice(self.lives)
        if mine := [one for one in life.sent if not one.done and not one.dead]:
            one = self.random.choice(mine)
            if self.random.random() < 0.04:
                one.dead = True
            else:
                one.done = True

    def replay_by_hand(self) -> None:
        if dead := [one for one in self.messages if one.dead]:
            one = self.random.choice(dead)
            one.dead, one.done = False, True

    def give_again(self) -> None:
        """What an earlier life had emitted comes once more, under a number of this one."""
        life = self.random.choice(self.lives)
        if life.again:
            one = life.again.pop(0)
            if not one.done and not one.dead:
                one.number = life.number()
                life.sent.append(one)

    def die(self) -> None:
        home = self.random.randrange(HOMES)
        self._begin(home)

    def die_all(self) -> None:
        for home in range(HOMES):
            self._begin(home)

    def _begin(self, home: int) -> None:
        old = self.lives[home]
        self.incarnation += 1
        self.lives[home] = Life(owner(home, self.incarnation), again=[*old.again, *old.sent])

    def restore(self) -> None:
        """Whoever remembers begins anew, with what it had heard."""
        before, self.floors = self.floors, Floors(range(HOMES))
        self.floors.restore(before.announced())
        for home, life in enumerate(self.lives):
            self.post[home] = [self._progress(home, life)]

    def announce(self) -> None:
        home = self.random.randrange(HOMES)
        self.post[home].append(self._progress(home, self.lives[home]))

    def _progress(self, home: int, life: Life) -> Progress:
        there = {one.owner for other, one in enumerate(self.lives) if other != home}
        life.lines = {one: life.lines.get(one, life.newest) for one in there}
        open_ones = {one.number for one in life.sent if not one.done and not one.dead}
        for one, line in life.lines.items():
            if all(precedes(line, number) for number in open_ones):
                life.settled.add(one)
        life.settled &= there
        if life.given is None and not life.again:
            life.given = life.newest
        given = life.given
        life.caught_up |= given is not None and all(precedes(given, number) for number in open_ones)
        subs = {message for message, one in life.subs.items() if not self._sub_is_over(one)}
        dead = {one.number for one in life.sent if one.dead}
        return Progress(
            life.newest,
            frozenset(open_ones | subs | dead),
            first=life.owner,
            caught_up=life.caught_up,
            dead=frozenset(one.origin for one in self.messages if one.dead and one.home == home),
            settled=frozenset(life.settled),
        )

    def _sub_is_over(self, sub: Remembered) -> bool:
        return all(one.done for one in sub.causes)

    def hear(self) -> None:
        home = self.random.randrange(HOMES)
        if self.post[home]:
            self.floors.announce(self.post[home].pop(0))

    def _is_present(self, one: Sent) -> bool:
        return one.number >> NUMBER_BITS == self.lives[one.home].owner

    # -- what has to hold

    def check(self) -> None:
        for one in self.inputs:
            if self.floors.are_over(one.messages, one.origin):
                again = [cause.origin for cause in one.causes if not cause.done]
                assert not again, f"{one.messages} is forgotten, and {again} may come again"
        for life in self.lives:
            for sent in life.sent:
                if not sent.done and not sent.dead and self._is_present(sent):
                    assert not self.floors.refuses(sent.number), "somebody waits for it"

    def heal(self) -> None:
        """Everything that was begun ends, and everybody hears of it."""
        for life in self.lives:
            for one in life.again:
                if not one.done and not one.dead:
                    one.number = life.number()
                    life.sent.append(one)
            life.again = []
        for one in self.messages:
            one.done, one.dead = True, False
        for _ in range(2):
            for home, life in enumerate(self.lives):
                self.post[home].append(self._progress(home, life))
        for progress in (one for post in self.post for one in post):
            self.floors.announce(progress)
        for remembered in self.inputs:
            assert self.floors.are_over(remembered.messages, remembered.origin), remembered
            assert all(map(self.floors.refuses, remembered.messages))


STEPS = {
    World.emit: 10,
    World.join: 3,
    World.sub_tree: 3,
    World.finish: 9,
    World.replay_by_hand: 2,
    World.give_again: 6,
    World.die: 2,
    World.die_all: 0.3,
    World.restore: 0.5,
    World.announce: 8,
    World.hear: 8,
}


@pytest.mark.parametrize("seed", range(300))
def test_nothing_that_may_come_again_is_over_and_all_else_is_in_the_end_D4_D5_D15_D17_E1(seed: int) -> None:
    world = World(seed)
    for step in world.random.choices([*STEPS], [*STEPS.values()], k=200):
        step(world)
        world.check()
    world.heal()
