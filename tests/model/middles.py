"""Bolts without a state in the model with sub-trees: one that joins two messages, and one that begins a sub-root for
them. Each is a home as well; must not know what the next bolt remembers."""

from typing import TYPE_CHECKING

from orders import Input, Wrong
from remembering import Knowledge

from acker.progress import Progress
from acker.roots import owner

if TYPE_CHECKING:
    from net import Net


class Middle:
    """A worker with a bolt: what any of them has, and the sub-roots that it has begun."""

    def __init__(self, net: "Net", index: int, incarnation: int) -> None:
        self.net, self.index, self.incarnation = net, index, incarnation
        self.owner = owner(index, incarnation)
        self.knowledge = Knowledge(net, net.homes)
        self.queue: list[Input] = []
        self.begun: list[Input] = []  # what left under each sub-root; number 1 is the first
        self.said = Progress(0, frozenset())

    def begin(self, identity: tuple[str, int], origin: int) -> None:
        """An output leaves under a sub-root."""
        self.begun.append(Input(identity, origin, ((self.owner << 32 | len(self.begun) + 1, 0),)))
        self.net.arrive(self.begun[-1])

    def again(self, number: int) -> None:
        """Another attempt of that."""
        (message, attempt), *_ = self.begun[number - 1].roots
        one = self.begun[number - 1]
        self.begun[number - 1] = one = Input(one.identity, one.origin, ((message, attempt + 1),))
        self.net.arrive(one)

    def progress(self) -> Progress:
        """What it says now, and what it has heard: the number of what it says grows only with news of its own."""
        mine = Progress(
            self.owner << 32 | len(self.begun),
            frozenset(self.owner << 32 | number for number in self.unfinished()),
            self.owner,
            self.caught_up(),
            settled=self.net.settled(self.index, lambda line: all(number > line for number in self.first_causes())),
            number=self.said.number,
            refused=frozenset(self.owner << 32 | number for number in self.stale()),
        )
        if mine != self.said:
            self.said = mine._replace(number=mine.number + 1)
        return self.said._replace(heard=self.knowledge.floors.known())

    def commit(self) -> None:
        """It keeps nothing."""

    def forget(self) -> None:
        """Nor that."""

    def work(self) -> None:
        raise NotImplementedError

    def is_done(self, number: int, attempt: int) -> None:
        raise NotImplementedError

    def unfinished(self) -> list[int]:
        """Numbers of the sub-roots whose cause may come again."""
        return []

    def stale(self) -> list[int]:
        """Numbers of the sub-roots that nobody waits for."""
        return []

    def first_causes(self) -> list[int]:
        """Those of them that nothing else has caused. What gathers has none: its sub-roots come again only if messages
        do, whose homes say so. Would they count, two lives could wait for each other: the sub-root for an input of a
        dead life, and that life, to be over, for the home of the sub-root."""
        return self.unfinished() if self.net.wrong is Wrong.SUBROOTS_ARE_CAUSES else []

    def caught_up(self) -> bool:
        return True


class Joiner(Middle):
    """Joins what a first source has with whatever is at hand of a second one: an output belongs to both messages. It
    counts as the first's."""

    def __init__(self, net: "Net", index: int, incarnation: int) -> None:
        super().__init__(net, index, incarnation)
        self.at_hand: list[Input] = []

    def work(self) -> None:
        one = self.queue.pop(0)
        if one.identity[0] == "b":
            self.at_hand.append(one)
            return
        roots = one.roots
        if self.at_hand:
            roots += self.at_hand.pop(0).roots
        self.net.arrive(Input(one.identity, one.origin, roots))

    def let_go(self) -> None:
        """What nothing was joined with is done."""
        at_hand, self.at_hand = self.at_hand, []
        for one in at_hand:
            self.net.acked(one)


class Gatherer(Middle):
    """Holds inputs until both of a pair are there, and puts out one tuple for them under a sub-root, whose end acks
    both. It refuses what is stale, which would be new under a sub-root; so it takes nothing before it has heard of all
    homes, since it has forgotten what its earlier lives knew."""

    def __init__(self, net: "Net", index: int, incarnation: int) -> None:
        super().__init__(net, index, incarnation)
        self.held: dict[tuple[str, int], Input] = {}
        self.inputs: list[list[Input]] = []  # of each sub-root
        self.open: set[int] = set()

    def work(self) -> None:
        one = self.queue.pop(0)
        deaf = not self.knowledge.floors.hears_all and self.net.wrong is not Wrong.SUBROOT_BEFORE_HEARING
        if deaf or (self.knowledge.is_stale(one) and self.net.wrong is not Wrong.SUBROOT_FOR_THE_STALE):
            return
        self.held[one.identity] = one
        number = one.identity[1]
        pair = [self.held.get((source, number)) for source in ("a", "b")]
        if all(half is not None or self.net.has_done(source, number) for source, half in zip("ab", pair, strict=True)):
            inputs = [half for half in pair if half is not None]
            for half in inputs:
                del self.held[half.identity]
            self.inputs.append(inputs)
            self.open.add(len(self.inputs))
            self.begin(("pair", number), 100 + number)

    def is_done(self, number: int, attempt: int) -> None:
        self.open.discard(number)
        for one in self.inputs[number - 1]:
            self.net.acked(one)

    def unfinished(self) -> list[int]:
        if self.net.wrong is Wrong.OVER_WHEN_COMPLETE:
            return sorted(self.open)
        over = self.knowledge.is_over
        return [number for number, inputs in enumerate(self.inputs, 1) if not all(map(over, inputs))]

    def stale(self) -> list[int]:
        if self.net.wrong is Wrong.STALE_SUBROOTS_TAKEN:
            return []
        stale = self.knowledge.is_stale
        return [number for number, inputs in enumerate(self.inputs, 1) if all(map(stale, inputs))]
