"""The bolts of one stage in one process: deliveries in, deliveries out, with the identities that a run of Kedge gives.

A bolt's outputs leave through an `Outbox`, as in Kedge's workers, so identities and copies are the same as there; the
outbox's targets are rows. A bolt without state that reads by `shuffle` runs at once on the outputs of a bolt of the
same stage. State is a value that is passed in and returned. Must not know Spark.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from types import GeneratorType
from typing import Any, Final

from acker.identity import timer_pair
from bridge.engine.batch_clock import TIME, BatchClock, batch_started_us
from bridge.engine.mapping import Mapped, is_timed, key_of
from bridge.engine.rows import (
    DUE,
    REJECTED,
    TIMERS,
    DueNow,
    EngineRow,
    KeyTimers,
    Rejected,
    after,
    due_of,
    row_of,
    unsigned,
)
from bridge.engine.user_errors import USERS, ComponentRaised, at_input
from topology.components import Task
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.errors import KedgeError, RecordError, Reject
from topology.groupings import All
from topology.keys import values_of
from topology.records import Record, decoder, encode
from topology.runtime.hot.outputs import collected, outcome, waits, yielded
from topology.runtime.prototypes import prototype_copy
from topology.runtime.state.state_value import StateValue
from topology.runtime.state.value import StateCodec
from topology.runtime.tasks.outbox import Outbox, Staged, outbox_of
from topology.runtime.worker.start_wait import open_in_time
from topology.signatures import state_type
from topology.user_frames import described, shown

SHOWN_MAX: Final = 1_000  # characters of a rejected record that are shown
SPREAD: Final = 16  # number of groups for rows that only pass through a stage

OpenTask = Callable[[str], Task]  # a component's name → what its `open` is given


class LazyState:
    """The state of one key while its rows are processed, in the form of `StateValue`. It is read at the first access,
    and empty if the key has none."""

    def __init__(self, read: Callable[[], bytes] = bytes) -> None:
        self.changed = False
        self._read = read
        self._content: bytes | None = None

    @property
    def content(self) -> bytes:
        if self._content is None:
            self._content = self._read()
        return self._content

    @content.setter
    def content(self, content: bytes) -> None:
        self._content = content
        self.changed = True


class TaskTarget:
    """The place in an outbox for tuples to one task of a bolt."""

    def __init__(self, component: str, task: int) -> None:
        self.component, self.task = component, task

    def append(self, tup: Tuple[Any], /) -> None:
        raise AssertionError("staged tuples are taken from the outbox")

    def extend(self, tuples: list[Tuple[Any]], /) -> None:
        raise AssertionError("staged tuples are taken from the outbox")


class Routing:
    """The topology as all stages see it: its subscriptions by number, their sources, decoders and keys, and outboxes
    whose targets are rows."""

    def __init__(self, mapped: Mapped, seed: int = 0) -> None:
        self.mapped = mapped
        self.plan = mapped.plan
        self._random = Random(seed)
        self.subscriptions = mapped.plan.subscriptions
        self.numbers = {
            (read.emitter, read.cls.__name__, read.subscriber): n for n, read in enumerate(self.subscriptions)
        }
        self.decoders = [decoder(read.cls) for read in self.subscriptions]
        self.keys = [key_of(read) for read in self.subscriptions]
        self.sources = [Source(read.emitter, read.cls.__name__, read.tag, read.key) for read in self.subscriptions]
        self._names = {name: number.to_bytes(2, "big") for number, name in enumerate(mapped.level, start=1)}

    def outbox(self, component: str) -> Outbox:
        """Return the outbox of a bolt, or of a spout whose messages arrive."""
        return outbox_of(self.plan, component, 0, TaskTarget, Random(self._random.getrandbits(64)))

    def number(self, component: str, source: Source) -> int:
        """Return the number of the subscription through which a component was sent something."""
        return self.numbers[source.component, source.stream, component]

    def key(self, number: int, record: Record, task: int) -> bytes:
        """Return the key by which the rows of a subscription are grouped."""
        if isinstance(self.subscriptions[number].grouping, All):
            return task.to_bytes(4, "big")
        key: bytes = self.keys[number](record)
        return key

    def component(self, row: EngineRow) -> str:
        """Return the bolt that a row is for; empty for a row for the driver itself."""
        if row.to >= 0:
            return self.subscriptions[row.to].subscriber
        return due_of(row.record).component if row.to == DUE else ""

    def group(self, component: str, number: int, key: bytes, position: bytes, stage: int) -> bytes:
        """Return the group of a row for `stage`: its bolt and key if they belong to this stage and are keyed."""
        if self.mapped.level.get(component) == stage and (number == DUE or self._is_keyed(number)):
            return self._names[component] + key
        return b"\0\0" + bytes([sum(position[-8:]) % SPREAD])

    def tuple(self, row: EngineRow) -> Tuple[Any]:
        """Return a row as the tuple that its bolt gets. Raises ComponentRaised, with the emitter's name, if the emitted
        record does not fit its class."""
        try:
            record = self.decoders[row.to](row.record)
        except RecordError as error:
            read = self.subscriptions[row.to]
            at = f"a {read.cls.__name__} for {read.subscriber!r}"
            raise ComponentRaised(read.emitter, "process", error, at) from error
        return Tuple(record, unsigned(row.origin), unsigned(row.identity), 0, (), self.sources[row.to])

    def _is_keyed(self, number: int) -> bool:
        return self.mapped.is_keyed(self.subscriptions[number])


class StageBolts:
    """The bolts of one stage. Call `open` first; `close` releases what they hold. `counts`: inputs and outputs of each
    bolt, as (component, "executed" or "emitted"); the reader clears them."""

    def __init__(self, routing: Routing, stage: int, task_of: OpenTask, loop: asyncio.AbstractEventLoop) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._routing, self._stage, self._task_of, self._loop = routing, stage, task_of, loop
        mapped = routing.mapped
        components = routing.plan.components
        self._bolts: dict[str, Any] = {}
        names = mapped.stages[stage].bolts
        self._declared = {name: components[name] for name in names}
        self._outboxes = {name: routing.outbox(name) for name in names}
        self._spouts = [(name, routing.outbox(name), decoder(cls)) for name, cls in mapped.streams] if not stage else []
        self._codecs = {
            name: StateCodec(name, state_type(one.prototype), timed=is_timed(one))
            for name, one in self._declared.items()
            if one.shape == "state"
        }
        self._clock = BatchClock(loop)
        self._randoms: dict[str, Random] = {}  # bolt → its random generator
        self._batch = b""  # the time of the batch, as in positions
        self._after_us = 0  # a timer that `on_timer` sets for a past time is due after this
        for codec in self._codecs.values():
            codec.due = self._due

    # -- lifecycle

    def open(self) -> None:
        """Open each bolt. Raises its KedgeError, or ComponentRaised."""
        for name, declared in self._declared.items():
            bolt = self._bolts[name] = prototype_copy(declared)
            try:
                task = replace(self._task_of(name), clock=self._clock)
                self._randoms[name] = task.random
                limit_s = self._routing.plan.config.start_timeout_s
                self._awaited(open_in_time(name, partial(bolt.open, task), self._loop.time, limit_s))
            except KedgeError:
                raise
            except USERS as error:
                raise ComponentRaised(name, "open", error) from error

    def close(self) -> None:
        """Close each bolt that was opened, even if others raise. Raises ComponentRaised for the first exception."""
        first: ComponentRaised | None = None
        while self._bolts:
            name, bolt = self._bolts.popitem()
            try:
                self._awaited(bolt.close())
            except USERS as error:
                first = first or ComponentRaised(name, "close", error)
        if first is not None:
            raise first

    # -- rows

    def arrive(self, rows: Iterable[EngineRow]) -> Iterator[EngineRow]:
        """Process messages that were handed over: the first stage. `to` of a row is the number of its input."""
        for row in rows:
            self._in_batch(row.position)
            if row.to == len(self._spouts):
                yield from self._arrived_timer(row)
                continue
            yield from self._arrived(row)

    def take(self, rows: Iterable[EngineRow], held: LazyState | None = None) -> Iterator[EngineRow]:
        """Process rows of earlier stages. `held`: in a stage with state, the state of the key that all rows share."""
        if held is not None:
            self._batch = b""  # a new key: random numbers must not depend on the keys before it
        for row in rows:
            self._in_batch(row.position)
            name = self._routing.component(row)
            if name not in self._bolts:
                group = self._routing.group(name, row.to, row.key, row.position, self._stage + 1)
                yield row._replace(group=group)
            elif row.to == DUE:
                due = due_of(row.record)
                source = Source(name, "timer", 0, lambda one: one.key)
                tup = Tuple(due, unsigned(row.origin), unsigned(row.identity), 0, (), source)
                yield from self._run(name, tup, row.key, row.position, held)
            else:
                yield from self._run(name, self._routing.tuple(row), row.key, row.position, held)

    def _in_batch(self, position: bytes) -> None:
        """Set the time and the random seeds of the bolts, so that they are the same in each attempt at a batch."""
        if position[:TIME] != self._batch:
            self._batch = position[:TIME]
            self._clock.now_us = batch_started_us(position)
            for name, random in self._randoms.items():
                random.seed(name.encode() + position)

    def _arrived(self, row: EngineRow) -> Sequence[EngineRow]:
        """Process one message. A message that cannot be delivered, for example because its key equals nothing, is
        rejected. It is durable and acked, so no spout can replay it, and each next run would fail at it."""
        spout, outbox, decode = self._spouts[row.to]
        ids = unsigned(row.origin), unsigned(row.identity)
        record: Any = row.record
        staged: Staged = []
        try:
            record = decode(row.record)
            outbox.stage(staged, record, *ids, 0, ())
            return [*self._on(staged, row.position, None)]
        except KedgeError as error:
            wrong = error
        except ComponentRaised as raised:
            if raised.component != spout or not isinstance(raised.error, KedgeError):
                raise
            wrong = raised.error
        return [self._rejected(spout, Tuple(record, *ids, 0, (), NOWHERE), row.position, wrong)]

    def _arrived_timer(self, row: EngineRow) -> Iterator[EngineRow]:
        due = due_of(row.record)
        pair = timer_pair(self._routing.plan.topology, self._known_as(due.component), due.key, due.name, due.due)
        group = self._routing.group(due.component, DUE, due.key, row.position, self._stage + 1)
        tup = Tuple(due, *pair, 0, (), NOWHERE)
        yield row_of(tup, DUE, 0, group, due.key, row.position, row.record)

    def _known_as(self, name: str) -> str:
        return self._routing.plan.components[name].known_as

    def _run(
        self, name: str, tup: Tuple[Any], key: bytes, position: bytes, held: LazyState | None
    ) -> Iterator[EngineRow]:
        """Process one input, and let the bolts of this stage process its outputs. Raises ComponentRaised."""
        waiting = deque([(name, tup, position)])
        while waiting:
            name, tup, position = waiting.popleft()
            staged: Staged = []
            try:
                records = self._records(name, tup, key, held)
                self._outboxes[name].stage_all(staged, records, tup)
            except Reject as error:
                yield self._rejected(name, tup, position, error)
                continue
            except USERS as error:
                call = "on_timer" if type(tup.record) is DueNow else "process"
                raise at_input(name, call, error, tup.record) from error
            if held is not None and self._timers is not None:
                yield self._of_timers(tup, key, position, self._timers)
            self.counts[name, "executed"] += type(tup.record) is not DueNow
            self.counts[name, "emitted"] += len(records)
            yield from self._on(staged, position, waiting)

    def _on(self, staged: Staged, position: bytes, waiting: Any) -> Iterator[EngineRow]:
        """Return deliveries as rows. Deliveries to bolts of this stage wait in `waiting`, or are processed at once."""
        for ordinal, (target, tup) in enumerate(staged):
            assert isinstance(target, TaskTarget)
            name, place = target.component, after(position, ordinal)
            if name in self._bolts:
                if waiting is None:
                    yield from self._run(name, tup, b"", place, None)
                else:
                    waiting.append((name, tup, place))
                continue
            number = self._routing.number(name, tup.source)
            try:
                key, content = self._routing.key(number, tup.record, target.task), encode(tup.record)
            except USERS as error:
                raise at_input(tup.source.component, "process", error, tup.record) from error
            group = self._routing.group(name, number, key, place, self._stage + 1)
            yield row_of(tup, number, target.task, group, key, place, content)

    # -- one call of a bolt

    _timers: KeyTimers | None = None  # timers of the key, if the last call changed them

    def _records(self, name: str, tup: Tuple[Any], key: bytes, held: LazyState | None) -> Any:
        """Return a bolt's outputs for an input, and keep its changed state. Keeps nothing if the bolt raises (D9)."""
        self._timers = None
        bolt, codec, record = self._bolts[name], self._codecs.get(name), tup.record
        if codec is None:
            return self._collected(bolt.process(record))
        assert held is not None, "a bolt with state is in a stage with state"
        state = StateValue(codec, key, held.content)
        if type(record) is DueNow:
            if not state.fired(record.name, record.due):  # the timer was moved or removed meanwhile
                if record.name in state.timers:  # the driver may have another time; the state is right
                    self._timers = KeyTimers(name, key, tuple(state.timers.items()), ())
                return ()
            fields = max(len(read.key_fields) for read in self._routing.subscriptions if read.subscriber == name)
            given = self._fired(bolt, values_of(key, fields), record, state)
        else:
            given = self._collected(bolt.process(record, state))
        if state.changed:
            held.content = state.content()
            if state.timers_changed:
                self._timers = KeyTimers(name, key, tuple(state.timers.items()), tuple(state.timers_gone))
        return given

    def _fired(self, bolt: Any, key: tuple[Any, ...], timer: DueNow, state: StateValue) -> Any:
        """Return the outputs of `on_timer`. The time that it sees is not before the timer's, although the batch may
        have begun earlier."""
        batch_us = self._clock.now_us
        if not timer.at_end:
            self._clock.now_us = max(batch_us, timer.due)
        if timer.due <= self._clock.now_us:
            self._after_us = timer.due + 1
        try:
            return self._collected(bolt.on_timer(key, timer.name, state))
        finally:
            self._clock.now_us, self._after_us = batch_us, 0

    def _collected(self, outputs: Any) -> Any:
        if outputs is None:
            return ()
        if type(outputs) is GeneratorType:
            return yielded(outputs)
        if waits(outputs):
            records, error = self._loop.run_until_complete(outcome(outputs))
            if error is not None:
                raise error
            return records
        return collected(outputs)

    def _of_timers(self, tup: Tuple[Any], key: bytes, position: bytes, timers: KeyTimers) -> EngineRow:
        group = self._routing.group("", TIMERS, b"", position, 0)
        return row_of(tup, TIMERS, 0, group, key, position, encode(timers))

    def _rejected(self, name: str, tup: Tuple[Any], position: bytes, error: KedgeError) -> EngineRow:
        rejected = Rejected(name, described(error), shown(tup.record, SHOWN_MAX))
        return row_of(
            tup, REJECTED, 0, self._routing.group("", REJECTED, b"", position, 0), b"", position, encode(rejected)
        )

    def _due(self, at: int, before: int | None) -> int:
        """Return when a timer that is set for `at` is due. A timer for a past time is due when the batch began. No two
        batches begin at the same time, so a timer that is set again is not mistaken for one that has fired."""
        now = self._clock.now_us
        if at > now:
            return at
        return before if before is not None and before <= now else max(now, self._after_us)

    def _awaited(self, result: Any) -> None:
        if result is not None and waits(result):
            self._loop.run_until_complete(result)


NOWHERE: Final = Source("", "")  # source of messages from a spout, which is never read
