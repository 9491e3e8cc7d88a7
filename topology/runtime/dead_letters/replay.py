"""Replays dead letters by hand: each message is emitted again under a new number, with the origin and the identity that
it had, so that whoever has seen it knows it (E1).

It has as many attempts as a new message. Done, its letter is gone; dead again, its letter is replaced. A letter that
was asked for says so durably, and the next life of its worker goes on with it. Must not know stores.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from topology.runtime.dead_letters.bury import LetterStore
from topology.runtime.dead_letters.deliveries import Deliveries, Delivery, DeliveryHost, LetterRoute
from topology.runtime.dead_letters.letter import LetterProblem, altered, message_of_letter
from topology.runtime.failures import Failure
from topology.storage.values import Letter


class ReplayedSpout(Protocol):
    """A spout task, whose counters a replayed message is in as every message is. Here only what is asked of it."""

    component: str
    emitted: int
    acked: int
    failed: int
    replayed: int
    pending: int
    outbox: Any
    downstream: Any
    below: Any

    def wake(self) -> None: ...


class Revival(Delivery, kw_only=True):
    """A message that is replayed by hand; its numbers are counted by `spout`."""

    spout: ReplayedSpout

    @property
    def attempts(self) -> int:
        return self.letter.attempts + self.own + self.others


class LetterReplay(Deliveries):
    """`spout_of` finds the task that a letter belongs to now, or None; `dead_again` buries what has failed."""

    def __init__(
        self,
        home: DeliveryHost,
        letter_store: LetterStore,
        random: Random,
        trees: set[int],
        alone: asyncio.Lock,
        *,
        spout_of: Callable[[Letter], ReplayedSpout | None],
        dead_again: Callable[[Revival, Failure], None],
    ) -> None:
        super().__init__(home, letter_store, random, trees, alone)
        self._spout_of = spout_of
        self._dead_again = dead_again

    def problem(self, letter: Letter) -> str:
        """Why this letter can't be replayed, in a sentence; empty where it can."""
        try:
            self._message(letter)
        except LetterProblem as error:
            return str(error)
        return ""

    def _message(self, letter: Letter) -> tuple[Any, ReplayedSpout]:
        spout = self._spout_of(letter)
        if spout is None:
            raise LetterProblem(f"there is no spout {letter.component!r} any more")
        return message_of_letter(letter, spout.outbox.classes), spout

    def delivery(self, letter: Letter) -> Delivery | None:
        if not letter.replaying or self.draining:  # the next life goes on with it
            return None
        try:
            message, spout = self._message(letter)
        except LetterProblem as error:
            self.give_back(letter, str(error))
            return None
        spout.emitted += 1
        spout.pending += 1
        root, now = self.home.roots.next_root(), self._loop.time()
        way = LetterRoute(spout.outbox, spout.downstream, spout.below)
        return Revival(
            *(root, 0, message, 0, self, now),
            letter=letter,
            origin=letter.origin,
            identity=letter.identity,
            way=way,
            first=root,
            spout=spout,
        )

    def give_back(self, letter: Letter, why: str) -> None:
        """The letter is not replayed, and stays."""
        self.home.reporter.not_replayed(letter, why)
        self.letter_store.change(altered(letter, replaying=False, begun=0))

    def deadly(self, letter: Letter, why: str) -> None:
        self.give_back(letter, why)

    def tried(self, tree: Delivery, failure: Failure) -> None:
        assert isinstance(tree, Revival)
        tree.spout.failed += 1

    def again(self, tree: Delivery) -> None:
        assert isinstance(tree, Revival)
        tree.spout.replayed += 1

    def done(self, tree: Delivery) -> None:
        assert isinstance(tree, Revival)
        tree.spout.acked += 1
        tree.spout.pending -= 1
        tree.spout.wake()
        letter = self.letter_store.current(tree.letter.name)
        if letter is not None:
            self.home.reporter.revived(letter)
            self.letter_store.remove(letter, done=tree.numbers)

    def spent(self, tree: Delivery, failure: Failure) -> None:
        assert isinstance(tree, Revival)
        self._dead_again(tree, failure)

    def drain(self) -> None:
        """What was asked for and has not begun is left for the next run."""
        super().drain()
        for name in self._names:
            self._open.discard(name)
        self._names.clear()
