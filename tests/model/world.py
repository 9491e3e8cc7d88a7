"""The model of what survives: a spout, a journalled bolt, a bolt with state and a sink, each a process with a disk.

It knows the order of durability and nothing else: no trees (a chain has one tuple a message), no clocks, no bytes. What
happens, and when, is its caller's. `Wrong` names orders that lose or double something, each by one `if`.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from home import Home
from orders import LENGTH, Disk, Floor, Message, Tup, Wrong

ROUNDS_MAX: Final = 40  # in which everything completes once nothing goes wrong any more


class Bolt:
    """A bolt's process: 1 is journalled, 2 keeps state, 3 is the sink. What it was sent waits in `queue`."""

    def __init__(self, world: "World", stage: int, disk: Disk, incarnation: int) -> None:
        self.world, self.stage, self.disk, self.incarnation = world, stage, disk, incarnation
        self.mine = self.committed = disk.kept  # `mine`: with what is not committed
        self.queue: list[Tup] = []
        self.parked: list[Tup] = []  # the same input is being committed (D3)
        self.staged: list[Tup] = []  # outputs that leave after the commit
        self.out: list[Tup] = []

    def work(self, raises: bool = False) -> None:
        tup = self.queue.pop(0)
        if self.stage < 3 and self.refused(tup):
            return
        wrong, mine = self.world.wrong, self.mine
        committed = self.committed.known
        if tup.message in (committed if wrong is Wrong.LOOKUP_COMMITTED_ONLY else mine.known):
            if tup.message not in committed:
                self.parked.append(tup)
                return
            content = mine.known[tup.message][1]
            self.mine = replace(mine, known={**mine.known, tup.message: (tup.number, content)})  # under its new number
            self.out.append(replace(tup, content=content))
            if self.stage == 3 and content != tup.content:
                self.world.divergent.append((tup.message, content, tup.content))
            return
        effects = (*mine.effects, tup.message) if self.stage == 2 else mine.effects
        if raises:
            if wrong is Wrong.NOT_ROLLED_BACK:
                self.mine = replace(mine, effects=effects)
            self.world.home.failed(tup.message)
            return
        content = (
            tup.content if self.stage == 3 else (*tup.content, self.world.draw() if self.stage == 1 else len(effects))
        )
        self.mine = replace(mine, effects=effects, known={**mine.known, tup.message: (tup.number, content)})
        early = (Wrong.ACKED_BEFORE_STORED,) if self.stage == 3 else (Wrong.OUTPUTS_BEFORE_COMMIT,)
        (self.out if wrong in early else self.staged).append(replace(tup, content=content))

    def refused(self, tup: Tup) -> bool:
        if self.world.wrong is Wrong.STALE_ROOTS_TAKEN:
            return False
        return tup.number[0] < self.world.home.incarnation or self.mine.floor.covers(tup.number)

    def commit(self) -> None:
        if self.disk.owner != self.incarnation and self.world.wrong is not Wrong.ZOMBIE_NOT_FENCED:
            self.queue, self.staged, self.parked, self.out = [], [], [], []  # it ends
            return
        floor = self.disk.kept.floor if self.world.wrong is Wrong.FLOOR_NOT_KEPT else self.mine.floor
        self.disk.kept = replace(self.mine, floor=floor)
        self.committed = self.mine
        self.out += self.staged
        self.queue = self.parked + self.queue
        self.staged, self.parked = [], []

    def store_is_full(self) -> None:
        """A commit fails, and nothing of it is kept: what it had is in the next one, with what has come since (D10)."""
        if self.world.wrong is Wrong.OUTPUTS_LEAVE_ANYWAY:
            self.out += self.staged
            self.staged = []

    def send(self) -> None:
        """What is durable leaves. What a superseded owner sends is dropped (A15)."""
        out, self.out = self.out, []
        if self.disk.owner == self.incarnation:
            for tup in out:
                self.world.arrive(self.stage + 1, tup)

    def announced(self, floor: Floor) -> None:
        """Forgets what is finished for good; durable, with the floor, at the next commit (D4, D5)."""
        if self.stage < 3:
            known = {one: entry for one, entry in self.mine.known.items() if not floor.covers(entry[0])}
            self.mine = replace(self.mine, known=known, floor=floor)


