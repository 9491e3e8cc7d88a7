"""Emission, the hot path's first half: from a record to the tuples that carry it, with identities, edges and targets.

One outbox a task. It knows groupings and the queues of the tasks that read it (here or, behind a link, elsewhere); it
must not know ledgers, replays or what a bolt is. Targets are all chosen before the first tuple leaves, so that an input
whose emission fails has sent nothing (A6).
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from xxhash import xxh3_64_intdigest

from acker.identity import MASK, copy_of, derive, edge, keyed_salt, salt
from topology.codes.tuples import DIRECT_EMIT_WITHOUT_TASK, TASK_WITHOUT_DIRECT_READER, UNDECLARED_RECORD_CLASS
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.dead_letters import DeadLetter, Malformed
from topology.errors import EmitError
from topology.groupings import Direct, Global, Grouping, LocalOrShuffle, Many, ManyTargets, One, OneTarget
from topology.plan import Plan, Subscription
from topology.records import Record
from topology.runtime.hot.hot_path import Plain, emit

Staged = list[tuple["TupleQueue", Tuple[Any]]]


class TupleQueue(Protocol):
    """Takes a task's tuples: its own deque, or the columns of a frame on their way to another worker."""

    def append(self, tup: Tuple[Any], /) -> None: ...
    def extend(self, tuples: list[Tuple[Any]], /) -> None: ...


class Route:
    """One subscription as one emitting task sees it."""

    def __init__(
        self, subscription: Subscription, queues: Sequence[TupleQueue], local: Sequence[int], random: Random
    ) -> None:
        tasks = len(queues)
        grouping = subscription.grouping
        self.subscriber = subscription.subscriber
        self.queues = queues
        self.direct = isinstance(grouping, Direct)
        self.one: One | None = grouping.one(tasks, local, random) if isinstance(grouping, OneTarget) else None
        self.many: Many | None = grouping.many(tasks) if isinstance(grouping, ManyTargets) else None
        emitter, stream = subscription.emitter, subscription.cls.__name__
        self.source = Source(emitter, stream, subscription.tag, subscription.key)
        fixed = 0 if tasks == 1 else _fixed(grouping, local)
        self.fixed = queues[fixed] if fixed >= 0 and self.one is not None else None

    def targets(self, record: Record, identity: int, task: int | None) -> Sequence[int]:
        """The tasks that this emission goes to here. Raises EmitError, or what a user's grouping raises."""
        if self.one is not None:
            return (self.one(record, identity),)
        if self.many is not None:
            return self.many(record)
        if task is None or not 0 <= task < len(self.queues):
            raise EmitError(
                f"{self.subscriber!r} reads by direct(): emit(record, task=n) with n from 0 to {len(self.queues) - 1}",
                code=DIRECT_EMIT_WITHOUT_TASK,
            )
        return (task,)


class StreamOutlet:
    """One stream of the emitting task: its salt and its routes. `topology_id` is in names that are no input's (C3)."""

    def __init__(self, cls: type[Record], known_as: str, routes: list[Route], topology_id: str = "") -> None:
        self.cls = cls
        self.salt = salt(known_as, cls.__name__)
        self.counted_salt = salt(f"{topology_id}\0{known_as}", f"\0count {cls.__name__}")
        self.routes = routes
        only = routes[0] if len(routes) == 1 and routes[0].one is not None and not routes[0].source.tag else None
        self.plain = _plain(self, only) if only is not None else None


def _plain(outlet: StreamOutlet, route: Route) -> Plain:
    """The commonest case, laid out flat: one stream, read once, each tuple by one task; `one` is None where that is
    always the same, whose queue then is the only one."""
    one = route.one if route.fixed is None else None
    queues = route.queues if route.fixed is None else [route.fixed]
    return Plain(outlet.cls, outlet.salt, outlet.counted_salt, route.source, one, queues)


