"""Drives one spout task: polls, begins trees, keeps what is pending, replays what failed, and pauses when it must.

The ledger is the worker's. This file decides what a completed or failed tree means for its message. It must not know
bolts, nor why a queue is full.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from operator import attrgetter
from random import Random
from typing import Any, Final

from acker.identity import MessageId, message_pair, outside_pair
from acker.marks import Lane
from acker.roots import ROOT_STEP, RootSource, message_of
from topology.codes.runtime import DUPLICATE_MESSAGE_ID, NON_INCREASING_ID, UNKNOWN_PARTITION
from topology.components import Message, Spout
from topology.config import Config
from topology.dead_letters import Malformed
from topology.errors import KedgeError, RecordError, Reject
from topology.records import encode
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.current_task import HERE, TaskPlace
from topology.runtime.failures import DEAD_AT_ONCE, Failure, Reason
from topology.runtime.hot.hot_path import begin
from topology.runtime.hot.pending import Pending
from topology.runtime.tasks.done_messages import DoneMessages
from topology.runtime.tasks.executor import SLICE_MAX, SLICE_S, drive
from topology.runtime.tasks.interfaces import DownstreamTask, FedQueue
from topology.runtime.tasks.marks import NAMES_LAG_MAX, TaskMarks
from topology.runtime.tasks.outbox import Outbox, Staged
from topology.runtime.tasks.pauses import Pauses
from topology.runtime.tasks.polling import Polling
from topology.runtime.tasks.replays import Replays
from topology.runtime.tasks.retry_policy import RetryPolicy
from topology.runtime.tasks.spout_callbacks import SpoutCallbacks, SpoutCounters
from topology.runtime.tasks.spout_reader import SpoutReader
from topology.user_frames import described

UNDONE: Final = 1  # the value of a message whose tree never began, or has failed: any value but 0


@dataclass(frozen=True)
class SpoutContext:
    """The things that all spout tasks of one worker share. `key` is what ids of outside messages are hashed with.
    `goes_back`: the worker may go back to the last decided checkpoint while it lives."""

    topology_id: str
    config: Config
    roots: RootSource
    key: bytes
    checkpoints: WorkerCheckpoints
    goes_back: bool


class InFlight:
    """The messages of one spout task that are not done, as they are when `of` is called first."""

    def __init__(self, unfinished: Callable[[], Sequence[Pending]]) -> None:
        self._unfinished = unfinished
        self._found: dict[tuple[int, MessageId], Pending] | None = None

    def of(self, seed: int, message_id: MessageId) -> Pending | None:
        """Return the message with this id in the partition's epoch that has this seed, or None."""
        if self._found is None:
            ids = (int, str, bytes)  # an invalid id equals no other, and may have no hash
            self._found = {
                (tree.seed, tree.message.id): tree for tree in self._unfinished() if type(tree.message.id) in ids
            }
        return self._found.get((seed, message_id))


def _is_same(record: Any, other: Any) -> bool:
    """Return whether two records are equal. Records that equal nothing, as with a nan, are compared by their bytes."""
    return record is other or record == other or (type(record) is type(other) and _bytes_of(record) == _bytes_of(other))


def _bytes_of(record: Any) -> bytes | None:
    try:
        return encode(record)
    except RecordError:  # the record's message will die of that
        return None


def _unread(component: str, record: Malformed) -> Failure:
    """Return the failure of a malformed message whose stream is read by no bolt."""
    return Failure(Reason.REJECTED, component, f"it is malformed: {record.error}")


