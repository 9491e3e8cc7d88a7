"""Drives one spout task: polls, begins trees, keeps what is pending, replays what failed, holds back when it must.

The ledger is the worker's; this file decides what a completed or failed tree means for its message. It must not know
bolts, nor why a queue is full.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final

from acker.identity import MessageId, message_pair, outside_pair, partition_seed
from acker.ledger import Tree
from acker.roots import ROOT_STEP, RootSource, message_of
from topology.codes.running import K523
from topology.components import Message, Spout, Tuple
from topology.config import Config
from topology.errors import EmitError, KedgeError, Reject
from topology.runtime.executor import SLICE_MAX, SLICE_S, Executor, drive
from topology.runtime.failures import INFRASTRUCTURE_REPLAYS_MAX, OWN, Failure, Reason, described
from topology.runtime.here import HERE, Place, entered
from topology.runtime.histogram import Histogram
from topology.runtime.neighbours import Reader
from topology.runtime.outbox import Outbox, Plain, Staged
from topology.runtime.peers import RemoteQueue
from topology.runtime.sourcing import Polling

BACKOFF_FIRST_S: Final = 0.05
BACKOFF_MAX_S: Final = 30.0


Marked = list[tuple[Message[Any], int]]  # messages, each with the seed of its partition's epoch


class Pending(Tree):
    """A message under way: its tree, and what a replay needs. Alive from its emission until it is acked or dead."""

    message: Message[Any]
    seed: int  # of its partition's epoch when it was emitted
    spouting: Any  # the Spouting that emitted it
    begun: float  # loop time of the first emission
    own: int = 0  # failures that count against max_replays
    others: int = 0  # failures of what is around it (E6)
    renamed: tuple[int, ...] = ()  # messages that it was before, while its attempts were spent: not done either (D4)


class Spouting:
    """One spout task. Counters only grow; `pending` is the number of messages under way, back-off included."""

    def __init__(
        self,
        component: str,
        task: int,
        spout: Any,
        source: Polling,
        outbox: Outbox,
        home: Any,
        *,
        topology_id: str,
        config: Config,
        roots: RootSource,
        key: bytes,
        random: Random,
    ) -> None:
        self.component = component
        self.task = task
        self.place = Place(getattr(home, "worker", 0), component, task)
        self.spout = spout
        self.source = source
        self.outbox = outbox
        self.home = home
        self.downstream: list[Reader] = []  # tasks that it feeds directly
        self.below: list[Executor | RemoteQueue] = []  # all tasks that what it emits can reach
        self.emitted = self.acked = self.failed = self.replayed = self.dead = 0
        self.pending = 0
        self.latency = Histogram()
        self.ended = False
        self.draining = False
        self.paused_by: Executor | RemoteQueue | None = None
        self._paused_s = 0.0
        self._paused_at: float | None = None
        self._topology_id = topology_id
        self._tracked = config.guarantee == "at-least-once"
        self._max_pending = config.max_pending
        self._max_replays = config.max_replays
        self._roots = roots
        self._key = key
        self._random = random
        self._polling: asyncio.Task[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._tells_ack = type(spout).ack is not Spout.ack
        self._seeds: dict[str, int] = {}
        self._epochs: Any = None  # the mapping that `partitions()` returned last
        self._later: list[tuple[float, int, Pending]] = []  # a heap of replays: (due, root, message)
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # -- new messages

    async def run(self) -> None:
        """Polls and emits until the source has ended or the run drains."""
        HERE.set(self.place)
        since, yielded = 0, self._loop.time()
        while not self.draining:
            room = min(SLICE_MAX, self._max_pending - self.pending) if self._tracked else SLICE_MAX
            full = next((one for one in self.below if one.full), None)
            if full is not None:
                self.paused_by = full
                await self._paused(full.room())
                self.paused_by = None
            elif room <= 0:
                await self._paused(self._sleep())
            else:
                messages = await self._polled(room)
                if not messages:
                    break
                self._emit(messages)
                drive(self.downstream)
                since += len(messages)
                if since >= SLICE_MAX or self._loop.time() - yielded >= SLICE_S:
                    await asyncio.sleep(0)  # a source that never waits must let the others in, one that does need not
                    since, yielded = 0, self._loop.time()
        self.ended = True

    async def _paused(self, pause: Awaitable[None]) -> None:
        """Waits, and adds up for how long."""
        self._paused_at = self._loop.time()
        await pause
        self._paused_s += self._loop.time() - self._paused_at
        self._paused_at = None

    @property
    def paused_s(self) -> float:
        """Seconds that it has waited for acks, at max_pending, or for queues to drain; with the pause that goes on."""
        since = self._paused_at
        return self._paused_s + (self._loop.time() - since if since is not None else 0.0)

    async def _polled(self, room: int) -> Sequence[Message[Any]]:
        """One poll; empty where the source has ended, or the run drains meanwhile."""
        self._polling = asyncio.current_task()
        try:
            return await self.source.poll(room)
        except asyncio.CancelledError:
            if not self.draining:
                raise
            return ()
        finally:
            self._polling = None

    def drain(self) -> None:
        """Polls no more. What waits for a replay is replayed now."""
        self.draining = True
        if self._polling is not None:
            self._polling.cancel()
        self.wake()
        self._replay_due(float("inf"))

    def _emit(self, messages: Sequence[Message[Any]]) -> None:
        epochs = self.source.epochs
        if epochs is not self._epochs:
            self._epochs = epochs
            self._seeds = {
                partition: partition_seed(self._topology_id, self.component, partition, epoch)
                for partition, epoch in epochs.items()
            }
        seeds = self._seeds
        try:
            marked = [(message, seeds[message.partition]) for message in messages]
        except KeyError as error:
            text = f"spout {self.component!r} emitted a message of partition {error}, which partitions() does not name"
            raise KedgeError(text, code=K523) from None
        self.emitted += len(messages)
        if not self._tracked:
            for message, seed in marked:
                self._send_untracked(message, seed)
            return
        now = self._loop.time()
        root = self._roots.take(len(messages))
        self.pending += len(messages)
        if self.outbox.plain is not None and not self.spout.outside_ids:
            marked = self._begin_plain(self.outbox.plain, marked, root, now)
            root += ROOT_STEP * (len(messages) - len(marked))
        for message, seed in marked:
            self._begin(Pending(root, 0, message, seed, self, now))
            root += ROOT_STEP

    def _begin_plain(self, plain: Plain, marked: Marked, root: int, now: float) -> Marked:
        """The hot path: begins trees and lets their tuples leave, for the commonest case. Returns what is not of it,
        from the first message on that has something unusual, or that can't be dealt: that is told the general way."""
        trees, tuples, targets = [], [], []
        cls, source, one, queues = plain.cls, plain.source, plain.one, plain.queues
        for message, seed in marked:
            record = message.record
            if type(record) is not cls:
                break
            try:
                origin, identity = message_pair(message.id, seed)
                if one is not None:
                    targets.append(queues[one(record, identity)])
            except (TypeError, EmitError):
                break
            trees.append(Pending(root, identity, message, seed, self, now))
            tuples.append(Tuple(record, origin, identity, root, (), source))
            root += ROOT_STEP
        self.home.ledger.begin_all(trees)
        if one is None:
            plain.extend(tuples)
        else:
            for queue, tup in zip(targets, tuples, strict=True):
                queue.append(tup)
        self.outbox.emitted += len(trees)
        return marked[len(trees) :]

    def _pair(self, message_id: MessageId, seed: int) -> tuple[int, int]:
        if self.spout.outside_ids:
            return outside_pair(message_id, seed, self._key)
        return message_pair(message_id, seed)

    def _begin(self, tree: Pending) -> None:
        """Chooses all targets, begins the tree, then lets its first tuples leave (A6)."""
        record = tree.message.record
        staged: Staged = []
        try:
            origin, identity = self._pair(tree.message.id, tree.seed)
            tree.value = self.outbox.stage(staged, record, origin, identity, tree.root, ())
        except BaseException as error:
            failure = Failure(Reason.EMIT, self.component, described(error), error)
            self.home.reported(failure)
            self.failed_tree(tree, failure)
            return
        self.outbox.emitted += 1
        if not tree.value:  # a custom grouping chose nobody
            self.completed([tree])
            return
        self.home.ledger.begin(tree)
        self.outbox.send(staged)

    def _send_untracked(self, message: Message[Any], seed: int) -> None:
        staged: Staged = []
        try:
            origin, identity = self._pair(message.id, seed)
            self.outbox.stage(staged, message.record, origin, identity, 0, ())
        except BaseException as error:
            self.failed += 1
            self.home.reported(Failure(Reason.EMIT, self.component, described(error), error))
            return
        self.outbox.emitted += 1
        self.outbox.send(staged)

    def wake_downstream(self) -> None:
        for reader in self.downstream:
            if reader.queue:
                reader.wake()

    # -- what became of them

    def completed(self, trees: list[Pending]) -> None:
        """These whole trees have been processed."""
        now = self._loop.time()
        self.acked += len(trees)
        self.pending -= len(trees)
        begun, same = trees[0].begun, 0
        for tree in trees:  # those of one poll began together, and count as one entry
            if tree.begun != begun:
                self.latency.add(now - begun, same)
                begun, same = tree.begun, 0
            same += 1
        self.latency.add(now - begun, same)
        if self._tells_ack:
            with entered(self.place):
                for tree in trees:
                    self._tell(self.spout.ack, tree.message.id)
        if self._waiter is not None:
            self.wake()

    def failed_tree(self, tree: Pending, failure: Failure) -> None:
        """The tree has failed: the message is replayed after a while, or is dead."""
        self.failed += 1
        if failure.reason in OWN:
            tree.own += 1
        else:
            tree.others += 1
        spent = tree.own > self._max_replays or tree.others > INFRASTRUCTURE_REPLAYS_MAX
        if failure.reason is Reason.REJECTED or isinstance(failure.error, Reject) or spent:
            self.dead += 1
            self.pending -= 1
            self.home.died(self, tree, failure)
            with entered(self.place):
                self._tell(self.spout.fail, tree.message.id)
            self.wake()
            return
        self._replay_later(tree)

    def _replay_later(self, tree: Pending) -> None:
        """The first replay for reasons around it is at once (E8); the others back off, doubling, with jitter."""
        times = tree.own + tree.others - 1
        delay = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(times, 20)) * (0.5 + self._random.random() / 2)
        if not tree.own and tree.others == 1:
            delay = 0.0
        heapq.heappush(self._later, (self._loop.time() + delay, tree.root, tree))
        if self._later[0][2] is tree:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self._later and not self._closed
        self._timer = self._loop.call_at(self._later[0][0], self._replay_due) if due else None

    def _replay_due(self, until: float | None = None) -> None:
        """Emits again what is due, oldest first."""
        now = self._loop.time() if until is None else until
        due: list[Pending] = []
        while self._later and self._later[0][0] <= now:
            due.append(heapq.heappop(self._later)[2])
        for tree in sorted(due, key=lambda one: one.root):
            self.replayed += 1
            root = self._roots.next_attempt(tree.root)
            if message_of(root) != message_of(tree.root):
                tree.renamed = (*tree.renamed, message_of(tree.root))
            tree.root = root
            self._begin(tree)
        self.wake_downstream()
        self._set_timer()

    @property
    def waiting(self) -> int:
        """Messages that wait for their replay: pending, and in no ledger."""
        return len(self._later)

    def later(self) -> list[Pending]:
        """Those messages, in no promised order."""
        return [tree for _, _, tree in self._later]

    def _tell(self, callback: Callable[[MessageId], None], message_id: MessageId) -> None:
        """A source's own ack or fail; what it raises is reported and changes nothing."""
        try:
            callback(message_id)
        except BaseException as error:
            told = f"{callback.__name__}: {described(error)}"
            self.home.reported(Failure(Reason.RAISED, self.component, told, error))

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _sleep(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def close(self) -> None:
        """Replays nothing any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
