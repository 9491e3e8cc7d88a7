"""Serves dead letters to the bolts that read them: each as a message of its own, once its letter is kept (E2).

A letter is served until all of its tree is processed, over restarts too; if its readers fail for it as often as bolts
may fail for a message, it is given up, loudly: never a dead letter of a dead letter. Must not know stores or spouts.
"""

from topology.components import Message
from topology.runtime.dead_letters.deliveries import Deliveries, Delivery
from topology.runtime.dead_letters.letter import PROBLEM_MAX, altered, news_of, same_death
from topology.runtime.failures import Failure, Reason
from topology.storage.values import Letter
from topology.text import escaped


class LetterSubscribers(Deliveries):
    """Letters of spouts whose dead letters somebody reads: the worker's `dead_ways` say how these leave."""

    def delivery(self, letter: Letter) -> Delivery | None:
        if letter.served:
            return None
        way = self.home.dead_ways.get(letter.component)
        if way is None:  # whoever read them has gone since, or the spout itself
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
        """Keeps that it need not be served again, unless the message has died another time since."""
        letter = self.letter_store.current(tree.letter.name)
        if letter is not None and same_death(letter, tree.letter):
            self.letter_store.change(altered(letter, served=True, unheard=unheard, begun=0), done=tree.numbers)
