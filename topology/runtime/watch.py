"""Never silent: where nothing has been acked for a while, one sentence says why.

`limit` is pure, facts in and a sentence out; `StallWatch` is fed each second, remembers when there was progress last,
and logs once per change. Reads queues and counters; changes none. Must not know the worker, commands or terminals.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from acker.ledger import Ledger
from topology.runtime.executor import Executor
from topology.runtime.spouting import Pending, Spouting

SILENT_S: Final = 5.0  # without an ack; then there is something to say
LOOK_S: Final = 1.0  # how often `StallWatch.look` is called

logger = logging.getLogger("kedge")


@dataclass(frozen=True)
class SpoutFacts:
    """A spout: messages under way, those of them that wait for a replay, and what keeps it from emitting."""

    name: str
    pending: int = 0
    waiting: int = 0
    idle_s: float = 0.0  # since its last message
    paused_by: str | None = None
    ended: bool = False


@dataclass(frozen=True)
class BoltFacts:
    """A bolt, all tasks: inputs in its queues, and inputs that it works on or holds."""

    name: str
    queued: int = 0
    in_hand: int = 0


@dataclass(frozen=True)
class Facts:
    """A run at one moment. `oldest_in`: the bolts that have a tuple of the message that is under way for longest."""

    silent_s: float  # since the last ack; untracked, since the last input that was executed
    spouts: Sequence[SpoutFacts]
    bolts: Sequence[BoltFacts]
    oldest_s: float = 0.0
    oldest_in: Sequence[str] = ()


@dataclass(frozen=True)
class Limit:
    """Why nothing is acked. `cause` stays the same while only the numbers in `text` change."""

    cause: tuple[str, ...]
    text: str
    stuck: bool = True  # False: there is simply nothing to do


def limit(facts: Facts) -> Limit | None:
    """What holds the run up; None while it is not silent."""
    if facts.silent_s < SILENT_S:
        return None
    pending = sum(one.pending for one in facts.spouts)
    paused = next((one for one in facts.spouts if one.paused_by is not None), None)
    if paused is not None:
        text = f"{paused.name!r} is paused by the queue of {paused.paused_by!r}; {held(facts)}"
        return Limit(("paused", str(paused.paused_by)), text)
    if pending and pending == sum(one.waiting for one in facts.spouts):
        text = (
            f"{_counted(pending, 'message waits', 'messages wait')} to be replayed after a failure; none is under way"
        )
        return Limit(("replays",), text)
    if pending:
        return Limit(("pending", *facts.oldest_in), held(facts))
    busy = [one for one in facts.bolts if one.queued or one.in_hand]
    if busy:
        return Limit(("untracked", *(one.name for one in busy)), held(facts))
    if all(one.ended for one in facts.spouts):
        return Limit(("ending",), "all sources have ended; waiting for the bolts to finish")
    idle = [one for one in facts.spouts if not one.ended]
    names = ", ".join(dict.fromkeys(repr(one.name) for one in idle))
    shortest = min(one.idle_s for one in idle)
    return Limit(("idle", names), f"source idle: no message from {names} for {shortest:.0f} s", stuck=False)


def held(facts: Facts) -> str:
    """Where everything that is under way is: for the stall line, and for a run that is ended by force."""
    pending = sum(one.pending for one in facts.spouts)
    parts = [f"{_counted(pending, 'message is', 'messages are')} pending"]
    if facts.oldest_in:
        names = " and ".join(repr(name) for name in facts.oldest_in)
        parts.append(f"{names} {'has' if len(facts.oldest_in) == 1 else 'have'} the oldest, for {facts.oldest_s:.0f} s")
    elif facts.oldest_s:
        parts.append(f"no bolt has the oldest any more, for {facts.oldest_s:.0f} s: it will time out and be replayed")
    places = [
        f"{one.name!r} has {one.queued:,} queued and {one.in_hand:,} in hand"
        for one in facts.bolts
        if one.queued or one.in_hand
    ]
    return "; ".join([*parts, *places])


class Tasks(Protocol):
    """What is looked at: the tasks of one worker, and the trees that are open there."""

    @property
    def executors(self) -> Mapping[Any, Executor]: ...
    @property
    def spoutings(self) -> Mapping[Any, Spouting]: ...
    @property
    def ledger(self) -> Ledger[Pending]: ...


class StallWatch:
    """Says what limits a run: `text`, empty while something is acked. Call `look` each LOOK_S, on the loop."""

    def __init__(self) -> None:
        self.text = ""
        self._done = -1
        self._done_at = 0.0
        self._looked_at = 0.0
        self._pending = 0
        self._emitted: dict[str, tuple[int, float]] = {}  # spout → messages so far, and when that was first seen
        self._cause: tuple[str, ...] | None = None
        self._stuck_since: float | None = None

    def look(self, now: float, workers: Sequence[Tasks]) -> None:
        """Takes note of progress and logs a change. Looks through queues only where nothing was acked for a while."""
        spoutings = [one for worker in workers for one in worker.spoutings.values()]
        executors = [one for worker in workers for one in worker.executors.values()]
        done = sum(one.acked + one.dead for one in spoutings)
        pending = sum(one.pending for one in spoutings)
        if not done and not pending:
            done = sum(one.executed for one in executors)  # nothing is tracked, or nothing came yet
        if done != self._done:
            self._done, self._done_at = done, now
        elif pending and not self._pending:
            self._done_at = self._looked_at  # while nothing was pending, there was nothing to ack
        self._pending, self._looked_at = pending, now
        for name in {one.component for one in spoutings}:
            emitted = sum(one.emitted for one in spoutings if one.component == name)
            if emitted != self._emitted.get(name, (-1, now))[0]:
                self._emitted[name] = (emitted, now)
        silent_s = now - self._done_at
        found = None
        if silent_s >= SILENT_S:
            idle_s = {name: now - since for name, (_, since) in self._emitted.items()}
            found = limit(facts_of(now, silent_s, workers, idle_s))
        self.text = found.text if found else ""
        self._log(found, now)

    def _log(self, found: Limit | None, now: float) -> None:
        if found is None:
            if self._stuck_since is not None:
                logger.info("messages are acked again, after %.0f s", now - self._stuck_since)
                self._stuck_since = self._cause = None
            return
        if found.cause != self._cause:
            self._cause = found.cause
            logger.log(logging.WARNING if found.stuck else logging.INFO, "%s", found.text)
        if found.stuck and self._stuck_since is None:
            self._stuck_since = self._done_at
        elif not found.stuck:
            self._stuck_since = None


def tell_opening(component: str) -> None:
    """Says that a component's `open` takes long, and that nothing runs before it is done."""
    logger.warning("worker starting: %r has been opening for %.0f s", component, SILENT_S)


