"""A bolt with sub-trees and without state, in the model of checkpoints.

It holds inputs until both of a pair are there, and sends one tuple for them under a sub-root, whose end acks them. Must
not know when a checkpoint is taken.
"""

from typing import TYPE_CHECKING

from cut_values import FIRST, SOURCES, Frontier, Rule, Tup

if TYPE_CHECKING:
    from cut_run import Run
    from cut_worker import Worker


class Pairing:
    def __init__(self, run: "Run", worker: "Worker") -> None:
        self.run, self.worker = run, worker
        self.queue: list[Tup] = []
        self.waiting: dict[tuple[str, int], Tup] = {}
        self.members: dict[int, list[Tup]] = {}  # count of the sub-root → its inputs

    def work(self) -> None:
        tup = self.queue.pop(0)
        if tup.generation != self.run.generation and self.run.broken is not Rule.NO_OLD_TUPLES:
            return
        if self.worker.refuses(tup.number):
            return
        self.waiting[tup.cause] = tup
        number = tup.cause[1]
        if all((source, number) in self.waiting or self._is_done(source, number) for source in SOURCES):
            inputs = [self.waiting.pop((source, number)) for source in SOURCES if (source, number) in self.waiting]
            root = self.worker.own_number()
            self.members[root[2]] = inputs
            # A join's output for other anchors is another one: that is so without a partner that was dropped.
            is_alone = any((source, number) in self.run.dropped for source in SOURCES) and len(inputs) < len(SOURCES)
            name = ("pair", number, *(each.cause[0] for each in inputs)) if is_alone else ("pair", number)
            self.run.arrive(FIRST, Tup(name, ("pair", number), root, 0, self.run.generation, self.worker.gathered))

    def _is_done(self, source: str, number: int) -> bool:
        """As if the records that are done were in a table that anybody can read."""
        home = self.run.home(source)
        return number in home.finished and number not in home.letters and number not in home.pending

    def is_done(self, count: int) -> None:
        """The tree of a sub-root is complete: that acks its inputs."""
        for tup in self.members[count]:
            self.run.ack(tup)

    def decided(self, frontier: Frontier) -> None:
        """A frontier is decided: the messages in it can't come again, and one that was dropped is in no later one."""
        for count, inputs in self.members.items():
            self.members[count] = [tup for tup in inputs if not frontier.has(tup.number, tup.cause)]

    def over(self, done: set[int]) -> set[int]:
        """Return the sub-roots that are in a frontier which is noted now."""
        if self.run.broken is Rule.SUBROOT_AFTER_ITS_MESSAGES:
            return {count for count in self.members if count in done}
        return {count for count, inputs in self.members.items() if not inputs}

    def empty(self) -> None:
        """Another worker is dead: what is held fails."""
        self.queue, self.waiting = [], {}
