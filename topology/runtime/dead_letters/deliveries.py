"""Deliveries of dead letters: trees that begin for letters and not for messages of a source, replayed as those are.

This is the common part of the two kinds: letters for subscribers (`subscribers`) and letters replayed by hand
(`replay`). Each tree is in the ledger of its own worker, and ends there (A16). A bounded number of letters is in flight
at once; the others stay in the store. Must not know stores, nor what becomes of a letter.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

from acker.ledger import Ledger
from acker.roots import RootSource, message_of
from topology.config import Config
from topology.errors import Reject
from topology.runtime.dead_letters.letter import altered
from topology.runtime.dead_letters.letter_store import LetterStore
from topology.runtime.failures import DEAD_AT_ONCE, OWN, Failure, Reason
from topology.runtime.hot.message_tree import MessageTree
from topology.runtime.tasks.interfaces import DownstreamTask, FedQueue
from topology.runtime.tasks.outbox import Outbox, Staged
from topology.runtime.tasks.replays import Replays
from topology.runtime.tasks.retry_policy import GivingUp
from topology.runtime.telemetry.failure_log import Reporter
from topology.storage.values import Letter
from topology.user_frames import described

UNDER_WAY_MAX: Final = 64  # letters of one kind that are in flight at once in one worker
# deaths of other workers while one letter was in flight; then it is given up, because it may be what kills them
DEATHS_MAX: Final = 5
ALONE_MAX: Final = 2  # deaths of its own worker while it was in flight alone; then the letter is the cause


@dataclass(frozen=True)
class LetterRoute:
    """The way of letters of one spout: their outbox, their readers, and all tasks that their outputs can reach."""

    outbox: Outbox
    readers: Sequence[DownstreamTask]
    below: Sequence[FedQueue]


class Delivery(MessageTree, kw_only=True):
    """A letter in flight. `message.record` is what is emitted for it, with `origin` and `identity`. `lost` counts how
    often a worker or a link was lost meanwhile."""

    letter: Letter
    origin: int
    identity: int
    way: LetterRoute
    first: int  # the first root of its tree
    lost: int = 0

    @property
    def numbers(self) -> frozenset[int]:
        """Return the message numbers that it has had."""
        return frozenset((message_of(self.root), *self.renamed))


class DeliveryHost(Protocol):
    """The worker, as far as deliveries see it."""

    ledger: Ledger[Any]
    roots: RootSource
    reporter: Reporter

    @property
    def config(self) -> Config: ...
    def reported(self, failure: Failure) -> None: ...
    def recovered(self, trees: Sequence[Any]) -> None: ...


class Deliveries:
    """Letters of one kind. Call `add` with names, and run `run` as a task. It takes the place of a spout for its trees.

    `open` is the number of unfinished letters; `waiting` is the number of those that are in no ledger. `trees` has the
    first roots of trees that have begun, of both kinds. While `careful`, one letter of both kinds is in flight at a
    time (`alone`), and is durably marked before it begins: its worker has died, and a letter may be the cause (E7).
    """

    component = "dead letters"

    def __init__(
        self, home: DeliveryHost, letter_store: LetterStore, random: Random, trees: set[int], alone: asyncio.Lock
    ) -> None:
        self.home = home
        self.careful = False
        self._alone = alone
        self._is_alone = False
        self._trees = trees
        self.letter_store = letter_store
        self.draining = False
        self.emitted = 0  # trees that have begun; only grows
        self._names: deque[str] = deque()
        self._open: set[str] = set()
        self._once_more: set[str] = set()
        self._under_way: dict[str, Delivery] = {}
        self._for_room: list[Delivery] = []  # the delivery that waits until its tuples have room
        self._replays = Replays(random, self._again)
        self._giving_up = GivingUp(home.config)
        self._ended_at: float | None = None  # loop time
        self._held = False
        self._work = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    # -- differs by the kind of letters

    @abstractmethod
    def delivery(self, letter: Letter) -> Delivery | None:
        """Return the tree to begin for this letter, or None if there is nothing left to do for it."""

    @abstractmethod
    def deadly(self, letter: Letter, why: str) -> None:
        """Handle a letter that kills its worker. It does not begin."""

    @abstractmethod
    def done(self, tree: Delivery) -> None:
        """Handle a tree that was processed completely."""

    @abstractmethod
    def spent(self, tree: Delivery, failure: Failure) -> None:
        """Handle a tree that has failed as often as it may."""

    def tried(self, tree: Delivery, failure: Failure) -> None:
        """Handle one failed attempt, the last or another."""

    def again(self, tree: Delivery) -> None:
        """Handle the beginning of one more attempt."""

    # -- the way of a letter

    @property
    def open(self) -> int:
        return len(self._open)

    @property
    def begun(self) -> int:
        """Return the number of letters that have begun and are not finished."""
        return len(self._under_way)

    @property
    def waiting(self) -> int:
        return len(self._open) - len(self._under_way) + len(self._replays)

    def later(self) -> list[Delivery]:
        """Return trees that wait for another attempt or for room. Their message numbers are not done (D5)."""
        return [*self._replays.trees(), *self._for_room]

    def add(self, name: str) -> None:
        """Accept the letter with this name. If it is in flight, it is delivered once more after that."""
        if name in self._under_way:
            self._once_more.add(name)
        elif name not in self._open:
            self._open.add(name)
            self._names.append(name)
            self._work.set()

    async def run(self) -> None:
        """Begin one delivery after the other, until cancelled. Raises StoreBroken."""
        while True:
            await self._work.wait()
            self._work.clear()
            self.careful = self.careful and bool(self._open)
            while self._names and not self._held and (room := self._room()) > 0:
                count = min(len(self._names), room)
                names = [self._names.popleft() for _ in range(count)]
                letters = await self.letter_store.load(names)
                # all are taken first: each may change or be dropped while the one before it waits
                for letter in letters:
                    self.letter_store.take(letter)
                self._open.difference_update({*names}.difference(letter.name for letter in letters))
                for letter in letters:
                    await self._begin(letter.name)

    def _room(self) -> int:
        return (1 if self.careful else UNDER_WAY_MAX) - len(self._under_way)

    async def _charged(self, name: str) -> Letter | None:
        """Return the letter, or None if it is gone or has killed its worker. While careful, first store durably that it
        is in flight alone."""
        letter = self.letter_store.current(name)
        if not self.careful or letter is None:
            return letter
        if letter.begun >= ALONE_MAX:
            self.deadly(letter, f"its worker has died {letter.begun} times while it was under way alone")
            return None
        await self._alone.acquire()
        self._is_alone = True
        if (letter := self.letter_store.current(name)) is not None:
            self.letter_store.change(altered(letter, begun=letter.begun + 1))
            await self.letter_store.durable()
        return self.letter_store.current(name)

    async def _begin(self, name: str) -> None:
        """Begin the delivery of a letter that was taken, once there is room for its tuples."""
        letter = await self._charged(name)
        tree = self.delivery(letter) if letter is not None else None
        if tree is None:
            self._open.discard(name)
            self.letter_store.release(name)
            self._over_alone()
            return
        self._under_way[name] = tree
        self._trees.add(tree.root)
        self._for_room = [tree]
        while (full := next((queue for queue in tree.way.below if queue.full), None)) is not None:
            await full.room()
        self._for_room = []
        if self._held:
            self._replays.put([tree])
        else:
            self._emit(tree)
            self._hand_on(tree)

    def _emit(self, tree: Delivery) -> None:
        """Choose all targets, begin the tree, then let its first tuples leave (A6)."""
        staged: Staged = []
        outbox = tree.way.outbox
        self.emitted += 1
        try:
            tree.value = outbox.stage(staged, tree.message.record, tree.origin, tree.identity, tree.root, ())
        except BaseException as error:
            failure = Failure(Reason.EMIT, outbox.component, described(error), error)
            self.home.reported(failure)
            self.failed_tree(tree, failure)
            return
        outbox.count(1)
        if not tree.value:  # a custom grouping chose no task
            self.completed([tree])
            return
        self.home.ledger.begin(tree)
        outbox.send(staged)

    def _hand_on(self, tree: Delivery) -> None:
        for reader in tree.way.readers:
            if reader.queue:
                reader.wake()

    def _again(self, trees: Sequence[Delivery]) -> None:
        for tree in trees:
            assert isinstance(tree, Delivery), "only letters wait here"
            self.again(tree)
            root = self.home.roots.next_attempt(tree.root)
            if message_of(root) != message_of(tree.root):
                tree.renamed = (*tree.renamed, message_of(tree.root))
            tree.root = root
            self._emit(tree)
            self._hand_on(tree)

    # -- results of trees, as a spout gets them

    def completed(self, trees: Sequence[Delivery]) -> None:
        for tree in trees:
            self._finished(tree, self.done)

    def failed_tree(self, tree: Delivery, failure: Failure) -> None:
        self.tried(tree, failure)
        if failure.reason in OWN:
            tree.own += 1
            tree.failing = tree.failing or self._loop.time()
        else:
            tree.others += 1
            tree.lost += failure.reason is Reason.PEER_LOST
        now = self._loop.time()
        failing_s = now - tree.failing if tree.own else 0.0
        ended_s = now - self._ended_at if self._ended_at is not None else None
        spent = self._giving_up.spent(
            failure, tree.own, tree.others, failing_s, ended_s=ended_s, draining=self.draining
        )
        at_once = failure.reason in DEAD_AT_ONCE or isinstance(failure.error, Reject)
        if at_once or spent or tree.lost > DEATHS_MAX:
            self.home.recovered([tree])
            self._finished(tree, lambda finished: self.spent(finished, failure))
        else:
            self._replays.add(tree)

    def _finished(self, tree: Delivery, what: Callable[[Delivery], None]) -> None:
        name = tree.letter.name
        del self._under_way[name]
        self._trees.discard(tree.first)
        self._over_alone()
        self._open.discard(name)
        what(tree)
        self.letter_store.release(name)
        if name in self._once_more:
            self._once_more.discard(name)
            self.add(name)
        self._work.set()

    def _over_alone(self) -> None:
        if self._is_alone:
            self._is_alone = False
            self._alone.release()
        self._work.set()

    # -- while a message must be alone (E7), and the end

    def hold(self) -> None:
        """Emit nothing until `release`."""
        self._held = True
        self._replays.hold()

    def release(self) -> None:
        self._held = False
        self._replays.release()
        self._work.set()

    def ends(self) -> None:
        """Note that all sources have ended: what waits for another attempt need not wait for so long."""
        if self._ended_at is None:
            self._ended_at = self._loop.time()
            if self._giving_up.timed:
                self._replays.hurry()

    def drain(self) -> None:
        """Try at once what waits for another attempt."""
        self.draining = True
        self._replays.all_now()

    def close(self) -> None:
        """Try nothing any more."""
        self._replays.close()
