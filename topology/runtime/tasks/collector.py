"""The collector that `execute` and `flush` are given, and the executor that gives it: Storm's full control.

Any number of anchors, tuples held back, several trees. The slow and careful path; `executor` has the short one. It must
not know trees or spouts: what leaves goes through the outbox, acks and fails go home.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from acker.anchoring import MAX_ROOTS, OpenTuple, distinct, register, roots_of
from acker.identity import MessageId, common_origin, derive, edge, mixed
from acker.roots import NUMBER_SHIFT, UNTRACKED
from topology.codes.tuples import (
    CONCURRENT_UNKEYED_EMITS,
    DUPLICATE_EMIT_KEY,
    KEY_WITHOUT_ANCHOR,
    TUPLE_ALREADY_FINISHED,
)
from topology.core.tuples import Tuple
from topology.errors import EmitError, TupleStateError
from topology.records import Record
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.outputs import waits
from topology.runtime.tasks.executor import Executor
from topology.runtime.tasks.stale import refused

Name = tuple[type, frozenset[int]]  # a stream, and the identities of the anchors


class Open(OpenTuple):
    """An input that `execute` was given and that is not acked or failed yet."""

    __slots__ = ("_keys", "_ordinals", "kept_since", "task", "tup")

    def __init__(self, tup: Tuple[Any]) -> None:
        value = edge(tup.identity, tup.source.tag)
        if (root := tup.root) and not tup.others:  # the usual case, without the steps of the other one
            self.values, self.finished = {root: value}, False
        else:
            super().__init__(tup.roots, value)
        self.tup = tup
        self._ordinals: dict[Name, int] | None = None  # made when they are asked for: a sink's inputs have none
        self._keys: set[tuple[Name, MessageId]] | None = None
        self.task: asyncio.Task[Any] | None = None  # which emitted without a key first
        self.kept_since: float | None = None  # its slice began, where `execute` has neither acked nor failed it

    @property
    def ordinals(self) -> dict[Name, int]:
        if self._ordinals is None:
            self._ordinals = {}
        return self._ordinals

    @property
    def keys(self) -> set[tuple[Name, MessageId]]:
        if self._keys is None:
            self._keys = set()
        return self._keys


class TaskCollector:
    """`topology.components.Collector` of one input; `current` is None in `flush`, where the default is no anchor."""

    __slots__ = ("_current", "_executor")

    def __init__(self, executor: Executor, current: Open | None) -> None:
        self._executor = executor
        self._current = current

    def emit(
        self,
        record: Record,
        anchors: Sequence[Tuple[Any]] | None = None,
        key: MessageId | None = None,
        task: int | None = None,
    ) -> None:
        executor = self._executor
        if anchors is None:
            opens: tuple[Open, ...] = () if self._current is None else (self._current,)
        else:
            opens = tuple(executor.open_of(anchor, "emit on") for anchor in distinct(anchors))
        if not opens:
            if key is not None:
                raise EmitError(
                    "a key names an emission among those of its anchors, and this one has none", code=KEY_WITHOUT_ANCHOR
                )
            executor.emit_unanchored([record], task)
            return
        for held in opens:
            if held.finished:
                executor.open_of(held.tup, "emit on")
        roots = roots_of(opens)
        holder = min(opens, key=lambda one: one.tup.identity)  # so that the anchors' order changes nothing (B7)
        name = (type(record), frozenset(held.tup.identity for held in opens))
        seed = self._by_ordinal(record, holder, name) if key is None else self._by_key(record, holder, name, key)
        if len(opens) == 1:
            origin, parent = opens[0].tup.origin, opens[0].tup.identity
        else:
            origin = common_origin(held.tup.origin for held in opens)
            parent = mixed(held.tup.identity for held in opens)
        many = len(roots) > MAX_ROOTS
        if many and isinstance(executor, CollectingExecutor) and executor.are_stale(roots):
            return
        named = (executor.home.subtrees.root(),) if many else roots or (UNTRACKED,)
        outbox = executor.outbox
        staged: list[Any] = []
        edges = outbox.stage(staged, record, origin, derive(parent, seed), named[0], named[1:], task)
        if key is None:  # only now: what could not be staged was not emitted
            holder.ordinals[name] = holder.ordinals.get(name, 0) + 1
        else:
            holder.keys.add((name, key))
        if many and staged:
            edges = executor.home.subtrees.begin(executor.component, named[0], edges, roots)
        register(opens, edges)
        outbox.send(staged)
        outbox.count(1)
        executor.wake_downstream()

    def _by_ordinal(self, record: Record, holder: Open, name: Name) -> int:
        """Seeds with how manyth emission this is for these anchors on this stream."""
        if self._executor.waits:
            running = asyncio.current_task()
            if holder.task is None:
                holder.task = running
            elif holder.task is not running:
                raise EmitError(
                    "several asyncio tasks emit for one input, so their order may change", code=CONCURRENT_UNKEYED_EMITS
                )
        return self._executor.outbox.outlet(record).salt + holder.ordinals.get(name, 0)

    def _by_key(self, record: Record, holder: Open, name: Name, key: MessageId) -> int:
        seed = self._executor.outbox.keyed(record, key)
        if (name, key) in holder.keys:
            raise EmitError(
                f"key {key!r:.80} was emitted for this input already: two tuples would have one identity",
                code=DUPLICATE_EMIT_KEY,
            )
        return seed

    def ack(self, tup: Tuple[Any]) -> None:
        self._executor.open_of(tup, "ack")
        self._executor.ack_held(tup)

    def ack_all(self, tuples: Iterable[Tuple[Any]]) -> list[Tuple[Any]]:
        """As `ack` for each of these inputs of this task, in one call. Returns those that were finished."""
        executor = self._executor
        assert isinstance(executor, CollectingExecutor), "the others finish their inputs by themselves"
        return executor.ack_all(tuples)

    def fail(self, tup: Tuple[Any], reason: str) -> None:
        self._executor.open_of(tup, "fail")
        self._executor.fail_input(tup, None, Reason.FAILED, reason)

    def touch(self, tup: Tuple[Any]) -> None:
        executor = self._executor
        for root in executor.open_of(tup, "touch").values:
            executor.home.renew(root)

    async def drain(self) -> None:
        self._executor.wake_downstream()
        for executor in self._executor.downstream:
            await executor.room()


class CollectingExecutor(Executor):
    """Drives a bolt's `execute(tup, out)`; `opened` are the inputs that it holds."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.opened: dict[int, Open] = {}
        self.kept, self.kept_s = 0, 0.0  # inputs that were held and are finished, and for how long, together
        self.decided = self.settings.decided
        self.stale = 0  # inputs of finished trees, refused, and emissions for such inputs alone, dropped (D5)
        self.misused = 0  # emits, acks and fails on finished tuples
        self._cut_off = False

    def begin_generation(self) -> None:
        """Keep what is held, and what is under way for it: see `Executor.begin_generation`."""
        self.queue.clear()
        if self.waiting_room.futures and not self.full:
            self.waiting_room.let_in()

    def cut_off(self) -> None:
        self._cut_off = True
        super().cut_off()

    def slice(self, count: int) -> int:
        taken, now = 0, self._loop.time()  # once a slice: a clock costs as much as some of the inputs
        decided = self.decided
        refuses = None if decided is None else decided.refuses
        stale = 0
        while taken < count and len(self.under_way) < self.concurrency:
            taken += 1
            tup = self.queue.popleft()
            if (
                refuses is not None
                and (root := tup.root)
                and (
                    refuses(root >> NUMBER_SHIFT)
                    or (tup.others and any(refuses(other >> NUMBER_SHIFT) for other in tup.others))
                )
            ):
                stale += 1
                assert decided is not None, "who else refuses it"
                refused(tup, self.home, decided, self.component)
                continue
            self.opened[id(tup)] = one = Open(tup)
            try:
                result = self.bolt.execute(tup, TaskCollector(self, one))
                if result is not None and waits(result):
                    self.begin_waiting(tup, result)
                if not one.finished:
                    one.kept_since = now
            except BaseException as error:
                self.raised(tup, error)
        self.stale += stale
        self.executed += taken - stale
        return taken

    def finish(self, tup: Tuple[Any], outputs: Sequence[Record], error: BaseException | None) -> None:
        """`execute` has returned; whether its input is done is for `out` to say."""
        if error is not None:
            self.raised(tup, error)

    def fail_input(self, tup: Tuple[Any], error: BaseException | None, reason: Reason, text: str = "") -> None:
        if id(tup) in self.opened:
            self._close(tup)
            if reason is Reason.FAILED and self._cut_off:
                reason = Reason.CUT_OFF  # given back by `close`: no fault of its own, and no attempt is spent (E6)
            super().fail_input(tup, error, reason, text)
        else:  # raised after it had acked: nothing is left to fail, but it is reported
            self.home.reported(Failure(reason, self.component, text, error))

    def are_stale(self, roots: Sequence[int]) -> bool:
        """Return whether all of these inputs' trees are finished, so that no tree waits for what is anchored to them
        alone, and counts it. Where some are not, it goes on under its sub-root: those wait for it, and which inputs a
        bolt puts together is the bolt's matter. What is put together so again has the same identity, and is known below
        as long as one of them is not done."""
        decided = self.decided
        stale = decided is not None and all(decided.refuses(root >> NUMBER_SHIFT) for root in roots)
        self.stale += stale
        return stale

    def open_of(self, tup: Tuple[Any], act: str) -> Open:
        """The open input of this tuple. Raises TupleStateError where it is finished (A3, A4)."""
        one = self.opened.get(id(tup))
        if one is None or one.tup is not tup:
            self.misused += 1
            raise TupleStateError(
                f"{self.component!r} tried to {act} a tuple that it has acked or failed already",
                code=TUPLE_ALREADY_FINISHED,
            )
        return one

    def ack_held(self, tup: Tuple[Any]) -> None:
        self.ack_roots(self._close(tup).values.items())

    def ack_all(self, tuples: Iterable[Tuple[Any]]) -> list[Tuple[Any]]:
        """Acks those of these inputs that are open; returns the others (A3, A4)."""
        opened, ack, now = self.opened, self.home.ack, self._loop.time()
        done, finished = [], []
        for tup in tuples:
            one = opened.get(id(tup))
            if one is None or one.tup is not tup:
                finished.append(tup)
                continue
            del opened[id(tup)]
            one.finished = True
            if one.kept_since is not None:
                self.kept += 1
                self.kept_s += now - one.kept_since
            done += [tree for root, value in one.values.items() if (tree := ack(root, value)) is not None]
        self.misused += len(finished)
        if done:
            self.home.completed(done)
        return finished

    def _close(self, tup: Tuple[Any]) -> Open:
        one = self.opened.pop(id(tup))
        one.finished = True
        if one.kept_since is not None:
            self.kept += 1
            self.kept_s += self._loop.time() - one.kept_since
        return one

    @property
    def in_hand(self) -> int:
        """The number of inputs it holds."""
        return len(self.opened)

    def held(self) -> list[Tuple[Any]]:
        return [held.tup for held in self.opened.values()]
