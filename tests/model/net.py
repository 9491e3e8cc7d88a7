"""The model with sub-trees: one or two sources, a bolt that joins, gathers or has timers, and a bolt that counts.

Each is a worker that may die; all that announce progress do so to all that remember, each at its own time. It knows
which tuple waits for which, and what `acker.floors` makes of what was announced; what happens is its caller's.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from home import Home
from middles import Gatherer, Joiner, Middle
from orders import LENGTH, Disk, Input, Message, Remembered, Root, Tup, Wrong
from remembering import Remembering
from timing import Timing

from acker.floors import HOME_SHIFT
from acker.progress import Progress
from acker.roots import owner

ROUNDS_MAX: Final = 40
SOURCES: Final = {"a": 0, "b": 1}
COUNTING: Final = 4
# Which sources, and on which workers the bolt between is.
KINDS: Final = {"joins": ("ab", [2]), "gathers": ("ab", [2]), "spreads": ("ab", [2, 3]), "times": ("a", [2, 3])}


@dataclass
class Knowing:
    """What a worker knows of the others' lives, and how many messages it had begun when it heard of each."""

    owners: dict[int, int]
    lines: dict[int, int]  # by owner


class Net:
    def __init__(self, kind: str, wrong: Wrong | None = None) -> None:
        self.kind, self.wrong, self.epoch = kind, wrong, 0
        names, self.middle_numbers = KINDS[kind]
        self.sources = {name: SOURCES[name] for name in names}
        self.homes = [*self.sources.values(), *self.middle_numbers]
        self.disks = {index: Disk() for index in [*self.homes, COUNTING]}
        self.beginners = self.middle_numbers if kind in ("gathers", "spreads") else []  # of sub-trees
        self.place = self.middle_numbers[0]  # of the one slot of the bolt between
        self.held: list[tuple[int, Input]] = []  # tuples that are slow, and where they were going
        self.tups: dict[Root, Tup] = {}
        self.drafts: dict[int, int] = {}  # how many numbers a home had handed out when its next mark was gathered
        self.said: dict[int, Progress] = {}
        self.announcements = 0  # of sources
        self.spouts: dict[int, Home] = {}
        self.middles: dict[int, Middle] = {}
        self.knowing: dict[int, Knowing] = {}
        self.life = 0
        self.power_loss()
        self.tell_all()

    # -- lives

    def begin(self, index: int, life: int) -> None:
        disk = self.disks[index]
        disk.owner = life
        if index == COUNTING:
            self.counting = Remembering(self, self.homes, disk)
            return
        if index in self.middle_numbers:
            match self.kind:
                case "joins":
                    self.middles[index] = Joiner(self, index, life)
                case "gathers" | "spreads":
                    self.middles[index] = Gatherer(self, index, life)
                case _:
                    self.middles[index] = Timing(self, index, life, disk, self.homes)
        else:
            self.spouts[index] = Home(self, disk, life)
            self.drafts[index] = 0
        self.knowing[index] = Knowing({other: self.disks[other].owner for other in self.homes}, {})
        if index in self.spouts:
            self.says(index)

    def replaced(self, index: int) -> None:
        """A worker is dead, and another one has its place; others hear of that later."""
        self.life += 1
        self.begin(index, self.life)

    def power_loss(self) -> None:
        """All begin anew."""
        self.life += 1
        self.held = []
        for index in self.disks:
            self.disks[index].owner = self.life
        for index in self.disks:
            self.begin(index, self.life)

    def rescale(self, *, torn: bool) -> None:
        """Between two runs the slot moves to the other worker; `torn`: not without a crash on the way."""
        before, after = self.place, sum(self.middle_numbers) - self.place
        while True:
            source, target = self.disks[before].remembered, self.disks[after].remembered
            self.disks[after].remembered = Remembered(
                source.effects,
                target.known if self.wrong is Wrong.KNOWN_STAYS_BEHIND else target.known | source.known,
                target.timers if self.wrong is Wrong.TIMERS_STAY_BEHIND else target.timers | source.timers,
                target.fired if self.wrong is Wrong.TIMERS_STAY_BEHIND else target.fired | source.fired,
                target.floors or source.floors,
            )
            if not torn:
                break
            if self.wrong is Wrong.LEFT_OVERS_STAY:
                self.place = after
                self.power_loss()
                return
            torn = False
        self.disks[before].remembered = Remembered(floors=source.floors)
        self.place = after
        self.power_loss()

    def hears(self, index: int) -> None:
        """A worker is told of the others' present lives. What was under way to a former one of the bolt has failed."""
        knowing, spout = self.knowing[index], self.spouts.get(index)
        for other in self.homes:
            life = self.disks[other].owner
            if other != index and knowing.owners[other] != life:
                knowing.owners[other] = life
                knowing.lines[owner(other, life)] = len(spout.numbers if spout else self.middles[index].begun)
                for flight in spout.flights.values() if spout and other in self.middles else ():
                    flight.out = False

    # -- what is between them

    def index_of(self, home: Home) -> int:
        return next(index for index, one in self.spouts.items() if one is home)

    def emitted_by(self, home: Home, tup: Tup) -> None:
        index = self.index_of(home)
        root = (owner(index, tup.number[0]) << 32 | tup.number[1] + 1, tup.attempt)
        self.tups[root] = tup
        place = self.middle_numbers[tup.attempt % 2] if self.kind == "spreads" else self.place
        if self.knowing[index].owners[place] == self.disks[place].owner:  # else its link leads nowhere
            one = Input(("ab"[index], tup.message[1]), origin_of(index, tup.message), (root,))
            self.middles[place].queue.append(one)

    @property
    def middle(self) -> Middle:
        return self.middles[self.place]

    @property
    def working(self) -> list[Middle]:
        """The tasks between that inputs come to."""
        return [*self.middles.values()] if self.kind == "spreads" else [self.middle]

    def arrive(self, one: Input) -> None:
        self.counting.queue.append(one)

    def acked(self, one: Input) -> None:
        """What has taken an input tells the homes of all its trees. Only the present life is there to hear it."""
        for message, attempt in one.roots:
            index, life = message >> HOME_SHIFT, message >> 32
            if life != owner(index, self.disks[index].owner):
                continue
            if index in self.spouts:
                self.spouts[index].acked(self.tups[message, attempt])
            else:
                self.middles[index].is_done(message & 0xFFFFFFFF, attempt)

    def has_done(self, source: str, number: int) -> bool:
        """Whether this message is done for good: as if its record were in a table that anybody can read."""
        return self.disks[SOURCES[source]].mark.has((0, number))

    # -- what is announced

    def gather(self, index: int) -> None:
        home = self.spouts[index]
        home.gather()
        self.drafts[index] = len(home.numbers)

    def kept(self, index: int) -> None:
        home, mark = self.spouts[index], self.spouts[index].gathered
        if mark is not None:
            home.kept()
            self.says(index)

    def says(self, index: int) -> None:
        """What a home announces from now on: all of it as of its last durable mark."""
        home = self.spouts[index]
        mine, drafted, has = owner(index, home.incarnation), self.drafts[index], home.mark.has
        unfinished = [number for (_, number), message in home.numbers.items() if not has(message)]
        alive = [one for one in unfinished if home.numbers[home.incarnation, one] not in home.mark.letters]
        self.announcements += 1
        self.said[index] = Progress(
            mine << 32 | drafted,
            frozenset(mine << 32 | number + 1 for number in unfinished if number < drafted),
            mine,
            home.caught_up(),
            frozenset(origin_of(index, message) for message in home.mark.letters),
            self.settled(index, lambda line: all(number >= line for number in alive)),
            self.announcements,
        )

    def settled(self, index: int, has_done: Callable[[int], bool]) -> frozenset[int]:
        """Owners of others, where all that this home had begun before it heard of them is done."""
        return frozenset(one for one, line in self.knowing[index].lines.items() if has_done(line))

    def announce(self, index: int, listener: int) -> None:
        """One hears what another one says."""
        middle = self.middles.get(index)
        progress = middle.progress() if middle else self.said[index]
        who = self.counting if listener == COUNTING else self.middles[listener]
        who.knowledge.hear(progress)
        who.forget()

    def mark(self, index: int) -> None:
        if self.spouts[index].gathered is None:
            self.gather(index)
        self.kept(index)

    def tell_all(self, listeners: Collection[int] = ()) -> None:
        for index in self.homes:
            for listener in listeners or [*self.middles, COUNTING]:
                self.announce(index, listener)

    # -- all of it

    def replay(self) -> None:
        for home in self.spouts.values():
            for message in [one for one, flight in home.flights.items() if not flight.out]:
                home.replay(message)

    def flow(self, *, far: bool = True) -> None:
        """Everything that is ready goes as far as it can; or only up to the bolt that counts."""
        self.replay()
        for middle in self.working:
            while middle.queue:
                middle.work()
            middle.commit()
            while middle.queue:
                middle.work()
            if isinstance(middle, Timing):
                middle.send()
        if far:
            self.count()

    def count(self) -> None:
        while self.counting.queue:
            self.counting.work()
        self.counting.commit()
        while self.counting.queue:
            self.counting.work()

    def slow(self, *, counting: bool) -> None:
        """The next input of a bolt is held up, where others still see to it."""
        for index in [COUNTING] if counting else [one.index for one in self.working]:
            if queue := self.queue_of(index):
                self.held.append((index, queue.pop(0)))
                break

    def release(self) -> None:
        if self.held:
            index, one = self.held.pop(0)
            self.queue_of(index if index == COUNTING or self.kind == "spreads" else self.place).append(one)

    def queue_of(self, index: int) -> list[Input]:
        return self.counting.queue if index == COUNTING else self.middles[index].queue

    # -- what must hold

    def check(self) -> None:
        states = {"counting": self.counting.mine}
        if isinstance(self.middle, Timing):
            states["timing"] = self.middle.state.mine
        for name, state in states.items():
            twice = [one for one, times in Counter(state.effects).items() if times > 1]
            assert not twice, f"{name} counted twice: {twice}"

    def heal(self) -> None:
        for _ in range(ROUNDS_MAX):
            self.release()
            for index in self.homes:
                self.hears(index)
            for index, home in self.spouts.items():
                for message in home.letters():
                    home.replay_by_hand(message)
                for flight in home.flights.values():
                    flight.out = False
                home.emit()
                self.mark(index)
            middle = self.middle
            if isinstance(middle, Timing):
                middle.fire()
                for number in range(1, len(middle.begun) + 1):
                    if number not in middle.done:
                        middle.again(number)
            self.flow()
            if isinstance(middle, Joiner):
                middle.let_go()
            self.tell_all()
            self.check()
            if self.is_complete():
                break
        else:
            raise AssertionError(f"does not complete: {self.spouts[0].flights}, {self.counting.mine}")
        names = {"joins": "a", "times": ["timer"]}.get(self.kind, ["pair"])
        expected = {(name, number) for name in names for number in range(LENGTH)}
        assert set(self.counting.disk.remembered.effects) == expected, "missing in what counts"
        if isinstance(self.middle, Timing):
            both = {(name, number) for name in ("a", "timer") for number in range(LENGTH)}
            assert set(self.middle.state.disk.remembered.effects) == both, "missing in what has timers"

    def is_complete(self) -> bool:
        """Everything is done, and nothing is remembered any more: for that, too, all has to be told in the end."""
        spouts = self.spouts.values()
        busy = any(one.next_id < LENGTH or one.flights or one.dying or one.mark.letters for one in spouts)
        states = [self.counting.disk.remembered]
        if isinstance(self.middle, Timing):
            states.append(self.middle.state.disk.remembered)
        return not (busy or self.held or any(one.known or one.timers or one.fired for one in states))


def origin_of(index: int, message: Message) -> int:
    return 1 + 10 * index + message[1]
