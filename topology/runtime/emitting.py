"""What becomes of messages as a spout's task is given them: the hot path, by which those of the commonest kind become
trees and tuples; and those that are not new. Must not know what becomes of them later."""

from collections.abc import Sequence
from typing import Any

from acker.identity import MessageId, message_pair
from acker.marks import Lane
from acker.roots import ROOT_STEP
from topology.codes.running import K524, K556
from topology.components import Message, Tuple
from topology.errors import EmitError, KedgeError, RecordError
from topology.records import encode
from topology.runtime.failures import Failure, Reason, described
from topology.runtime.here import entered
from topology.runtime.outbox import Plain, Staged
from topology.runtime.replaying import Pending


def begun_plainly(
    spouting: Any, plain: Plain, messages: Sequence[Message[Any]], seed: int, root: int, now: float
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
        trees.append(Pending(root, identity, message, seed, spouting, now))
        tuples.append(Tuple(record, origin, identity, root, (), source))
        root += ROOT_STEP
    spouting.home.ledger.begin_all(trees)
    if one is None:
        plain.extend(tuples)
    else:
        for queue, tup in zip(targets, tuples, strict=True):
            queue.append(tup)
    spouting.outbox.emitted += len(trees)
    return len(trees)


def sent_untracked(spouting: Any, message: Message[Any], seed: int) -> None:
    """Lets a message leave that nobody follows: at most once."""
    staged: Staged = []
    try:
        origin, identity = spouting.pair(message.id, seed)
        spouting.outbox.stage(staged, message.record, origin, identity, 0, ())
    except BaseException as error:
        spouting.failed += 1
        spouting.home.reported(Failure(Reason.EMIT, spouting.component, described(error), error))
        return
    spouting.outbox.emitted += 1
    spouting.outbox.send(staged)


class UnderWay:
    """The messages of one spout task that are not done, as they are when one is first asked for."""

    def __init__(self, spouting: Any) -> None:
        self._spouting = spouting
        self._found: dict[tuple[int, MessageId], Pending] | None = None

    def of(self, seed: int, message_id: MessageId) -> Pending | None:
        """The one of this id in the partition's epoch that has this seed."""
        if self._found is None:
            trees = self._spouting.home.markings.unfinished()[self._spouting]
            ids = (int, str, bytes)  # what is none has no other like it, and may have no hash
            self._found = {(tree.seed, tree.message.id): tree for tree in trees if type(tree.message.id) in ids}
        return self._found.get((seed, message_id))


def given_again(
    spouting: Any, lane: Lane, message: Message[Any], seed: int, under_way: UnderWay, passed: set[MessageId]
) -> bool:
    """A message that is under way is told of with the first one (F59), and refused where it is another one; one that an
    earlier run has done is passed over, as often as this poll has it, which `passed` knows of. False for one that is to
    be emitted once more. Raises KedgeError for what is none of these."""
    if message.id in passed or lane.before(message.id):
        passed.add(message.id)
        spouting.passed_over += 1
        if spouting.tells_ack:
            with entered(spouting.place):
                spouting.tell(spouting.spout.ack, message.id)
        return True
    tree = under_way.of(seed, message.id)
    if tree is not None:
        if not _is_same(tree.message.record, message.record):
            two = f"{tree.message.record!r:.120} is not done, and now it names {message.record!r:.120}"
            text = f"spout {spouting.component!r} gave the id {message.id!r:.80} to two messages: {two}"
            raise KedgeError(text, code=K556)
        tree.also += 1
        spouting.coalesced += 1
        return True
    if lane.again(message.id):
        return False
    after = f"id {message.id!r} after {lane.newest!r}"
    text = f"spout {spouting.component!r} emitted {after}, and int ids grow within an epoch"
    raise KedgeError(text, code=K524)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two records are one; those that equal nothing, as with a nan, by their bytes."""
    return one is other or one == other or (type(one) is type(other) and _bytes_of(one) == _bytes_of(other))


def _bytes_of(record: Any) -> bytes | None:
    try:
        return encode(record)
    except RecordError:  # its message dies of that
        return None
