"""The dead letters of one worker: buries, serves, replays by hand, and answers questions about them.

Puts the parts together, and is all that the worker knows of them. Must not know sockets, commands, or how a store is
made.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from acker.ledger import Ledger
from acker.roots import RootSource, message_of
from topology.components import Clock
from topology.config import Config
from topology.runtime.commits.group_commit import GroupCommit
from topology.runtime.current_task import entered
from topology.runtime.dead_letters.bury import Burial, LetterStore
from topology.runtime.dead_letters.deliveries import LetterRoute
from topology.runtime.dead_letters.letter import letter_of, told
from topology.runtime.dead_letters.queries import Answering
from topology.runtime.dead_letters.replay import LetterReplay, Revival
from topology.runtime.dead_letters.subscribers import LetterSubscribers
from topology.runtime.failures import Failure
from topology.runtime.poison.trials import Trials
from topology.runtime.tasks.pending import Pending
from topology.runtime.tasks.spout_task import SpoutTask
from topology.runtime.telemetry.failure_log import Reporter
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.values import Letter

DEATHS_MAX: Final = 2  # of this worker since it last ended in order; then a letter may be what kills it


class DeadLettersHost(Protocol):
    """The worker, as far as it is seen from here."""

    worker: int
    ledger: Ledger[Any]
    roots: RootSource
    config: Config
    clock: Clock
    sources_ended: asyncio.Event
    group_commit: GroupCommit
    reporter: Reporter
    spout_tasks: dict[tuple[str, int], SpoutTask]
    trials: Trials
    dead_ways: dict[str, LetterRoute]  # of the spouts whose dead letters somebody reads, how these leave

    def reported(self, failure: Failure) -> None: ...
    def recovered(self, trees: Sequence[Any]) -> None: ...
    def died(self, spout_task: SpoutTask, tree: Pending, failure: Failure, letter: str) -> None: ...


class DeadLetters:
    """Make it before the tasks of the worker are built: a letter is gathered before its mark is (E2). Then `begin`."""

    def __init__(self, home: DeadLettersHost, random: Random) -> None:
        self._home = home
        self.letter_store = LetterStore(home.worker, home.group_commit, home.config.max_dead, self._served_later)
        self.under_way = set[
            int
        ]()  # first roots of letters' trees: while there are any, whose a tree is has to be asked
        alone = asyncio.Lock()
        self._serving = LetterSubscribers(home, self.letter_store, random, self.under_way, alone)
        self._reviving = LetterReplay(
            home, self.letter_store, random, self.under_way, alone, spout_of=self._spout_of, dead_again=self._dead_again
        )
        self._answering = Answering(self.letter_store, home.group_commit, self._reviving)
        home.group_commit.add(self.letter_store)

    def begin(self) -> None:
        """The tasks are built: from now on spouts are held while the letters are at their bound, and letters while a
        message is tried alone."""
        for spout_task in self._home.spout_tasks.values():
            spout_task.holds.append(lambda: self.letter_store.why if self.letter_store.full else "")
        self.letter_store.has_room = self._wake
        self._home.trials.others.append(self)

    def _wake(self) -> None:
        for spout_task in self._home.spout_tasks.values():
            spout_task.wake()

    def _served_later(self, name: str) -> None:
        self._serving.add(name)

    def works(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """What is to be run, each as a task, by name."""
        if self._home.dead_ways or self.letter_store.keeps:
            yield "dead letters that are read", self._serving.run
            yield "the end of the sources, for dead letters", self._ends
        if self.letter_store.keeps:
            yield "dead letters that are replayed", self._reviving.run
            self._resume()

    async def _ends(self) -> None:
        await self._home.sources_ended.wait()
        self._serving.ends()
        self._reviving.ends()

    def _resume(self) -> None:
        """Goes on with what was under way when this worker ended last. Where it has died several times since it ended
        in order, one letter at a time: one of them may be what it has died of."""
        loaded = self._home.group_commit.loaded
        for deliveries, names in ((self._serving, loaded.unserved), (self._reviving, loaded.replaying)):
            deliveries.careful = loaded.deaths >= DEATHS_MAX
            for name in names:
                deliveries.add(name)

    # -- messages that are dead

    def bury(self, spout_task: SpoutTask, tree: Pending, failure: Failure, deaths: int = 0) -> None:
        """This message is dead; `deaths` of workers are laid to it (E7)."""
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
        self.letter_store.bury(
            Burial(letter, tree, _numbers(tree), over), read=spout_task.component in self._home.dead_ways
        )

    def _over(self, spout_task: SpoutTask, tree: Pending, failure: Failure, letter: Letter) -> None:
        spout_task.buried(tree)
        with entered(spout_task.place):
            self._home.died(spout_task, tree, failure, letter.name if self.letter_store.keeps else "")

    def _dead_again(self, tree: Revival, failure: Failure) -> None:
        """A message that was replayed by hand has failed as often as it may."""
        letter = self.letter_store.current(tree.letter.name) or tree.letter
        attempts, now = tree.own + tree.others, self._home.clock.utc()
        letter = told(letter, failure, attempts=attempts, deaths=0, died_at=now)
        over = partial(self._over_again, tree, failure)
        self.letter_store.bury(Burial(letter, tree, tree.numbers, over), read=letter.component in self._home.dead_ways)

    def _over_again(self, tree: Revival, failure: Failure, letter: Letter) -> None:
        spout_task = tree.spout
        assert isinstance(spout_task, SpoutTask), "that is what _spout_of gives"
        spout_task.dead += 1
        spout_task.pending -= 1
        spout_task.wake()
        with entered(spout_task.place):
            self._home.died(spout_task, tree, failure, letter.name)

    def _spout_of(self, letter: Letter) -> SpoutTask | None:
        """The task that a letter is of, or another one of that spout where there are fewer by now."""
        spout_tasks = self._home.spout_tasks
        others = (one for (name, _), one in spout_tasks.items() if name == letter.component)
        return spout_tasks.get((letter.component, letter.task)) or next(others, None)

    # -- what the worker asks, and does

    async def answer(self, ask: DeadAsk) -> DeadAnswer:
        """Answers a question about the letters of this worker, once what it asks for is durable."""
        return await self._answering.answer(ask)

    @property
    def kept(self) -> int:
        """Letters that the store has, or is about to have."""
        return self.letter_store.letters if self.letter_store.keeps else 0

    @property
    def pending(self) -> int:
        """What the end of the run waits for, beside messages."""
        return self._serving.open + self._reviving.open - self._reviving.begun

    @property
    def later(self) -> int:
        """What of that, and of the messages, is in no ledger."""
        return self._serving.waiting + self._reviving.waiting + self.letter_store.waiting

    @property
    def emitted(self) -> int:
        """Grows with whatever happens here."""
        return self._serving.emitted + self._reviving.emitted

    def unfinished(self) -> set[int]:
        """Numbers of messages, of which nothing may be forgotten yet (E1, D17)."""
        trees = (*self._serving.later(), *self._reviving.later())
        return self.letter_store.unfinished().union(*map(_numbers, trees))

    def under_way_numbers(self) -> set[int]:
        """Numbers of messages that are dead and not buried, or that wait for another attempt of what their letters are
        begun for, in no ledger."""
        trees = (*self._serving.later(), *self._reviving.later(), *self.letter_store.trees())
        return set().union(*map(_numbers, trees))

    def hold(self) -> None:
        """No letter is served or replayed until `release`: a message is to be alone (E7)."""
        self._serving.hold()
        self._reviving.hold()

    def release(self) -> None:
        self._serving.release()
        self._reviving.release()

    def drain(self) -> None:
        """What waits for another attempt is tried now, and nothing that was asked for begins any more."""
        self._serving.drain()
        self._reviving.drain()

    def close(self) -> None:
        """Begins nothing any more."""
        self._serving.close()
        self._reviving.close()


def _numbers(tree: Pending) -> frozenset[int]:
    """The message numbers that it has had."""
    return frozenset((message_of(tree.root), *tree.renamed))
