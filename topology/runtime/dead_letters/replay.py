"""Replay dead letters by hand. Each message is emitted again under a new number, with its old origin and identity, so
that bolts that have seen it recognise it (E1).

It has as many attempts as a new message. When it is done, its letter is removed; if it dies again, its letter is
replaced. A request is durable, and the next life of the worker resumes it. Must not know stores.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from topology.runtime.dead_letters.deliveries import Deliveries, Delivery, DeliveryHost, LetterRoute
from topology.runtime.dead_letters.letter import LetterProblem, altered, message_of_letter
from topology.runtime.dead_letters.letter_store import LetterStore
from topology.runtime.failures import Failure
from topology.runtime.tasks.spout_task import SpoutTask
from topology.storage.values import Letter


class Revival(Delivery, kw_only=True):
    """A message that is replayed by hand. `spout` counts it."""

    spout: SpoutTask

    @property
    def attempts(self) -> int:
        return self.letter.attempts + self.own + self.others


class LetterReplay(Deliveries):
    """Replays letters. `spout_of` returns the task that a letter belongs to now, or None. `dead_again` buries a message
    that has failed again."""

    def __init__(
        self,
        home: DeliveryHost,
        letter_store: LetterStore,
        random: Random,
        trees: set[int],
        alone: asyncio.Lock,
        *,
        spout_of: Callable[[Letter], SpoutTask | None],
        dead_again: Callable[[Revival, Failure], None],
    ) -> None:
        super().__init__(home, letter_store, random, trees, alone)
        self._spout_of = spout_of
        self._dead_again = dead_again

    def problem(self, letter: Letter) -> str:
        """Return the reason why this letter can't be replayed, as a sentence; empty if it can."""
        try:
            self._message(letter)
        except LetterProblem as error:
            return str(error)
        return ""

    def _message(self, letter: Letter) -> tuple[Any, SpoutTask]:
        spout = self._spout_of(letter)
        if spout is None:
            raise LetterProblem(f"there is no spout {letter.component!r} any more")
        return message_of_letter(letter, spout.outbox.classes), spout

    def delivery(self, letter: Letter) -> Delivery | None:
        if not letter.replaying or self.draining:  # the next life resumes it
            return None
        try:
            message, spout = self._message(letter)
        except LetterProblem as error:
            self.give_back(letter, str(error))
            return None
        spout.counters.emitted += 1
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
        """Give up the replay of a letter. The letter stays."""
        self.home.reporter.not_replayed(letter, why)
        self.letter_store.change(altered(letter, replaying=False, begun=0))

    def deadly(self, letter: Letter, why: str) -> None:
        self.give_back(letter, why)

    def tried(self, tree: Delivery, failure: Failure) -> None:
        assert isinstance(tree, Revival)
        tree.spout.counters.failed += 1

    def again(self, tree: Delivery) -> None:
        assert isinstance(tree, Revival)
        tree.spout.counters.replayed += 1

    def done(self, tree: Delivery) -> None:
        assert isinstance(tree, Revival)
        tree.spout.counters.acked += 1
        tree.spout.pending -= 1
        tree.spout.freed()
        letter = self.letter_store.current(tree.letter.name)
        if letter is not None:
            self.home.reporter.revived(letter)
            self.letter_store.remove(letter, done=tree.numbers, again=partial(self.add, letter.name))

    def spent(self, tree: Delivery, failure: Failure) -> None:
        assert isinstance(tree, Revival)
        self._dead_again(tree, failure)

    def drain(self) -> None:
        """Leave what was requested and has not begun to the next run."""
        super().drain()
        for name in self._names:
            self._open.discard(name)
        self._names.clear()
