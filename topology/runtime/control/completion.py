"""The end of a run: a bounded run ends by itself, any other by a drain. Works over all workers, wherever they run.

This is not in the worker, because a bolt may be flushed only when no worker can still send it an input. Two looks at
all workers show that nothing is in flight any more, if between the looks nothing has happened and no frame was on its
way: Mattern's four-counter method (1987).
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from topology.plan import Plan
from topology.runtime.pausable_wait import first_of
from topology.storage.dead_questions import DeadAnswer, DeadAsk

T = TypeVar("T")

LOOK_S: Final = 0.002  # seconds between two looks for quiet, at first; only at the end of a run
LOOK_MAX_S: Final = 0.05  # seconds between two looks after a while


class WorkerStatus(msgspec.Struct, frozen=True):
    """The status of one worker at one moment."""

    worker: int
    pending: int  # messages in flight, including those in back-off, and sub-trees
    later: int  # those of `pending` that wait for a replay, so that no ledger has them
    busy: list[str]  # components with inputs that are queued or in flight here
    held: bool  # True if a bolt holds a tuple that belongs to no tree, so that no deadline fails it
    waits: bool  # True if something waits to leave for another worker, or a link to one is missing
    activity: int  # grows with everything that happens here
    sent: dict[int, int]  # worker → frames sent to it
    received: dict[int, int]  # worker → frames from it that were read
    reading: list[str] = []  # spouts with tasks here that have not ended
    unflushed: list[str] = []  # bolts with tasks here that were not flushed, or had inputs since
    had_more: bool = False  # True if a bolt here had inputs since its last flush
    ended: int = 0  # trees of this home that have ended


Statuses = Sequence[WorkerStatus]


class Workers(Protocol):
    """All workers of a run, as its end sees them."""

    @property
    def plan(self) -> Plan: ...

    async def sources_ended(self) -> None:
        """Return once all spouts have ended, except those that end last."""

    async def probe(self) -> Statuses:
        """Return the status of all workers. Waits for workers that are away."""
        ...

    async def flush(self, component: str) -> None:
        """Tell this component's tasks that all inputs have ended; with "", all tasks that had inputs since their last
        flush."""

    async def dead(self, ask: DeadAsk) -> Sequence[DeadAnswer]:
        """Return what all workers answer about their dead letters."""
        ...

    def drain(self) -> None:
        """Stop all spouts, and replay at once what waits for a replay."""


async def settle(workers: Workers) -> None:
    """Wait until all sources have ended and every message is done. Flush each bolt once nothing can reach it.

    A bolt that gets inputs after its flush, by a replay, is flushed again.
    """
    await workers.sources_ended()
    ended = _ended(await workers.probe())
    components = workers.plan.components
    if any(
        getattr(component.prototype, "ends_last", False)
        for component in components.values()
        if component.kind == "spout"
    ):
        await _flush_in_stages(workers)
        return await _let_go(workers, ended)
    news = set().union(*(workers.plan.below(name, dead=True) for name in components))
    for name, declared in sorted(components.items(), key=lambda named: named[0] in news):
        if declared.kind == "bolt":  # readers of dead letters come last, because any bolt may send them one
            above = {name, *(at for at in components if name in news or name in workers.plan.below(at))}
            # The default binds this turn's components.
            await _until(workers, lambda one, above=above: not one.later and above.isdisjoint(one.busy))  # type: ignore[misc]
            await workers.flush(name)
    await _let_go(workers, ended)


async def _flush_in_stages(workers: Workers) -> None:
    """Flush each bolt once all spouts above it have ended. Return once all spouts have ended, including those that end
    last.

    Spouts that end last read what flushes of other bolts produce. So no order of the bolts can be determined in
    advance. A bolt is flushed again if its worker has died since its flush, because the flush may be half done.
    """
    above = {
        name: _above(workers.plan, name)
        for name, component in workers.plan.components.items()
        if component.kind == "bolt"
    }

    def ready(seen: Statuses) -> str | None:
        """Return the first bolt that must be flushed and that nothing can reach; "" if nothing is left to do."""
        unflushed = {name for status in seen for name in status.unflushed}
        under_way = {name for status in seen for name in (*status.busy, *status.reading)}
        if any(status.later for status in seen):
            return None
        if not unflushed and not under_way:
            return ""
        free = (name for name in above if name in unflushed and above[name].isdisjoint(unflushed | under_way))
        return next((name for name in free if name not in under_way), None)

    while name := await _agreed(workers, ready):
        await workers.flush(name)


def _above(plan: Plan, bolt: str) -> set[str]:
    """Return all components that may send this bolt an input. For dead letters, this includes all that a message may
    pass."""
    senders: set[str] = set()
    for name, component in plan.components.items():
        if bolt in plan.below(name):
            senders.add(name)
        if component.kind == "spout" and bolt in plan.below(name, dead=True):
            senders |= {name, *plan.below(name)}
    return senders - {bolt}


async def _let_go(workers: Workers, ended: int) -> None:
    """After the flushes, wait until every message is done, and flush again what replays bring. `ended`: the trees that
    had ended before the first flush. If none has ended since the last flush, no replay has brought anything: inputs
    that belong to no tree, as those from a `tick`, may come for ever."""
    waited_s, look_s = 0.0, LOOK_S
    while True:
        seen = await _until(workers, lambda status: not status.later and not status.busy and not status.reading)
        pending = any(status.pending for status in seen)
        before, ended = ended, _ended(seen)
        had_more = ended != before and any(status.had_more for status in seen)
        if not pending and not had_more and not any(status.held for status in seen):
            return
        await workers.flush("")
        await asyncio.sleep(look_s)
        waited_s += 0.0 if pending else look_s
        look_s = min(LOOK_MAX_S, look_s * 1.2)
        if waited_s > workers.plan.config.drain_timeout_s:
            return  # bolts hold tuples that belong to no tree, so that no deadline fails them


def _ended(seen: Statuses) -> int:
    return sum(status.ended for status in seen)


async def drain(workers: Workers) -> None:
    """Stop the spouts and wait until what is in flight is done. The caller limits the time."""
    workers.drain()
    await _until(workers, lambda at: not at.pending and not at.later and not at.busy and not at.held)


async def within(ends: Collection[asyncio.Future[Any]], timeout_s: float, patient: Callable[[], bool]) -> None:
    """Wait until one of these is done, or for that time, in which this process was not stopped. After that, wait
    without limit if `patient` returns True."""
    await first_of(ends, timeout_s)
    if patient():
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)


async def _until(workers: Workers, quiet: Callable[[WorkerStatus], bool]) -> Statuses:
    """Wait until all workers are quiet, nothing is in flight between them, and none has changed between two looks.

    For a single worker, one look is enough.
    """
    return await _agreed(workers, lambda seen: seen if all(map(quiet, seen)) else None)


async def _agreed(workers: Workers, found: Callable[[Statuses], T | None]) -> T:
    """Return what `found` finds in a look at all workers, under the conditions of `_until`. None means: nothing yet."""
    before: list[int] | None = None
    look_s = LOOK_S
    while True:
        seen = await workers.probe()
        activity = None
        if _links_idle(seen) and (result := found(seen)) is not None:
            activity = [worker.activity for worker in seen]
            if activity == before or len(seen) == 1:
                return result
        before = activity
        await asyncio.sleep(look_s)
        look_s = LOOK_S if activity is not None else min(LOOK_MAX_S, look_s * 1.2)


def _links_idle(seen: Statuses) -> bool:
    """Return True if every frame that was sent has been read, and none waits to be sent."""
    by_worker = {status.worker: status for status in seen}
    return not any(status.waits for status in seen) and all(
        by_worker[other].received.get(status.worker, 0) == count
        for status in seen
        for other, count in status.sent.items()
    )
