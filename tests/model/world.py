"""The model of what survives: a spout, a journalled bolt, a bolt with state and a sink, each a process with a disk.

It knows the order of durability and nothing else: no trees (a chain has one tuple a message), no clocks, no bytes. What
happens, and when, is its caller's. `Wrong` names orders that lose or double something, each by one `if`.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from orders import LENGTH, Disk, Flight, Floor, Mark, Message, Number, Tup, Wrong

ROUNDS_MAX: Final = 40  # in which everything completes once nothing goes wrong any more


class Home:
    """The spout's process: messages, marks, letters."""

    def __init__(self, world: "World", disk: Disk, incarnation: int) -> None:
        self.world, self.disk, self.incarnation = world, disk, incarnation
        self.mark = disk.mark  # the last one that is durable, as far as it knows
        self.old_line = disk.line
        epoch = world.epoch
        same = disk.mark.position[0] == epoch
        self.next_id = disk.mark.position[1] if same or world.wrong is Wrong.DONE_ACROSS_EPOCHS else 0
        self.done = {one for one in disk.mark.done if one[0] == epoch}
        self.flights: dict[Message, Flight] = {}
        self.numbers: dict[Number, Message] = {}  # of this incarnation
        self.dying: dict[Message, int] = {}  # as `Mark.letters`
        self.revived: set[Message] = set()  # letters whose replay is done
        self.gathered: tuple[Mark, frozenset[Message]] | None = None

    def emit(self) -> bool:
        while self.next_id < LENGTH:
            message = (self.world.epoch, self.next_id)
            self.next_id += 1
            if message not in self.done:
                self.world.emitted.add(message)
                self.disk.line = max(self.disk.line, (message[0], message[1] + 1))
                self.leave(message, Flight(self.new_number(message)))
                return True
        return False

    def new_number(self, message: Message) -> Number:
        number = (self.incarnation, len(self.numbers))
        self.numbers[number] = message
        return number

    def leave(self, message: Message, flight: Flight) -> None:
        self.flights[message] = flight
        self.world.arrive(1, Tup(message, flight.number, flight.attempt))

    def failed(self, message: Message) -> None:
        if (flight := self.flights.get(message)) is not None:
            flight.out = False

    def replay(self, message: Message) -> None:
        flight = self.flights[message]
        self.leave(message, replace(flight, attempt=flight.attempt + 1, out=True))

    def acked(self, tup: Tup) -> None:
        flight = self.flights.get(tup.message)
        found = self.numbers.get(tup.number)
        if self.world.wrong is Wrong.NUMBERS_REUSED and found is not None:
            flight, tup = self.flights.get(found), replace(tup, message=found)  # a root names no message
        if flight is None or not flight.out or (flight.number, flight.attempt) != (tup.number, tup.attempt):
            return
        del self.flights[tup.message]
        if flight.by_hand:
            self.revived.add(tup.message)
        else:
            self.done.add(tup.message)

    def die(self, message: Message) -> None:
        """A message is given up: a letter from now on, once that is durable."""
        del self.flights[message]
        before = message < self.old_line  # nobody knows under which number an earlier home has emitted it
        self.dying[message] = self.mark.letters.get(message, 0 if before else self.incarnation)

    def replay_by_hand(self, message: Message) -> None:
        self.leave(message, Flight(self.new_number(message), by_hand=True))

    def letters(self) -> list[Message]:
        """Those that can be replayed."""
        return sorted(self.mark.letters.keys() - self.flights.keys() - self.dying.keys() - self.revived)

    def gather(self) -> None:
        """What the next commit of the mark contains."""
        wrong, epoch = self.world.wrong, self.world.epoch
        unfinished = {one for one, flight in self.flights.items() if not flight.by_hand}  # letters go with the mark
        if wrong is Wrong.MARK_PASSES_BACKOFF:
            unfinished -= {one for one, flight in self.flights.items() if not flight.out}
        position = min((one for one in unfinished if one[0] == epoch), default=(epoch, self.next_id))
        if wrong is Wrong.HEAD_OFF_BY_ONE and position[1] < self.next_id:
            position = (epoch, position[1] + 1)
        late = wrong is Wrong.LETTER_AFTER_MARK and self.mark.position != position
        letters = {one: since for one, since in self.mark.letters.items() if one not in self.revived}
        letters |= {} if late else self.dying
        finished = self.done | letters.keys() | self.dying.keys()
        done = frozenset(one for one in finished if one >= position)
        self.gathered = Mark(position, done, letters), frozenset(() if late else self.dying)
        if wrong is Wrong.REPORTED_BEFORE_FSYNC:
            self.mark = self.gathered[0]

    def kept(self) -> None:
        """That commit is durable."""
        assert self.gathered is not None
        mark, letters = self.gathered
        self.gathered = None
        if self.disk.owner != self.incarnation and self.world.wrong is not Wrong.ZOMBIE_NOT_FENCED:
            return
        self.disk.mark = self.mark = mark
        for message in letters:
            self.dying.pop(message, None)
        self.revived &= mark.letters.keys()

    def floor(self) -> Floor:
        wrong, mark = self.world.wrong, self.mark
        if wrong is Wrong.FORGOTTEN_OF_THE_DEAD:
            mark = replace(mark, letters={})
        has = mark.has if wrong is not Wrong.FORGOTTEN_ON_MEMORY_MARK else lambda one: one in self.done or mark.has(one)
        done = frozenset(number for number, message in self.numbers.items() if has(message))
        over = self.incarnation if mark.position >= self.old_line else 0
        if wrong is not Wrong.FORGOTTEN_OF_EARLIER:
            over = min([over, *mark.letters.values()])
        return Floor(over, done)


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
        self.emitted: set[Message] = set()
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
        done = not home.flights and not home.dying and (self.epoch, home.next_id) >= self.disks[0].line
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
            more = self.home.emit()
            self.flow()
            self.mark()
            self.check()
            home = self.home
            if not (more or home.flights or home.dying or home.mark.letters or self.held):
                break
        else:
            raise AssertionError(f"does not complete: {self.home.flights}, {self.home.mark}")
        expected = self.emitted | {(self.epoch, number) for number in range(LENGTH)}
        stored = self.disks[3].kept.known.keys()
        assert stored == expected, f"missing at the sink: {expected - stored}"
        assert set(self.disks[2].kept.effects) == expected, "missing in the state"