class Outbox:
    """The outlets of one task. `emitted` counts emissions, replays' too; it only grows."""

    def __init__(self, component: str, outlets: list[StreamOutlet], known_as: str = "", topology_id: str = "") -> None:
        self.component = component
        self._emitted = 0
        self._key_salt = salt(f"{topology_id}\0{known_as or component}", "\0key")
        self._outlets = {outlet.cls: outlet for outlet in outlets}
        common = [outlet for outlet in outlets if outlet.routes or outlet.cls is not Malformed]
        only = common[0] if len(common) == 1 else None
        self._flat = self.plain = only.plain if only else None

    @property
    def emitted(self) -> int:
        """Emissions, replays' too; it only grows."""
        return self._emitted + (self._flat.emitted if self._flat is not None else 0)

    def count(self, emissions: int) -> None:
        """Count emissions that were staged, and sent."""
        self._emitted += emissions

    def emit(self, records: Sequence[Record], tup: Tuple[Any]) -> int:
        """Sends what one input caused, anchored to it. Returns the XOR of the edges that left.

        Raises EmitError, or what a custom grouping raises; then nothing has left.
        """
        plain = self.plain
        return emit(plain, records, tup, self.undeclared) if plain is not None else self._emit_several(records, tup)

    def _emit_several(self, records: Sequence[Record], tup: Tuple[Any]) -> int:
        staged: Staged = []
        value = self.stage_all(staged, records, tup)
        self.send(staged)
        self._emitted += len(records)
        return value

    def stage_all(self, staged: Staged, records: Sequence[Record], tup: Tuple[Any]) -> int:
        """As `stage`, for all that one input caused, anchored to it, with the identities that `emit` gives."""
        ordinals: dict[type, int] = {}
        value = 0
        for record in records:
            cls = type(record)
            k = ordinals.get(cls, 0)
            ordinals[cls] = k + 1
            identity = derive(tup.identity, self.outlet(record).salt + k)
            value ^= self.stage(staged, record, tup.origin, identity, tup.root, tup.others)
        return value

    def emit_counted(self, records: Sequence[Record], tup: Tuple[Any], key: bytes, first: int) -> int:
        """As `emit`, but with names that do not depend on the input: each is that of the key's n-th output. `first`:
        the n of the first of them."""
        plain = self.plain
        if plain is not None and len(records) == 1 and type(record := records[0]) is plain.cls:
            identity = xxh3_64_intdigest(key, plain.counted_salt + first & MASK) or 1
            queue = plain.queues[0] if plain.one is None else plain.queues[plain.one(record, identity)]
            origin = xxh3_64_intdigest(key, self._key_salt) or 1
            queue.append(Tuple(record, origin, identity, tup.root, tup.others, plain.source))
            self._emitted += 1
            return identity
        staged: Staged = []
        value = self.stage_counted(staged, records, tup, key, first)
        self.send(staged)
        self._emitted += len(records)
        return value

    def stage_counted(self, staged: Staged, records: Sequence[Record], tup: Tuple[Any], key: bytes, first: int) -> int:
        """As `stage_all`, with the names that `emit_counted` gives."""
        origin, value = xxh3_64_intdigest(key, self._key_salt) or 1, 0
        for count, record in enumerate(records, first):
            identity = xxh3_64_intdigest(key, self.outlet(record).counted_salt + count & MASK) or 1
            value ^= self.stage(staged, record, origin, identity, tup.root, tup.others)
        return value

    def stage(
        self,
        staged: Staged,
        record: Record,
        origin: int,
        identity: int,
        root: int,
        others: tuple[int, ...],
        task: int | None = None,
    ) -> int:
        """Adds one emission's deliveries to `staged`; returns the XOR of their edges. Sends nothing. `task` is for the
        readers by direct(): the others have the record by their own groupings. Raises EmitError where none reads so."""
        value = 0
        routes = self.outlet(record).routes
        if task is not None and routes and not any(route.direct for route in routes):
            raise self._undirected(record, routes)
        for route in routes:
            source = route.source
            for copy, target in enumerate(route.targets(record, identity, task if route.direct else None)):
                own = copy_of(identity, copy) if copy else identity
                value ^= edge(own, source.tag) if source.tag else own
                staged.append((route.queues[target], Tuple(record, origin, own, root, others, source)))
        return value

    def send(self, staged: Staged) -> None:
        """Lets staged deliveries leave."""
        for queue, tup in staged:
            queue.append(tup)

    def outlet(self, record: Record) -> StreamOutlet:
        """The stream of this record's class. Raises EmitError where the component has not declared it."""
        found = self._outlets.get(type(record))
        if found is None:
            raise self.undeclared(record)
        return found

    @property
    def classes(self) -> dict[str, type[Record]]:
        """The record classes that it takes, by name."""
        return {cls.__name__: cls for cls in self._outlets}

    def keyed(self, record: Record, key: Any) -> int:
        """The seed of an emission that is named by a key."""
        return keyed_salt(self.outlet(record).salt, key)

    def _undirected(self, record: Record, routes: list[Route]) -> EmitError:
        readers = ", ".join(dict.fromkeys(repr(route.subscriber) for route in routes))
        text = (
            f"{self.component!r} has named a task for a {type(record).__name__}, which {readers} "
            f"{'read' if ',' in readers else 'reads'} by another grouping than direct()"
        )
        return EmitError(text, code=TASK_WITHOUT_DIRECT_READER)

    def undeclared(self, record: object) -> EmitError:
        named = ", ".join(cls.__name__ for cls in self._outlets) or "nothing"
        text = f"{self.component!r} emitted {record!r:.200}; by its annotations it emits {named}"
        return EmitError(text, code=UNDECLARED_RECORD_CLASS)


def _fixed(grouping: Grouping, local: Sequence[int]) -> int:
    """Return the one task that all tuples of this emitter go to, or -1 if that depends on the tuple."""
    if isinstance(grouping, Global):
        return 0
    return local[0] if isinstance(grouping, LocalOrShuffle) and len(local) == 1 else -1


def outbox_of(
    plan: Plan,
    component: str,
    worker: int,
    queue: Callable[[str, int], TupleQueue],
    random: Random,
    kind: type[Outbox] = Outbox,
    topology_id: str = "",
) -> Outbox:
    """The outbox of one task of `component` on `worker`; `queue(component, task)` finds the targets' queues."""
    readers, known_as = plan.readers(component), plan.components[component].known_as
    routes = {
        cls: _routes(plan, [read for read in readers if read.cls is cls], worker, queue, random)
        for cls in plan.components[component].streams
    }
    outlets = [StreamOutlet(cls, known_as, of_stream, topology_id) for cls, of_stream in routes.items()]
    return kind(component, outlets, known_as, topology_id)


def dead_outbox_of(
    plan: Plan,
    spout: str,
    worker: int,
    queue: Callable[[str, int], TupleQueue],
    random: Random,
    kind: type[Outbox] = Outbox,
) -> Outbox:
    """The outbox of the dead letters of `spout` on `worker`."""
    routes = _routes(plan, plan.dead_readers(spout), worker, queue, random)
    return kind(spout, [StreamOutlet(DeadLetter, plan.components[spout].known_as, routes)])


def _routes(
    plan: Plan,
    subscriptions: Sequence[Subscription],
    worker: int,
    queue: Callable[[str, int], TupleQueue],
    random: Random,
) -> list[Route]:
    routes = []
    for subscription in subscriptions:
        name = subscription.subscriber
        tasks = range(plan.components[name].tasks)
        local = [task for task in tasks if plan.placement[name, task] == worker]
        routes.append(Route(subscription, [queue(name, task) for task in tasks], local, random))
    return routes