class World:
    """All four, what is between them, and what may happen to them."""

    def __init__(self, wrong: Wrong | None = None) -> None:
        self.wrong = wrong
        self.epoch = 0
        self.divergent: list[tuple[Message, tuple[int, ...], tuple[int, ...]]] = []
        self.held: list[tuple[int, Tup]] = []  # tuples that are slow
        self.zombies: list[Home | Bolt] = []
        self.disks = [Disk() for _ in range(4)]
        self.home = Home(self, self.disks[0], 0)
        self.bolts = {stage: Bolt(self, stage, self.disks[stage], 0) for stage in (1, 2, 3)}
        self._drawn = 0

    def draw(self) -> int:
        """Something else each time: the journalled bolt is not deterministic."""
        self._drawn += 1
        return self._drawn

    def emitted_by(self, home: Home, tup: Tup) -> None:
        self.arrive(1, tup)

    def arrive(self, stage: int, tup: Tup) -> None:
        if stage > 3:
            self.home.acked(tup)
        else:
            self.bolts[stage].queue.append(tup)

    def hold(self, stage: int) -> Message:
        self.held.append((stage, tup := self.bolts[stage].queue.pop(0)))
        return tup.message

    def release(self) -> None:
        if self.held:
            self.arrive(*self.held.pop(0))

    def replace(self, stage: int, *, lives_on: bool) -> None:
        """A new process takes the place of one that is dead, or only thought to be so: a zombie."""
        old = self.home if stage == 0 else self.bolts[stage]
        if lives_on:
            self.zombies.append(old)
        self._begin(stage)
        for flight in self.home.flights.values():
            flight.out = False  # who is gone may have had a tuple of it

    def power_loss(self) -> None:
        self.held, self.zombies = [], []
        for stage in range(4):
            self._begin(stage)

    def _begin(self, stage: int) -> None:
        disk = self.disks[stage]
        if stage or self.wrong is not Wrong.NUMBERS_REUSED:
            disk.owner += 1
        if stage == 0:
            self.home = Home(self, disk, disk.owner)
        else:
            self.bolts[stage] = Bolt(self, stage, disk, disk.owner)

    def wake(self) -> None:
        """A zombie does all that it can still do."""
        one = self.zombies.pop(0)
        if isinstance(one, Bolt):
            while one.queue:
                one.work()
            one.commit()
            one.send()
        else:
            if one.gathered is None:
                one.gather()
            one.kept()

    def recreate(self) -> None:
        """The source begins anew from zero: another epoch. Only where all that was read is done."""
        home = self.home
        done = (
            not home.flights
            and not home.dying
            and (self.epoch, home.next_id - 1) >= max(self.disks[0].emitted, default=(0, 0))
        )
        if done and home.gathered is None and home.next_id and self.epoch < 2:
            self.epoch += 1
            home.next_id = 0
            if self.wrong is Wrong.DONE_ACROSS_EPOCHS:
                home.done |= {(self.epoch, one[1]) for one in home.done}

    def mark(self) -> None:
        """One whole commit of the mark, and what follows it."""
        if self.home.gathered is None:
            self.home.gather()
        self.home.kept()
        for bolt in self.bolts.values():
            bolt.announced(self.home.floor())
        self.bolts[1].commit()
        self.bolts[2].commit()

    def flow(self, before: int = 4, *, commits: bool = True) -> None:
        """Everything that is ready, but for what is slow, goes as far as it can, or until it waits before a bolt."""
        home = self.home
        for message in [one for one, flight in home.flights.items() if not flight.out]:
            home.replay(message)
        for bolt in list(self.bolts.values())[: before - 1]:
            while bolt.queue or bolt.staged or bolt.parked:
                while bolt.queue:
                    bolt.work()
                if not commits:
                    break
                bolt.commit()
            bolt.send()

    # -- what must hold

    def check(self) -> None:
        assert not self.divergent, f"one identity with two contents: {self.divergent}"
        twice = [one for one, times in Counter(self.bolts[2].mine.effects).items() if times > 1]
        assert not twice, f"counted twice: {twice}"

    def heal(self) -> None:
        """Nothing goes wrong any more: everything completes, and all of it exactly once."""
        self.zombies = []
        for _ in range(ROUNDS_MAX):
            self.release()
            for message in self.home.letters():
                self.home.replay_by_hand(message)
            for message, flight in self.home.flights.items():
                flight.out = flight.out and any(tup.message == message for _, tup in self.held)  # the others time out
            self.home.emit()
            self.flow()
            self.mark()
            self.check()
            home = self.home
            more = home.next_id < LENGTH
            if not (more or home.flights or home.dying or home.mark.letters or self.held):
                break
        else:
            raise AssertionError(f"does not complete: {self.home.flights}, {self.home.mark}")
        expected = self.disks[0].emitted | {(self.epoch, number) for number in range(LENGTH)}
        stored = self.disks[3].kept.known.keys()
        assert stored == expected, f"missing at the sink: {expected - stored}"
        assert set(self.disks[2].kept.effects) == expected, "missing in the state"
