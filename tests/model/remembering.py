"""What bolts remember of their inputs in the model with sub-trees, and forget by floors: `acker.floors` itself.

Wrong orders change what it says; must not know what a bolt does with an input.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from orders import Disk, Input, Remembered, Wrong

from acker.agreed_floors import AgreedFloors
from acker.floors import HOME_SHIFT, Floors
from acker.progress import Progress

if TYPE_CHECKING:
    from net import Net


class Knowledge:
    """What one process has heard of all homes."""

    def __init__(self, net: "Net", homes: Collection[int], told: Collection[Progress] = ()) -> None:
        self.net = net
        self.floors = AgreedFloors(homes, net.beginners)
        self.floors.restore(told)

    def hear(self, progress: Progress) -> None:
        self.floors.announce(progress)

    def is_stale(self, one: Input) -> bool:
        if self.net.wrong is Wrong.REFUSED_ON_ALL_FLOORS:
            return all(self.floors.refuses(message) for message in one.messages)
        return any(self.floors.refuses(message) for message in one.messages)

    def is_over(self, one: Input) -> bool:
        """Whether this input may be forgotten. What has a sub-root stands for several messages."""
        wrong, messages = self.net.wrong, one.messages
        if wrong is Wrong.FORGOTTEN_ON_ANY_FLOOR:
            return any(self.floors.are_over([message], one.origin) for message in messages)
        if any(message >> HOME_SHIFT in self.net.middles for message in messages):
            if wrong is Wrong.OVER_AT_THE_NEXT_LIFE and self.floors.is_earlier(messages):
                return True
            messages = messages if wrong is Wrong.OVER_ALTHOUGH_DEAD else messages * 2
        if wrong is Wrong.OVER_BY_OWN_KNOWLEDGE:
            return Floors.are_over(self.floors, messages, one.origin)
        return self.floors.are_over(messages, one.origin)


class Remembering:
    """A bolt with a disk: what it has taken waits for a commit, and is known from then on."""

    def __init__(self, net: "Net", homes: Collection[int], disk: Disk) -> None:
        self.net, self.disk = net, disk
        self.mine = self.committed = disk.remembered
        self.knowledge = Knowledge(net, homes, self.mine.floors)
        self.queue: list[Input] = []
        self.parked: list[Input] = []
        self.staged: list[Input] = []  # acks that leave after the commit

    def work(self) -> None:
        one = self.queue.pop(0)
        if self.knowledge.is_stale(one):
            return
        if one.identity in self.mine.known:
            if one.identity not in self.committed.known:
                self.parked.append(one)
                return
            self.net.acked(one)
        else:
            self.mine = self.taken(one)
            self.staged.append(one)
        self.mine = replace(self.mine, known={**self.mine.known, one.identity: one})

    def taken(self, one: Input) -> Remembered:
        """What an input does."""
        return replace(self.mine, effects=(*self.mine.effects, one.identity))

    def commit(self) -> None:
        self.disk.remembered = self.committed = self.mine
        staged, self.staged = self.staged, []
        self.queue, self.parked = self.parked + self.queue, []
        for one in staged:
            self.net.acked(one)

    def forget(self) -> None:
        """What is over; durable, with the floors, at the next commit."""
        known = {name: one for name, one in self.mine.known.items() if not self.knowledge.is_over(one)}
        self.mine = replace(self.mine, known=known, floors=tuple(self.knowledge.floors.announced()))
