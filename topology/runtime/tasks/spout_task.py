"""Drives one spout task: polls, begins trees, keeps what is pending, replays what failed, holds back when it must.

The ledger is the worker's; this file decides what a completed or failed tree means for its message. It must not know
bolts, nor why a queue is full.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from math import ceil
from operator import attrgetter
from random import Random
from typing import Any, Final

from acker.identity import MessageId, message_pair, outside_pair
from acker.marks import Lane
from acker.roots import ROOT_STEP, RootSource, message_of
from topology.codes.runtime import DUPLICATE_MESSAGE_ID, NON_INCREASING_ID, UNKNOWN_PARTITION
from topology.components import Message, Spout, Tuple
from topology.config import Config
from topology.errors import EmitError, KedgeError, RecordError, Reject
from topology.records import encode
from topology.runtime.commits.group_commit import GroupCommit
from topology.runtime.current_task import HERE, TaskPlace, entered
from topology.runtime.failures import DEAD_AT_ONCE, Failure, Reason
from topology.runtime.tasks.executor import SLICE_MAX, SLICE_S, drive
from topology.runtime.tasks.interfaces import DownstreamTask, FedQueue
from topology.runtime.tasks.marks import NAMES_LAG_MAX, TaskMarks
from topology.runtime.tasks.outbox import Outbox, Plain, Staged
from topology.runtime.tasks.pending import Pending, Replays
from topology.runtime.tasks.polling import Polling
from topology.runtime.tasks.retry_policy import RetryPolicy
from topology.runtime.telemetry.histogram import Histogram
from topology.user_frames import described


def begun_plainly(
    spout_task: Any, plain: Plain, messages: Sequence[Message[Any]], seed: int, root: int, now: float
) -> int:
    """Begins trees from `root` on, and lets their tuples leave. Returns how many: up to the first message that has
    something unusual, or that can't be dealt; from there on, all is told the general way."""
    trees, tuples, targets = [], [], []
    cls, source, one, queues = plain.cls, plain.source, plain.one, plain.queues
    for message in messages:
        record = message.record
        if type(record) is not cls:
            break
        try:
            origin, identity = message_pair(message.id, seed)
            if one is not None:
                targets.append(queues[one(record, identity)])
        except (TypeError, EmitError):
            break
        trees.append(Pending(root, identity, message, seed, spout_task, now))
        tuples.append(Tuple(record, origin, identity, root, (), source))
        root += ROOT_STEP
    spout_task.home.ledger.begin_all(trees)
    if one is None:
        plain.extend(tuples)
    else:
        for queue, tup in zip(targets, tuples, strict=True):
            queue.append(tup)
    spout_task.outbox.emitted += len(trees)
    return len(trees)


def sent_untracked(spout_task: Any, message: Message[Any], seed: int) -> None:
    """Lets a message leave that nobody follows: at most once."""
    staged: Staged = []
    try:
        origin, identity = spout_task.pair(message.id, seed)
        spout_task.outbox.stage(staged, message.record, origin, identity, 0, ())
    except BaseException as error:
        spout_task.failed += 1
        spout_task.home.reported(Failure(Reason.EMIT, spout_task.component, described(error), error))
        return
    spout_task.outbox.emitted += 1
    spout_task.outbox.send(staged)


class InFlight:
    """The messages of one spout task that are not done, as they are when one is first asked for."""

    def __init__(self, spout_task: Any) -> None:
        self._spouting = spout_task
        self._found: dict[tuple[int, MessageId], Pending] | None = None

    def of(self, seed: int, message_id: MessageId) -> Pending | None:
        """The one of this id in the partition's epoch that has this seed."""
        if self._found is None:
            trees = self._spouting.home.markings.unfinished()[self._spouting]
            ids = (int, str, bytes)  # what is none has no other like it, and may have no hash
            self._found = {(tree.seed, tree.message.id): tree for tree in trees if type(tree.message.id) in ids}
        return self._found.get((seed, message_id))


