"""How a run ends: a bounded one by itself, any other by a drain. Over all workers, wherever they run.

Here, and not in the worker, because a bolt may be flushed only once nothing can reach it, wherever it comes from. That
nothing is under way any more is seen by two looks at all workers, between which nothing has happened and no frame was
on its way: Mattern's four-counter method (1987).
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from topology.plan import Plan
from topology.runtime.pausable_wait import first_of
from topology.storage.dead_questions import DeadAnswer, DeadAsk

T = TypeVar("T")

LOOK_S: Final = 0.002  # between two looks at whether all is quiet, at first; only at the end of a run
LOOK_MAX_S: Final = 0.05  # and after a while


class WorkerStatus(msgspec.Struct, frozen=True):
    """One worker at one moment."""

    worker: int
    pending: int  # messages under way, back-off included, and sub-trees
    later: int  # those of them that wait for a replay, so that no ledger has them
    busy: list[str]  # components with inputs that are queued or under way here
    held: bool  # whether a bolt has kept a tuple that belongs to no tree, so that no deadline fails it
    waits: bool  # whether something waits to leave for another worker, or a link to one is not there
    activity: int  # grows with whatever happens here
    sent: dict[int, int]  # worker → frames sent to it
    received: dict[int, int]  # worker → frames of it that were read
    reading: list[str] = []  # spouts with tasks here that have not ended
    unflushed: list[str] = []  # bolts with tasks here that were not told that all inputs have ended, or had some since


Statuses = Sequence[WorkerStatus]


class Workers(Protocol):
    """All workers of a run, as its end sees them."""

    @property
    def plan(self) -> Plan: ...

    async def sources_ended(self) -> None:
        """Returns once all spouts have ended, but for those that end last."""

    async def probe(self) -> Statuses:
        """How all workers are. Waits for those that are away."""
        ...

    async def flush(self, component: str) -> None:
        """Tells this component's tasks that all inputs have ended; with "", those that had inputs since they were told
        last."""

    async def dead(self, ask: DeadAsk) -> Sequence[DeadAnswer]:
        """What all workers say of their dead letters."""
        ...

    def drain(self) -> None:
        """Stops all spouts; what waits for a replay is replayed now."""


async def settle(crew: Workers) -> None:
    """Waits until all sources have ended and every message is done; flushes each bolt once nothing can reach it.

    A bolt that was given inputs after its flush, by a replay, and holds them, is flushed again.
    """
    await crew.sources_ended()
    components = crew.plan.components
    if any(getattr(one.prototype, "ends_last", False) for one in components.values() if one.kind == "spout"):
        await _flush_in_stages(crew)
        return await _let_go(crew)
    news = set().union(*(crew.plan.below(name, dead=True) for name in components))
    for name, declared in sorted(components.items(), key=lambda one: one[0] in news):
        if declared.kind == "bolt":  # who reads dead letters comes last: any bolt may bring it one
            above = {name, *(at for at in components if name in news or name in crew.plan.below(at))}
            await _until(crew, lambda one, above=above: not one.later and above.isdisjoint(one.busy))  # type: ignore[misc]  # the default binds this turn's components
            await crew.flush(name)
    await _let_go(crew)


async def _flush_in_stages(crew: Workers) -> None:
    """Flushes each bolt once all spouts above it have ended, and returns once all spouts have, those that end last too:
    what these read comes of flushes of other bolts. So no order of the bolts can be told beforehand, and one whose
    worker has died since its flush, and that may have left it half done, is flushed again."""
    above = {name: _above(crew.plan, name) for name, one in crew.plan.components.items() if one.kind == "bolt"}

    def ready(seen: Statuses) -> str | None:
        """The first bolt that has to be flushed and that nothing can reach; "" where nothing is left to do."""
        unflushed = {name for one in seen for name in one.unflushed}
        under_way = {name for one in seen for name in (*one.busy, *one.reading)}
        if any(one.later for one in seen):
            return None
        if not unflushed and not under_way:
            return ""
        free = (name for name in above if name in unflushed and above[name].isdisjoint(unflushed | under_way))
        return next((name for name in free if name not in under_way), None)

    while name := await _agreed(crew, ready):
        await crew.flush(name)


def _above(plan: Plan, bolt: str) -> set[str]:
    """All components that may bring this bolt an input: by dead letters all that a message may have passed, too."""
    found: set[str] = set()
    for name, one in plan.components.items():
        if bolt in plan.below(name):
            found.add(name)
        if one.kind == "spout" and bolt in plan.below(name, dead=True):
            found |= {name, *plan.below(name)}
    return found - {bolt}


async def _let_go(crew: Workers) -> None:
    """After the flushes: waits until every message is done, and flushes again what has come by replays."""
    waited_s, look_s = 0.0, LOOK_S
    while True:
        seen = await _until(crew, lambda one: not one.later and not one.busy and not one.reading)
        pending = any(one.pending for one in seen)
        if not pending and not any(one.held for one in seen):
            return
        await crew.flush("")
        await asyncio.sleep(look_s)
        waited_s += 0.0 if pending else look_s
        look_s = min(LOOK_MAX_S, look_s * 1.2)
        if waited_s > crew.plan.config.drain_timeout_s:
            return  # bolts have kept tuples that belong to no tree, so that no deadline fails them


async def drain(crew: Workers) -> None:
    """Stops the spouts and waits until what is under way is done. The caller limits the time."""
    crew.drain()
    await _until(crew, lambda one: not one.pending and not one.later and not one.busy and not one.held)


async def within(ends: Collection[asyncio.Future[Any]], timeout_s: float, patient: Callable[[], bool]) -> None:
    """Waits until one of these is done, for that long at most, in which this process was not stopped; for ever where
    `patient` says so when that is over."""
    await first_of(ends, timeout_s)
    if patient():
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)


async def _until(crew: Workers, quiet: Callable[[WorkerStatus], bool]) -> Statuses:
    """Waits until all workers are quiet, nothing is under way between them, and neither has changed between two looks.

    Of one worker one look is enough.
    """
    return await _agreed(crew, lambda seen: seen if all(map(quiet, seen)) else None)


async def _agreed(crew: Workers, found: Callable[[Statuses], T | None]) -> T:
    """What is found by a look at all workers, as `_until`: None says that there is nothing yet."""
    before: list[int] | None = None
    look_s = LOOK_S
    while True:
        seen = await crew.probe()
        activity = None
        if _links_idle(seen) and (one := found(seen)) is not None:
            activity = [worker.activity for worker in seen]
            if activity == before or len(seen) == 1:
                return one
        before = activity
        await asyncio.sleep(look_s)
        look_s = LOOK_S if activity is not None else min(LOOK_MAX_S, look_s * 1.2)


def _links_idle(seen: Statuses) -> bool:
    """Whether every frame that was sent has been read, and none waits to be sent."""
    by_worker = {one.worker: one for one in seen}
    return not any(one.waits for one in seen) and all(
        by_worker[other].received.get(one.worker, 0) == count for one in seen for other, count in one.sent.items()
    )
