"""Serve dead letters to the bolts that read them: each as a message of its own, once its letter is stored (E2).

A letter is served until its whole tree is processed, also after restarts. If its readers fail as often as bolts may
fail for a message, Kedge gives it up and logs an error. There is never a dead letter of a dead letter. Must not know
stores or spouts.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from random import Random

from topology.components import Message
from topology.runtime.dead_letters.deliveries import Deliveries, Delivery, DeliveryHost, LetterRoute
from topology.runtime.dead_letters.letter import PROBLEM_MAX, altered, news_of, same_death
from topology.runtime.dead_letters.letter_store import LetterStore
from topology.runtime.failures import Failure, Reason
from topology.storage.values import Letter
from topology.text import escaped


class LetterSubscribers(Deliveries):
    """Letters of spouts whose dead letters a bolt reads. `routes`: spout → how its letters leave."""

    def __init__(
        self,
        home: DeliveryHost,
        letter_store: LetterStore,
        random: Random,
        trees: set[int],
        alone: asyncio.Lock,
        *,
        routes: Mapping[str, LetterRoute],
    ) -> None:
        super().__init__(home, letter_store, random, trees, alone)
        self._routes = routes

    def delivery(self, letter: Letter) -> Delivery | None:
        if letter.served:
            return None
        way = self._routes.get(letter.component)
        if way is None:  # no bolt reads them any more, or the spout is gone
            self.letter_store.change(altered(letter, served=True))
            return None
        news, origin, identity = news_of(letter, kept=self.letter_store.keeps)
        message = Message(news, letter.id, letter.partition, letter.died_at)
        root, now = self.home.roots.next_root(), self._loop.time()
        return Delivery(
            *(root, 0, message, 0, self, now),
            letter=letter,
            origin=origin,
            identity=identity,
            way=way,
            first=root,
        )

    def deadly(self, letter: Letter, why: str) -> None:
        failure = Failure(Reason.DEADLY, letter.component, why)
        self.home.reporter.unheard(letter, letter.begun, failure)
        self.letter_store.change(altered(letter, served=True, unheard=str(failure), begun=0))

    def done(self, tree: Delivery) -> None:
        self._is_served(tree, "")

    def spent(self, tree: Delivery, failure: Failure) -> None:
        letter, attempts = tree.letter, tree.own + tree.others
        self.home.reporter.unheard(letter, attempts, failure)
        self._is_served(tree, escaped(f"{failure}, in the last of {attempts} attempts"[:PROBLEM_MAX])[:PROBLEM_MAX])

    def _is_served(self, tree: Delivery, unheard: str) -> None:
        """Note that the letter need not be served again, unless the message has died once more since."""
        letter = self.letter_store.current(tree.letter.name)
        if letter is not None and same_death(letter, tree.letter):
            served, again = altered(letter, served=True, unheard=unheard, begun=0), partial(self.add, letter.name)
            self.letter_store.change(served, done=tree.numbers, again=again)