def facts_of(now: float, silent_s: float, workers: Sequence[Tasks], idle_s: Mapping[str, float] | None = None) -> Facts:
    """The facts at this moment. Looks through all queues: for a run that stands still, or ends."""
    trees = [tree for worker in workers for tree in worker.ledger.trees()]
    oldest = min(trees, key=lambda tree: tree.begun, default=None)
    bolts: dict[str, BoltFacts] = {}
    oldest_in: dict[str, None] = {}
    for executor in (one for worker in workers for one in reversed([*worker.executors.values()])):
        name = executor.component
        hand = {id(tup): tup for tup in (*executor.held(), *(tup for tup, _ in executor.under_way.values()))}
        so_far = bolts.get(name, BoltFacts(name))
        bolts[name] = BoltFacts(name, so_far.queued + len(executor.queue), so_far.in_hand + len(hand))
        if oldest is not None and any(oldest.root in tup.roots for tup in (*hand.values(), *executor.queue)):
            oldest_in[name] = None
    spoutings = [one for worker in workers for one in worker.spoutings.values()]
    return Facts(
        silent_s,
        [_spout_facts(one, (idle_s or {}).get(one.component, 0.0)) for one in spoutings],
        list(bolts.values()),
        now - oldest.begun if oldest is not None else 0.0,
        list(oldest_in),
    )


def _spout_facts(one: Spouting, idle_s: float) -> SpoutFacts:
    paused_by = one.paused_by.component if one.paused_by is not None else None
    return SpoutFacts(one.component, one.pending, one.waiting, idle_s, paused_by, one.ended)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
