"""A bolt with timers, in the model with sub-trees: each input sets one. Firing is an input of its own (B10).

What fires, and what it has put out, is committed as the timer goes; that leaves under a sub-root, again and again until
it is done; then a commit takes it away, and only that is the end of the sub-root (D17). Must not know of slots.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from middles import Middle
from orders import Disk, Input, Remembered, Wrong
from remembering import Remembering

if TYPE_CHECKING:
    from net import Net


class Setting(Remembering):
    """What it does with inputs, and keeps."""

    def taken(self, one: Input) -> Remembered:
        return replace(super().taken(one), timers=self.mine.timers | {("timer", one.identity[1])})


class Timing(Middle):
    def __init__(self, net: "Net", index: int, incarnation: int, disk: Disk, homes: Collection[int]) -> None:
        super().__init__(net, index, incarnation)
        self.state = Setting(net, homes, disk)
        self.knowledge, self.queue = self.state.knowledge, self.state.queue
        self.loaded = disk.remembered.fired
        self.done: set[int] = set()
        self.half: list[tuple[str, int]] = []  # timers that are removed and have done nothing yet: wrong
        self.had: set[tuple[str, int]] = set()  # fired in this life

    def work(self) -> None:
        self.state.work()

    def fire(self) -> None:
        """A timer is due."""
        state, wrong = self.state, self.net.wrong
        if self.half:
            self.does(self.half.pop(0))
        elif due := sorted(state.mine.timers - self.had):
            if wrong is not Wrong.TIMER_REMOVED_AFTER:
                state.mine = replace(state.mine, timers=state.mine.timers - {due[0]})
            if wrong is Wrong.TIMER_REMOVED_BEFORE:
                self.half.append(due[0])
            else:
                self.does(due[0])

    def does(self, timer: tuple[str, int]) -> None:
        mine = self.state.mine
        if self.net.wrong is Wrong.TIMER_REMOVED_AFTER:
            self.had.add(timer)
        self.state.mine = replace(mine, effects=(*mine.effects, timer), fired=mine.fired | {timer})

    def commit(self) -> None:
        self.state.commit()
        self.queue = self.state.queue  # with what was parked

    def send(self) -> None:
        """What is committed leaves, once in a life; then it is for `again`."""
        for timer in sorted(self.state.committed.fired - {one.identity for one in self.begun}):
            self.begin(timer, 200 + timer[1])
            if self.net.wrong is Wrong.OUTPUT_FORGOTTEN_WHEN_SENT:
                self.remove(timer)

    def remove(self, timer: tuple[str, int]) -> None:
        mine = self.state.mine
        self.state.mine = replace(mine, fired=mine.fired - {timer}, timers=mine.timers - {timer})

    def is_done(self, number: int, attempt: int) -> None:
        self.done.add(number)
        self.remove(self.begun[number - 1].identity)

    def forget(self) -> None:
        self.state.forget()

    def unfinished(self) -> list[int]:
        if self.net.wrong is Wrong.OVER_BEFORE_REMOVAL:
            return [number for number, _ in enumerate(self.begun, 1) if number not in self.done]
        kept = self.state.committed.fired
        return [number for number, one in enumerate(self.begun, 1) if one.identity in kept]

    def first_causes(self) -> list[int]:
        return self.unfinished()

    def caught_up(self) -> bool:
        if self.net.wrong is Wrong.CAUGHT_UP_WHEN_SENT:
            return self.loaded <= {one.identity for one in self.begun}
        return not self.loaded & self.state.committed.fired
