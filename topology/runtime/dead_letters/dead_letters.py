"""The dead letters of one worker: bury, serve and replay them, and answer questions about them.

Joins the parts; the worker knows only this module. Must not know sockets, commands, or how a store is made.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Final, Protocol

from acker.roots import message_of
from topology.components import Clock
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.current_task import entered
from topology.runtime.dead_letters.deliveries import DeliveryHost, LetterRoute
from topology.runtime.dead_letters.letter import letter_of, with_failure
from topology.runtime.dead_letters.letter_store import Burial, LetterStore
from topology.runtime.dead_letters.queries import Answering
from topology.runtime.dead_letters.replay import LetterReplay, Revival
from topology.runtime.dead_letters.subscribers import LetterSubscribers
from topology.runtime.failures import Failure
from topology.runtime.hot.message_tree import MessageTree
from topology.runtime.hot.pending import Pending
from topology.runtime.poison.trials import Trials
from topology.runtime.tasks.spout_task import SpoutTask
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.values import Letter

DEATHS_MAX: Final = 2  # deaths of this worker since its last clean end; after that a letter may be what kills it


class DeadLettersHost(DeliveryHost, Protocol):
    """The worker, as far as its dead letters need it."""

    worker: int
    clock: Clock
    checkpoints: WorkerCheckpoints
    spout_tasks: dict[tuple[str, int], SpoutTask]
    trials: Trials

    @property
    def sources_ended(self) -> asyncio.Event: ...
    def died(self, spout_task: SpoutTask, tree: MessageTree, failure: Failure, letter: str) -> None: ...


class DeadLetters:
    """All dead letters of a worker. Make it before the worker's tasks are built, because a letter is gathered before
    its mark (E2). Then call `begin`."""

    def __init__(self, home: DeadLettersHost, random: Random) -> None:
        self._home = home
        self.routes: dict[str, LetterRoute] = {}  # spout whose dead letters a bolt reads → how they leave
        self.letter_store = LetterStore(home.worker, home.checkpoints, home.config.max_dead, self._served_later)
        # First roots of letters' trees. While there are any, a tree may belong to a spout or to a letter.
        self.under_way = set[int]()
        alone = asyncio.Lock()
        self._subscribers = LetterSubscribers(
            home, self.letter_store, random, self.under_way, alone, routes=self.routes
        )
        self._replay = LetterReplay(
            home, self.letter_store, random, self.under_way, alone, spout_of=self._spout_of, dead_again=self._dead_again
        )
        self._answering = Answering(self.letter_store, home.checkpoints, self._replay)
        home.checkpoints.add(self.letter_store)

    def begin(self) -> None:
        """Connect to the tasks, which are built now. From now on, spouts wait while the letters are at their bound, and
        letters wait while a message is tried alone."""
        for spout_task in self._home.spout_tasks.values():
            spout_task.pauses.checks.append(lambda: self.letter_store.why if self.letter_store.full else "")
        self.letter_store.has_room = self._wake
        self._home.trials.others.append(self)

    def _wake(self) -> None:
        for spout_task in self._home.spout_tasks.values():
            spout_task.wake()

    def _served_later(self, name: str) -> None:
        self._subscribers.add(name)

    def works(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """Yield the name and the coroutine function of each task to run."""
        if self.routes or self.letter_store.keeps:
            yield "dead letters that are read", self._subscribers.run
            yield "the end of the sources, for dead letters", self._ends
        if self.letter_store.keeps:
            yield "dead letters that are replayed", self._replay.run
            self._resume()

    async def _ends(self) -> None:
        await self._home.sources_ended.wait()
        self._subscribers.ends()
        self._replay.ends()

    def _resume(self) -> None:
        """Resume what was in flight when this worker ended last. If it has died several times since its last clean end,
        take one letter at a time, because a letter may be the cause."""
        loaded = self._home.checkpoints.loaded
        for deliveries, names in ((self._subscribers, loaded.unserved), (self._replay, loaded.replaying)):
            deliveries.careful = loaded.deaths >= DEATHS_MAX
            for name in names:
                deliveries.add(name)

    # -- dead messages

    def bury(self, spout_task: SpoutTask, tree: Pending, failure: Failure, deaths: int = 0) -> None:
        """Bury a dead message. `deaths` is the number of workers' deaths that it is blamed for (E7)."""
        letter = letter_of(
            tree.message,
            failure,
            component=spout_task.component,
            task=spout_task.task,
            epoch=spout_task.epoch_of(tree),
            pair=spout_task.pair_of(tree),
            attempts=tree.attempts,
            deaths=deaths,
            died_at=self._home.clock.utc(),
        )
        over = partial(self._over, spout_task, tree, failure)
        self.letter_store.bury(Burial(letter, tree, _numbers(tree), over), read=spout_task.component in self.routes)

    def _over(self, spout_task: SpoutTask, tree: Pending, failure: Failure, letter: Letter) -> None:
        spout_task.buried(tree)
        with entered(spout_task.place):
            self._home.died(spout_task, tree, failure, letter.name if self.letter_store.keeps else "")

    def completed(self, trees: Iterable[Pending]) -> None:
        """Messages are done. Some of them may have a letter all the same: `LetterStore.given_again`."""
        origins = self.letter_store.may_be_given_again
        for tree in trees:
            if isinstance(tree.owner, SpoutTask) and (origin := tree.owner.pair_of(tree)[0]) in origins:
                self.letter_store.given_again(origin, _numbers(tree))

    def _dead_again(self, tree: Revival, failure: Failure) -> None:
        """Bury a message again that was replayed by hand and has failed as often as it may."""
        letter = self.letter_store.current(tree.letter.name) or tree.letter
        attempts, now = tree.own + tree.others, self._home.clock.utc()
        letter = with_failure(letter, failure, attempts=attempts, deaths=0, died_at=now)
        over = partial(self._over_again, tree, failure)
        self.letter_store.bury(Burial(letter, tree, tree.numbers, over), read=letter.component in self.routes)

    def _over_again(self, tree: Revival, failure: Failure, letter: Letter) -> None:
        spout_task = tree.spout
        spout_task.counters.dead += 1
        spout_task.pending -= 1
        spout_task.freed()
        with entered(spout_task.place):
            self._home.died(spout_task, tree, failure, letter.name)

    def _spout_of(self, letter: Letter) -> SpoutTask | None:
        """Return the task that a letter belongs to, or another task of that spout if it now has fewer tasks."""
        spout_tasks = self._home.spout_tasks
        others = (task for (name, _), task in spout_tasks.items() if name == letter.component)
        return spout_tasks.get((letter.component, letter.task)) or next(others, None)

    # -- for the worker

    async def answer(self, ask: DeadAsk) -> DeadAnswer:
        """Answer a question about the letters of this worker, once the changes that it asks for are durable."""
        return await self._answering.answer(ask)

    @property
    def kept(self) -> int:
        """Return the number of letters that the store has or is about to have."""
        return self.letter_store.letters if self.letter_store.keeps else 0

    @property
    def pending(self) -> int:
        """Return the number of deliveries that the end of the run waits for, in addition to messages."""
        return self._subscribers.open + self._replay.open - self._replay.begun

    @property
    def later(self) -> int:
        """Return the number of those deliveries and dead messages that are in no ledger."""
        return self._subscribers.waiting + self._replay.waiting + self.letter_store.waiting

    @property
    def emitted(self) -> int:
        """Return a number that grows with everything that happens here."""
        return self._subscribers.emitted + self._replay.emitted

    def unfinished(self) -> set[int]:
        """Return the numbers of messages of which nothing may be forgotten yet (E1, D17)."""
        trees = (*self._subscribers.later(), *self._replay.later())
        return self.letter_store.unfinished().union(*map(_numbers, trees))

    def go_back(self) -> None:
        """The run is as in the last decided checkpoint: what was delivered since then is delivered again."""
        self.letter_store.go_back()

    def hold(self) -> None:
        """Serve or replay no letter until `release`, because a message must be alone (E7)."""
        self._subscribers.hold()
        self._replay.hold()

    def release(self) -> None:
        self._subscribers.release()
        self._replay.release()

    def drain(self) -> None:
        """Try at once what waits for another attempt, and begin nothing else that was requested."""
        self._subscribers.drain()
        self._replay.drain()

    def close(self) -> None:
        """Begin nothing any more."""
        self._subscribers.close()
        self._replay.close()


def _numbers(tree: MessageTree) -> frozenset[int]:
    """Return the message numbers that this tree has had."""
    return frozenset((message_of(tree.root), *tree.renamed))
