"""The spout's process in the model: which messages it has under way, what its marks say, and what it announces.

It must not know what else there is, but for what `Around` says. A mark carries which messages were emitted when it was
gathered, and a home emits at most `AHEAD` beyond its last durable mark: so a new life knows where everything ends that
an earlier one can have emitted (D4).
"""

from dataclasses import replace
from typing import Protocol

from orders import AHEAD, LENGTH, Disk, Flight, Floor, Mark, Message, Number, Tup, Wrong


class Around(Protocol):
    """The world, as a home sees it."""

    wrong: Wrong | None
    epoch: int

    def emitted_by(self, home: "Home", tup: Tup) -> None:
        """A tuple leaves for the first bolt."""


class Home:
    """The spout's process: messages, marks, letters."""

    def __init__(self, world: Around, disk: Disk, incarnation: int) -> None:
        self.world, self.disk, self.incarnation = world, disk, incarnation
        self.mark = disk.mark  # the last one that is durable, as far as it knows
        self.old_newest = disk.mark.newest
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
        """The next message leaves; not before another mark is durable, where that would be too far ahead of it."""
        while self.next_id < LENGTH:
            message = (self.world.epoch, self.next_id)
            if message >= ahead_of(self.mark.newest) and self.world.wrong is not Wrong.NOT_HELD_AT_THE_LINE:
                return False
            self.next_id += 1
            if message not in self.done:
                self.disk.emitted.add(message)
                self.leave(message, Flight(self.new_number(message)))
                return True
        return False

    def new_number(self, message: Message) -> Number:
        number = (self.incarnation, len(self.numbers))
        self.numbers[number] = message
        return number

    def leave(self, message: Message, flight: Flight) -> None:
        self.flights[message] = flight
        self.world.emitted_by(self, Tup(message, flight.number, flight.attempt))

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
        before = message < self.old_line()  # nobody knows under which number an earlier home has emitted it
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
        newest = (epoch, self.next_id)
        if wrong is not Wrong.LINE_FALLS_BACK:
            newest = max(newest, self.mark.newest)
        self.gathered = Mark(position, done, letters, newest), frozenset(() if late else self.dying)
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

    def old_line(self) -> Message:
        """Nothing at or above it was emitted by an earlier life."""
        return ahead_of(self.old_newest)

    def caught_up(self) -> bool:
        """Whether all that earlier lives can have emitted is done, and that is durable."""
        if self.world.wrong is Wrong.OVER_AT_THE_NEWEST:
            return self.mark.position >= self.old_newest
        return self.mark.position >= min(self.old_line(), (self.old_newest[0], LENGTH))

    def floor(self) -> Floor:
        wrong, mark = self.world.wrong, self.mark
        if wrong is Wrong.FORGOTTEN_OF_THE_DEAD:
            mark = replace(mark, letters={})
        has = mark.has if wrong is not Wrong.FORGOTTEN_ON_MEMORY_MARK else lambda one: one in self.done or mark.has(one)
        done = frozenset(number for number, message in self.numbers.items() if has(message))
        over = self.incarnation if self.caught_up() else 0
        if wrong is not Wrong.FORGOTTEN_OF_EARLIER:
            over = min([over, *mark.letters.values()])
        return Floor(over, done)


def ahead_of(newest: Message) -> Message:
    """How far a home goes, of whose messages those before `newest` were emitted when its last durable mark was made."""
    return newest[0], newest[1] + AHEAD