class SpoutTask:
    """One spout task. `pending` is the number of messages in flight, with those that wait for a replay.

    `open` counts the messages that were read and are not done: those pending, but for what is replayed by hand.
    """

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
        context: SpoutContext,
        random: Random,
    ) -> None:
        config, checkpoints = context.config, context.checkpoints
        self.component, self.task = component, task
        self.place = TaskPlace(getattr(home, "worker", 0), component, task)
        self.spout, self.outbox, self.home = spout, outbox, home
        # an earlier life has read so many messages since its last decided mark, at most
        self.reader = SpoutReader(source, reread_max=config.max_lag + config.max_pending + SLICE_MAX)
        self.checkpoints = checkpoints
        self.marking = TaskMarks(
            component,
            task,
            tasks,
            topology_id=context.topology_id,
            keeps=checkpoints.store is not None,
            max_lag=config.max_lag,
            names_lag=max(NAMES_LAG_MAX, 2 * config.max_pending),
            known_as=known_as,
            shared_ids=bool(getattr(spout, "shared_ids", False)),
            settles=type(spout).settled is not Spout.settled,
        )
        self.downstream: list[DownstreamTask] = []  # tasks that it feeds directly
        self.below: Sequence[FedQueue] = []  # all tasks that what it emits can reach
        self.counters = SpoutCounters()
        self.pending = self.open = 0
        self.ended = False  # all that the source gives is emitted
        self.pauses = Pauses(self._held_by_the_store, self._held_by_its_marks)
        # after a going back more messages may wait than may be in the ledger
        self.replays = Replays(random, self._again, lambda: self._max_pending - (self.pending - len(self.replays)))
        self.callbacks = SpoutCallbacks(spout, self.place, lambda failure: self.home.reported(failure))
        self._tracked = config.guarantee == "at-least-once"
        self._done = DoneMessages(kept=self._tracked and (context.goes_back or self.callbacks.wants_settled))
        self._max_pending, self._context = config.max_pending, context
        self._loop = asyncio.get_running_loop()
        self._epochs: Any = None  # the mapping that `partitions()` returned last
        self._retry_policy = RetryPolicy(self, config)

    @property
    def ends_last(self) -> bool:
        """True if the run does not wait for this source's end."""
        return bool(getattr(self.spout, "ends_last", False))

    # -- new messages

    async def run(self) -> None:
        """Poll and emit until the source has ended, or the run drains and what the source had given is emitted."""
        HERE.set(self.place)
        self.marking.begins = True
        await self._read()
        self.ended = True
        self._retry_policy.ends()
        while await self.reader.has_late():
            await self._read()

    async def _read(self) -> None:
        reader, pauses = self.reader, self.pauses
        since, yielded = 0, self._loop.time()
        while reader.has_more:
            room = min(SLICE_MAX, self._max_pending - self.pending) if self._tracked else SLICE_MAX
            full = next((queue for queue in self.below if queue.full), None)
            if full is not None:
                await pauses.until_room(full)
            elif room <= 0 or pauses.is_held():
                await pauses.until_woken()
            else:
                messages = await reader.poll(min(room, self._room()))
                if not messages:
                    if reader.draining:
                        continue
                    break
                self._emit(messages)
                drive(self.downstream)
                since += len(messages)
                if since >= SLICE_MAX or self._loop.time() - yielded >= SLICE_S:
                    await asyncio.sleep(0)  # a source that never waits must let the others in, one that does need not
                    since, yielded = 0, self._loop.time()

    def drain(self) -> None:
        """Ask the source for no more. What a generator has yielded is still emitted, and what waits for a replay is
        replayed now."""
        self.reader.drain()
        self.pauses.wake()
        self._retry_policy.ends()
        self.replays.all_now()

    def _held_by_the_store(self) -> str:
        if not self.marking.begun:
            self.checkpoints.want()
            return self.checkpoints.why_full or "it is not kept yet that it has begun"
        return self.checkpoints.why_full

    def _held_by_its_marks(self) -> str:
        if (done := len(self._done)) >= self.marking.max_lag:
            return f"{done:,} messages are done that no decided checkpoint has (max_lag)"
        return "" if self._room() > 0 else self.marking.why_held

    def _room(self) -> int:
        return self.marking.room(self._unfinished)

    def _unfinished(self) -> Sequence[Pending]:
        unfinished: Sequence[Pending] = self.home.markings.unfinished()[self]
        return unfinished

    @property
    def waits_for_decision(self) -> bool:
        """True if it is held by what was done since the last decided checkpoint."""
        return bool(self.pauses.reason) and len(self._done) >= self.marking.max_lag

    def look_again(self) -> None:
        """Ask the checks again if one of them holds the task: its reason may be over."""
        if self.pauses.reason:
            self.pauses.wake()

    def wake(self) -> None:
        """End a pause that waits for something other than a queue."""
        self.pauses.wake()

    def freed(self) -> None:
        """Take note that fewer messages are pending: others may be replayed, or read."""
        self.replays.look()
        self.pauses.wake()

    def _emit(self, messages: Sequence[Message[Any]]) -> None:
        epochs = self.reader.source.epochs
        if epochs is not self._epochs:
            self._epochs = epochs
            self.marking.renewed(epochs)
        if len({message.partition for message in messages}) == 1:
            self._emit_of(messages[0].partition, messages)
        else:
            for partition, some in groupby(messages, attrgetter("partition")):
                self._emit_of(partition, [*some])

    def _emit_of(self, partition: str, messages: Sequence[Message[Any]]) -> None:
        """Emit the messages of one partition that are new (E3). Handle those that the source gave before."""
        try:
            seed, lane = self.marking.lanes[partition]
        except KeyError as error:
            text = f"spout {self.component!r} emitted a message of partition {error}, which partitions() does not name"
            raise KedgeError(text, code=UNKNOWN_PARTITION) from None
        ids = [message.id for message in messages]
        self.marking.gives(ids, self._loop.time())
        at, in_flight = 0, None
        passed: set[MessageId] = set()
        while at < len(ids):
            count = lane.new(ids, at)
            if count == len(ids):
                self._emit_new(messages, seed)
                lane.add(ids)
            elif count:
                self._emit_new(messages[at : at + count], seed)
                lane.add(ids[at : at + count])
                in_flight = None  # there are more now
            else:
                in_flight = in_flight or InFlight(self._unfinished)
                if not self._handle_repeated(lane, messages[at], seed, in_flight, passed):
                    continue
            at += count or 1

    def _handle_repeated(
        self, lane: Lane, message: Message[Any], seed: int, in_flight: InFlight, passed: set[MessageId]
    ) -> bool:
        """Handle a message whose id is not new. Return False if it is to be emitted once more.

        A message that is in flight ends together with the first one of its id (F59); if it is another message, the id
        is refused. A message that an earlier run has finished is passed over, as often as this poll has it; `passed`
        has the ids of those. Raises KedgeError for anything else.
        """
        if message.id in passed or lane.before(message.id):
            passed.add(message.id)
            self.counters.passed_over += 1
            self.reader.passed_over += 1
            self.callbacks.acked_before(message.id)
            if self.callbacks.wants_settled:
                self.callbacks.settled([message])
            return True
        tree = in_flight.of(seed, message.id)
        if tree is not None:
            if not _is_same(tree.message.record, message.record):
                two = f"{tree.message.record!r:.120} is not done, and now it names {message.record!r:.120}"
                text = f"spout {self.component!r} gave the id {message.id!r:.80} to two messages: {two}"
                raise KedgeError(text, code=DUPLICATE_MESSAGE_ID)
            tree.also += 1
            self.counters.coalesced += 1
            return True
        if lane.again(message.id):
            return False
        after = f"id {message.id!r} after {lane.newest!r}"
        text = f"spout {self.component!r} emitted {after}, and int ids grow within an epoch"
        raise KedgeError(text, code=NON_INCREASING_ID)

    def _emit_new(self, messages: Sequence[Message[Any]], seed: int) -> None:
        self.counters.emitted += len(messages)
        if not self._tracked:
            for message in messages:
                self._send_untracked(message, seed)
            self.callbacks.left(messages)
            return
        now = self._loop.time()
        root = self._context.roots.take(len(messages))
        self.pending += len(messages)
        self.open += len(messages)
        handled = 0
        if self.home.trials.on:
            trees = [
                Pending(root + number * ROOT_STEP, UNDONE, message, seed, self, now)
                for number, message in enumerate(messages)
            ]
            self.home.trials.take(self, trees)
            handled = len(trees)
        elif self.outbox.plain is not None and not self.spout.outside_ids:
            handled = begin(self.outbox.plain, messages, seed, root, self, now, self.home.ledger)
        for number in range(handled, len(messages)):
            self._begin(Pending(root + number * ROOT_STEP, 0, messages[number], seed, self, now))

    def _send_untracked(self, message: Message[Any], seed: int) -> None:
        """Let a message leave without a tree: at most once."""
        staged: Staged = []
        try:
            origin, identity = self.pair(message.id, seed)
            self.outbox.stage(staged, message.record, origin, identity, 0, ())
        except BaseException as error:
            self.counters.failed += 1
            self.home.reported(Failure(Reason.EMIT, self.component, described(error), error))
            return
        if not staged and type(message.record) is Malformed:
            self.counters.failed += 1
            self.home.reported(_unread(self.component, message.record))
            return
        self.outbox.count(1)
        self.outbox.send(staged)

    def pair(self, message_id: MessageId, seed: int) -> tuple[int, int]:
        """Return the origin and the identity of a message. Raises TypeError for an invalid id."""
        if self.spout.outside_ids:
            return outside_pair(message_id, seed, self._context.key)
        return message_pair(message_id, seed)

    def _begin(self, tree: Pending) -> None:
        """Choose all targets, begin the tree, then let its first tuples leave (A6)."""
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
        self.outbox.count(1)
        if not tree.value:  # nothing reads it
            if type(record) is Malformed:
                failure = _unread(self.component, record)
                self.home.reported(failure)
                self.failed_tree(tree, failure)
            else:  # a custom grouping chose no task
                self.completed([tree])
            return
        self.home.ledger.begin(tree)
        self.outbox.send(staged)

    def wake_downstream(self) -> None:
        for reader in self.downstream:
            if reader.queue:
                reader.wake()

    # -- the ends of messages

    def completed(self, trees: list[Pending]) -> None:
        """Take note that these trees have been processed completely."""
        self.counters.completed(trees, self._loop.time())
        self.pending -= len(trees)
        self.open -= len(trees)
        self._done.add(trees)
        if self.callbacks.wants_acks:
            self.callbacks.acked(trees)
        self.freed()

    def failed_tree(self, tree: Pending, failure: Failure) -> None:
        """Take note that the tree has failed: replay its message after a while, or bury it."""
        self.counters.failed += 1
        tree.value = tree.value or UNDONE
        self._retry_policy.failed(tree, failure)
        if tree.deaths:
            self.home.trials.ended([tree])
        if (
            failure.reason in DEAD_AT_ONCE
            or isinstance(failure.error, Reject)
            or self._retry_policy.spent(tree, failure)
        ):
            self.home.bury(self, tree, failure, ceil(tree.deaths))
        else:
            self.replays.add(tree)

    # -- checkpoints

    @property
    def unsettled(self) -> Sequence[Pending]:
        """The messages that its source is to hear of at the next decision. The mark may have them already: a source
        may give a name again that is done."""
        return self._done.trees if self.callbacks.wants_settled else ()

    def noted(self) -> None:
        """A checkpoint is noted: what is done by now is in its frontier."""
        self._done.noted()

    def decided(self) -> None:
        """The noted checkpoint is decided: what was done when it was noted will not be emitted again, and its source
        may forget it."""
        done = self._done.decided()
        if done and self.callbacks.wants_settled:
            self.callbacks.settled([tree.message for tree in done])
        self.checkpoints.trash.append(done)

    def go_back(self) -> None:
        """Emit again what is not in the last decided frontier: its effects are gone."""
        again = self._done.undone()
        for tree in again:
            tree.value = UNDONE
            tree.started_at = self._loop.time()
        self.counters.reopened += len(again)
        self.pending += len(again)
        self.open += len(again)
        self.marking.reopen(again)
        self.replays.put(again)

    def buried(self, tree: Pending) -> None:
        """Take note that the message is dead: its letter is kept, and only a person can have it replayed."""
        self.counters.dead += 1
        self.pending -= 1
        self.open -= 1
        tree.value = 0
        self.callbacks.dead(tree)
        if self.callbacks.wants_settled:  # the checkpoint with its letter is decided
            self.callbacks.settled([tree.message])
        self.freed()

    def pair_of(self, tree: Pending) -> tuple[int, int]:
        """Return the origin and the identity of a message, or two zeros if its id is invalid."""
        try:
            return self.pair(tree.message.id, tree.seed)
        except TypeError:
            return 0, 0

    def epoch_of(self, tree: Pending) -> str:
        """Return the epoch of its partition in which a message was emitted."""
        return self.marking.epoch_of(tree)

    def _again(self, trees: Sequence[Pending]) -> None:
        """Emit these messages once more."""
        for tree in trees:
            self.counters.replayed += 1
            root = self._context.roots.next_attempt(tree.root)
            if message_of(root) != message_of(tree.root):
                tree.renamed = (*tree.renamed, message_of(tree.root))
            tree.root = root
            self._begin(tree)
        self.wake_downstream()

    @property
    def unread(self) -> int:
        """Messages that the source has given, and that a drain still has to emit."""
        return self.reader.unread

    @property
    def waiting(self) -> int:
        """Messages that wait for a replay: they are pending, and in no ledger."""
        return len(self.replays)

    def later(self) -> list[Pending]:
        """Return the messages that wait for a replay, in no promised order."""
        return self.replays.trees()

    def close(self) -> None:
        """Read and replay nothing any more."""
        self.reader.close()
        self.replays.close()