def handle_repeated(
    spout_task: Any, lane: Lane, message: Message[Any], seed: int, under_way: InFlight, passed: set[MessageId]
) -> bool:
    """A message that is under way is told of with the first one (F59), and refused where it is another one; one that an
    earlier run has done is passed over, as often as this poll has it, which `passed` knows of. False for one that is to
    be emitted once more. Raises KedgeError for what is none of these."""
    if message.id in passed or lane.before(message.id):
        passed.add(message.id)
        spout_task.passed_over += 1
        if spout_task.tells_ack:
            with entered(spout_task.place):
                spout_task.tell(spout_task.spout.ack, message.id)
        return True
    tree = under_way.of(seed, message.id)
    if tree is not None:
        if not _is_same(tree.message.record, message.record):
            two = f"{tree.message.record!r:.120} is not done, and now it names {message.record!r:.120}"
            text = f"spout {spout_task.component!r} gave the id {message.id!r:.80} to two messages: {two}"
            raise KedgeError(text, code=DUPLICATE_MESSAGE_ID)
        tree.also += 1
        spout_task.coalesced += 1
        return True
    if lane.again(message.id):
        return False
    after = f"id {message.id!r} after {lane.newest!r}"
    text = f"spout {spout_task.component!r} emitted {after}, and int ids grow within an epoch"
    raise KedgeError(text, code=NON_INCREASING_ID)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two records are one; those that equal nothing, as with a nan, by their bytes."""
    return one is other or one == other or (type(one) is type(other) and _bytes_of(one) == _bytes_of(other))


def _bytes_of(record: Any) -> bytes | None:
    try:
        return encode(record)
    except RecordError:  # its message dies of that
        return None


QUIET_S: Final = 5.0  # a source that has had nothing for so long when it is asked no more has caught up
UNDONE: Final = 1  # the value of a message whose tree never began, or has ended otherwise: any but 0


class SpoutTask:
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
        tasks: int = 1,
        known_as: str = "",
        topology_id: str,
        config: Config,
        roots: RootSource,
        key: bytes,
        random: Random,
        group_commit: GroupCommit,
        remembered: bool = False,
    ) -> None:
        self.component, self.task = component, task
        self.place = TaskPlace(getattr(home, "worker", 0), component, task)
        self.spout, self.source, self.outbox = spout, source, outbox
        self.home, self.ends_last = home, bool(getattr(spout, "ends_last", False))
        self.group_commit = group_commit
        self.marking = TaskMarks(
            component,
            task,
            tasks,
            topology_id=topology_id,
            keeps=group_commit.store is not None,
            max_lag=config.max_lag,
            names_lag=max(NAMES_LAG_MAX, 2 * config.max_pending),
            lined=remembered and config.guarantee == "at-least-once",
            known_as=known_as,
            shared_ids=bool(getattr(spout, "shared_ids", False)),
        )
        self.downstream: list[DownstreamTask] = []  # tasks that it feeds directly
        self.below: Sequence[FedQueue] = []  # all tasks that what it emits can reach
        self.emitted = self.acked = self.failed = self.replayed = self.dead = 0
        self.coalesced = 0  # messages that the source has given while they were under way (F59)
        self.passed_over = 0  # messages that were done by an earlier run
        self.pending = 0
        self.open = 0  # messages that were read and are not done: those pending, but for what is replayed by hand
        self.latency = Histogram()
        self.ended = self.draining = self.closed = False
        self.dry = self.exhausted = False  # its source has ended by itself; dry: or was quiet when the run was drained
        self.paused_by: FedQueue | None = None
        self.held_by = ""  # why it reads nothing, where that is no queue
        self.holds: list[Callable[[], str]] = [self._held_by_the_store, self._held_by_its_marks]
        self._paused_s = self._asked_at = 0.0
        self._paused_at: float | None = None
        self._tracked = config.guarantee == "at-least-once"
        self._max_pending, self._roots, self._key = config.max_pending, roots, key
        self._polling: asyncio.Task[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self.tells_ack = type(spout).ack is not Spout.ack
        self._epochs: Any = None  # the mapping that `partitions()` returned last
        self.replays = Replays(random, self._again)
        self._trying = RetryPolicy(self, config)

    # -- new messages

    async def run(self) -> None:
        """Polls and emits until the source has ended, or the run drains and what it had given is emitted."""
        HERE.set(self.place)
        self.marking.begins = True
        await self._read()
        self.ended = True
        self._trying.ends()
        while self.draining and await self.source.late():
            await self._read()

    async def _read(self) -> None:
        since, yielded = 0, self._loop.time()
        while not self.draining or self.source.ahead:
            room = min(SLICE_MAX, self._max_pending - self.pending) if self._tracked else SLICE_MAX
            full = next((one for one in self.below if one.full), None)
            if full is not None:
                self.paused_by = full
                await self._paused(full.room())
                self.paused_by = None
            elif room <= 0:
                await self._paused(self._sleep())
            elif self._held():
                await self._paused(self._sleep())
                self.held_by = ""
            else:
                messages = await self._polled(min(room, self._room()))
                if not messages:
                    if self.draining:
                        continue
                    self.exhausted = self.dry = True
                    break
                self._emit(messages)
                drive(self.downstream)
                since += len(messages)
                if since >= SLICE_MAX or self._loop.time() - yielded >= SLICE_S:
                    await asyncio.sleep(0)  # a source that never waits must let the others in, one that does need not
                    since, yielded = 0, self._loop.time()

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
        """One poll; empty where the source has ended, or the run has begun to drain meanwhile."""
        self._polling, self._asked_at = asyncio.current_task(), self._loop.time()
        try:
            return await self.source.poll(room)
        except asyncio.CancelledError:
            if not self.draining or self.closed:
                raise
            return ()
        finally:
            self._polling = None

    def drain(self) -> None:
        """Asks the source for no more; what a generator has yielded is emitted yet. What waits for a replay is replayed
        now."""
        self.draining = True
        self.source.stop()
        if self._polling is not None:
            self.dry |= self._loop.time() - self._asked_at >= QUIET_S
            self._polling.cancel()
        self.wake()
        self._trying.ends()
        self.replays.all_now()

    def _held(self) -> bool:
        """Whether it has to wait, for what `held_by` says then."""
        for why in self.holds:
            if held_by := why():
                self.held_by = held_by
                return True
        return False

    def _held_by_the_store(self) -> str:
        if not self.marking.begun:
            self.group_commit.want()
            return self.group_commit.why_full or "it is not kept yet that it has begun"
        return self.group_commit.why_full

    def _held_by_its_marks(self) -> str:
        if self.marking.wants_commit:
            self.group_commit.want()
        return "" if self._room() > 0 else self.marking.why_held

    def _room(self) -> int:
        return self.marking.room(lambda: self.home.markings.unfinished()[self])

    def look_again(self) -> None:
        """What has held it may be over."""
        if self.held_by:
            self.wake()

    def _emit(self, messages: Sequence[Message[Any]]) -> None:
        epochs = self.source.epochs
        if epochs is not self._epochs:
            self._epochs = epochs
            self.marking.renewed(epochs)
        if len({message.partition for message in messages}) == 1:
            self._emit_of(messages[0].partition, messages)
        else:
            for partition, some in groupby(messages, attrgetter("partition")):
                self._emit_of(partition, [*some])

    def _emit_of(self, partition: str, messages: Sequence[Message[Any]]) -> None:
        """Emits messages of one partition: those that are new (E3)."""
        try:
            seed, lane = self.marking.lanes[partition]
        except KeyError as error:
            text = f"spout {self.component!r} emitted a message of partition {error}, which partitions() does not name"
            raise KedgeError(text, code=UNKNOWN_PARTITION) from None
        ids = [message.id for message in messages]
        self.marking.gives(ids, self._loop.time())
        at, under_way, emitted = 0, None, self.emitted
        passed: set[MessageId] = set()
        while at < len(ids):
            count = lane.new(ids, at)
            if count == len(ids):
                self._emit_new(messages, seed)
                lane.add(ids)
            elif count:
                self._emit_new(messages[at : at + count], seed)
                lane.add(ids[at : at + count])
                under_way = None  # there are more now
            else:
                under_way = under_way or InFlight(self)
                if not handle_repeated(self, lane, messages[at], seed, under_way, passed):
                    continue
            at += count or 1
        self.marking.adds(seed, ids, self.emitted - emitted)

    def _emit_new(self, messages: Sequence[Message[Any]], seed: int) -> None:
        self.emitted += len(messages)
        if not self._tracked:
            for message in messages:
                sent_untracked(self, message, seed)
            return
        now = self._loop.time()
        root = self._roots.take(len(messages))
        self.pending += len(messages)
        self.open += len(messages)
        begun = 0
        if self.home.trials.on:
            trees = [Pending(root + n * ROOT_STEP, UNDONE, one, seed, self, now) for n, one in enumerate(messages)]
            self.home.trials.take(self, trees)
            begun = len(trees)
        elif self.outbox.plain is not None and not self.spout.outside_ids:
            begun = begun_plainly(self, self.outbox.plain, messages, seed, root, now)
        for number in range(begun, len(messages)):
            self._begin(Pending(root + number * ROOT_STEP, 0, messages[number], seed, self, now))

    def pair(self, message_id: MessageId, seed: int) -> tuple[int, int]:
        if self.spout.outside_ids:
            return outside_pair(message_id, seed, self._key)
        return message_pair(message_id, seed)

    def _begin(self, tree: Pending) -> None:
        """Chooses all targets, begins the tree, then lets its first tuples leave (A6)."""
        record = tree.message.record
        staged: Staged = []
        try:
            origin, identity = self.pair(tree.message.id, tree.seed)
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
        self.open -= len(trees)
        begun, same = trees[0].begun, 0
        for tree in trees:  # those of one poll began together, and count as one entry
            if tree.begun != begun:
                self.latency.add(now - begun, same)
                begun, same = tree.begun, 0
            same += 1
        self.latency.add(now - begun, same)
        if self.tells_ack:
            with entered(self.place):
                for tree in trees:
                    for _ in range(1 + tree.also):
                        self.tell(self.spout.ack, tree.message.id)
        if self._waiter is not None:
            self.wake()

    def failed_tree(self, tree: Pending, failure: Failure) -> None:
        """The tree has failed: the message is replayed after a while, or is dead."""
        self.failed += 1
        tree.value = tree.value or UNDONE
        self._trying.failed(tree, failure)
        if tree.deaths:
            self.home.trials.ended([tree])
        if failure.reason in DEAD_AT_ONCE or isinstance(failure.error, Reject) or self._trying.spent(tree, failure):
            self.home.bury(self, tree, failure, ceil(tree.deaths))
        else:
            self.replays.add(tree)

    def buried(self, tree: Pending) -> None:
        """The message is dead: nobody will replay it, and its letter is kept."""
        self.dead += 1
        self.pending -= 1
        self.open -= 1
        tree.value = 0
        with entered(self.place):
            for _ in range(1 + tree.also):
                self.tell(self.spout.fail, tree.message.id)
        self.wake()

    def pair_of(self, tree: Pending) -> tuple[int, int]:
        """The origin and identity of a message; two zeros where its id is none."""
        try:
            return self.pair(tree.message.id, tree.seed)
        except TypeError:
            return 0, 0

    def epoch_of(self, tree: Pending) -> str:
        """The epoch of its partition in which a message was emitted."""
        return self.marking.epoch_of(tree)

    def _again(self, trees: Sequence[Pending]) -> None:
        """Emits these messages once more."""
        for tree in trees:
            self.replayed += 1
            root = self._roots.next_attempt(tree.root)
            if message_of(root) != message_of(tree.root):
                tree.renamed = (*tree.renamed, message_of(tree.root))
            tree.root = root
            self._begin(tree)
        self.wake_downstream()

    @property
    def unread(self) -> int:
        """Messages that its source has given, and that a drain has to emit yet."""
        return self.source.ahead if self.draining else 0

    @property
    def waiting(self) -> int:
        """Messages that wait for their replay: pending, and in no ledger."""
        return len(self.replays)

    def later(self) -> list[Pending]:
        """Those messages, in no promised order."""
        return self.replays.trees()

    def tell(self, callback: Callable[[MessageId], None], message_id: MessageId) -> None:
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
        """Reads and replays nothing any more."""
        self.draining = self.closed = True
        self.replays.close()
