"""The hot path: how a spout's messages begin, how a slice of inputs goes through `process`, and how outputs leave.

`hot_path.pxd` has the types for the compiled core; this source is what both cores run. A number is one of 64 bits here:
nothing may add to one without a bound. Only the commonest cases are here, each laid out flat;
`Executor`, `Outbox` and `SpoutTask` have all others. Must not know workers, links or state.
"""

from collections.abc import Callable, Sequence
from types import GeneratorType
from typing import Any

import acker.hash64 as hash64
import topology.core.tuples as tuples
import topology.runtime.hot.pending as pending
from acker.identity import message_pair
from acker.ledger import Ledger
from acker.roots import ROOT_STEP
from topology.components import Message
from topology.core.tuples import Tuple
from topology.errors import EmitError
from topology.groupings import One
from topology.records import Record
from topology.runtime.hot.open_trees import OpenTrees
from topology.runtime.hot.outputs import END, OUTPUTS_MAX, collected, too_many, waits
from topology.runtime.hot.pending import Pending


class Plain:
    """The commonest case of emission: one stream, read once, each tuple by one task, whose edge is its identity.

    `one` chooses among `queues`; it is None if all tuples go into the first queue. `emitted` only grows.
    """

    def __init__(
        self, cls: type, salt: int, counted_salt: int, source: Any, one: One | None, queues: Sequence[Any]
    ) -> None:
        self.cls = cls
        self.salt = salt
        self.counted_salt = counted_salt
        self.source = source
        self.one = one
        self.queues = queues
        self.append = queues[0].append
        self.extend = queues[0].extend
        self.emitted = 0


def emit(plain: Plain, records: Sequence[Record], tup: Tuple[Any], undeclared: Callable[[object], EmitError]) -> int:
    """Let what one input caused leave, anchored to it. Return the XOR of the edges. Raises before anything has left."""
    parent = hash64.parent_of(tup.identity)
    seed = plain.salt
    if len(records) == 1 and plain.one is None:
        record = records[0]
        if type(record) is not plain.cls:
            raise undeclared(record)
        value = hash64.derived(parent, seed) or 1
        plain.append(tuples.new(record, tup.origin, value, tup.root, tup.others, plain.source))
        plain.emitted += 1
        return value
    value = 0
    staged = []
    for record in records:
        if type(record) is not plain.cls:
            raise undeclared(record)
        identity = hash64.derived(parent, seed) or 1
        value ^= identity
        seed += 1
        staged.append(tuples.new(record, tup.origin, identity, tup.root, tup.others, plain.source))
    if plain.one is None:
        plain.extend(staged)
    else:
        chosen = [plain.queues[plain.one(copy.record, copy.identity)] for copy in staged]
        for queue, copy in zip(chosen, staged, strict=True):
            queue.append(copy)
    plain.emitted += len(staged)
    return value


def work(executor: Any, process: Callable[[Any], Any], count: int) -> int:
    """Take up to `count` inputs of a `ProcessExecutor` from its queue, and return how many. `process` is called with
    each record, in their order. Acks of inputs in a row that belong to one tree leave as one."""
    popleft, home = executor.queue.popleft, executor.home
    outbox, plain, young, ack = executor.outbox, executor.outbox.plain, home.ledger.young, home.ack
    done: list[Any] = []  # trees that this slice completes
    taken = last = value = tag = 0
    source = None
    while taken < count:
        tup = popleft()
        taken += 1
        try:
            outputs = process(tup.record)
            if outputs is None:
                sent = 0
            else:
                if type(outputs) is GeneratorType:
                    first = next(outputs, END)
                    second = END if first is END else next(outputs, END)
                    if second is END:  # as most have it: nothing or one, and no list
                        outputs = () if first is END else (first,)
                    else:
                        outputs = [first, second, *collected(outputs)]
                elif type(outputs) is list or type(outputs) is tuple:
                    if len(outputs) > OUTPUTS_MAX:
                        raise too_many()
                else:
                    if waits(outputs):
                        executor.begin_waiting(tup, outputs)
                        if len(executor.under_way) >= executor.concurrency:
                            break
                        continue
                    outputs = collected(outputs)
                if not outputs:
                    sent = 0
                elif plain is None:
                    sent = outbox.emit(outputs, tup)
                else:
                    sent = emit(plain, outputs, tup, outbox.undeclared)
        except BaseException as error:
            executor.raised(tup, error)
            continue
        if tup.others:
            executor.ack_input(tup, sent)
            continue
        if tup.root != last:
            if last:
                settle(young, ack, last, value, done)
            last, value = tup.root, 0
        if tup.source is not source:
            source = tup.source
            tag = source.tag
        value ^= sent
        value ^= (hash64.derived(hash64.parent_of(tup.identity), tag) or 1) if tag else tup.identity
    if last:
        settle(young, ack, last, value, done)
    assert home.ledger.young is young, "no deadline passes within a slice"
    if done:
        home.completed(done)
    executor.executed += taken
    return taken


def ack_given(given: dict[int, Tuple[Any]], tuples: list[Tuple[Any]], home: Any) -> tuple[list[Any], list[Tuple[Any]]]:
    """Ack those of the tuples that are in `given`, by their `id`, and take them out. Return the trees that this
    completes, and the tuples that were not there."""
    young, ack = home.ledger.young, home.ack
    done: list[Any] = []
    missing = []
    last = value = tag = 0
    source = None
    for argument in tuples:  # a user's bolt may have put anything there
        found = given.pop(id(argument), None)
        if found is None:
            missing.append(argument)
            continue
        tup = found
        if tup.source is not source:
            source = tup.source
            tag = source.tag
        edge = (hash64.derived(hash64.parent_of(tup.identity), tag) or 1) if tag else tup.identity
        if tup.others:
            for root in tup.roots:
                settle(young, ack, root, edge, done)
            continue
        if tup.root != last:
            if last:
                settle(young, ack, last, value, done)
            last, value = tup.root, 0
        value ^= edge
    if last:
        settle(young, ack, last, value, done)
    return done, missing


def settle(young: OpenTrees, ack: Callable[[int, int], Any], root: int, value: int, done: list[Any]) -> None:
    """Ack, and add the tree to `done` if that has completed it."""
    tree = young.get(root)
    if type(tree) is Pending:
        message = tree
        left = message.value ^ value
        message.value = left
        if not left:
            young.pop(root)
            done.append(message)
    else:  # it is old, no message's, another worker's, or not there
        tree = ack(root, value)
        if tree is not None:
            done.append(tree)


def begin(
    plain: Plain, messages: Sequence[Message[Any]], seed: int, root: int, owner: Any, now: float, ledger: Ledger[Any]
) -> int:
    """Begin the trees of new messages, from `root` on, and let their tuples leave. Return how many.

    Stops at the first message that is unusual, or that has no target: `SpoutTask` begins that one and the rest.
    """
    young, old = ledger.young, ledger.old
    staged = []
    targets = []
    for message in messages:
        record = message.record
        if type(record) is not plain.cls:
            break
        try:
            if type(message.id) is int:
                origin, identity = hash64.pair(message.id, seed)
            else:
                origin, identity = message_pair(message.id, seed)
            if plain.one is not None:
                targets.append(plain.queues[plain.one(record, identity)])
        except (TypeError, EmitError):
            break
        tree = pending.new(root, identity, message, seed, owner, now)
        begun = young.setdefault(root, tree)
        assert begun is tree, "a root is begun once"
        assert old.get(root) is None, "a root is begun once"
        staged.append(tuples.new(record, origin, identity, root, (), plain.source))  # type: ignore[type-var]
        root += ROOT_STEP
    ledger.begun += len(staged)
    if plain.one is None:
        plain.extend(staged)
    else:
        for queue, tup in zip(targets, staged, strict=True):
            queue.append(tup)
    plain.emitted += len(staged)
    return len(staged)


def begun_together(trees: Sequence[Pending]) -> list[tuple[float, int]]:
    """Return when messages in a row began that began together, in loop time, and how many they are."""
    found = []
    started_at, count = 0.0, 0
    for tree in trees:
        if tree.started_at != started_at and count:
            found.append((started_at, count))
            count = 0
        started_at = tree.started_at
        count += 1
    if count:
        found.append((started_at, count))
    return found
