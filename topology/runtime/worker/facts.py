"""Gathers the facts of a run at one moment, from the tasks of its workers: for the stall line, and for a forced end.

Looks through queues and trees; changes none. Must not know what is made of the facts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from acker.ledger import Ledger
from topology.components import Tuple
from topology.runtime.tasks.executor import Executor
from topology.runtime.tasks.spout_task import SpoutTask
from topology.runtime.telemetry.stall import BoltFacts, RunFacts, SpoutFacts
from topology.runtime.worker.subtrees import SubTrees


class Tasks(Protocol):
    """What is looked at: the tasks of one worker, and the trees that are open there."""

    @property
    def executors(self) -> Mapping[Any, Executor]: ...
    @property
    def spout_tasks(self) -> Mapping[Any, SpoutTask]: ...
    @property
    def ledger(self) -> Ledger[Any]: ...
    @property
    def subtrees(self) -> SubTrees: ...
    @property
    def peers(self) -> "HeldLinks": ...


class HeldLinks(Protocol):
    """The links of a worker: tuples that wait because a peer is away, or takes no more."""

    def held_up(self) -> Sequence[Tuple[Any]]: ...


def facts_of(now: float, workers: Sequence[Tasks], root: int = 0) -> RunFacts:
    """The facts at this moment. Looks through all queues: for a run that stands still, or ends.

    `root`: the tree whose holders are looked for, where another worker is its home; 0: the oldest of these workers.
    """
    trees = [tree for worker in workers for tree in worker.ledger.trees()]
    oldest = min(trees, key=lambda tree: tree.begun, default=None)
    named = root or (oldest.root if oldest is not None else 0)
    joins = {at: name for worker in workers for at, name in worker.subtrees.holding(named).items()}
    sought = {named, *joins} - {0}
    bolts: dict[str, BoltFacts] = {}
    oldest_in: dict[str, None] = {}
    for executor in (one for worker in workers for one in reversed([*worker.executors.values()])):
        name = executor.component
        hand = {id(tup): tup for tup in (*executor.held(), *(tup for tup, _ in executor.under_way.values()))}
        so_far = bolts.get(name, BoltFacts(name))
        away = so_far.away or getattr(executor.bolt, "away", "")
        why_full = so_far.why_full or executor.why_full
        bolts[name] = BoltFacts(name, so_far.queued + len(executor.queue), so_far.in_hand + len(hand), away, why_full)
        if any(not sought.isdisjoint(tup.roots) for tup in (*hand.values(), *executor.queue)):
            oldest_in[name] = None
    held_up = (tup for worker in workers for tup in worker.peers.held_up())
    if any(not sought.isdisjoint(tup.roots) for tup in held_up):
        oldest_in["a link that is held up"] = None
    if not oldest_in:  # what a sub-tree's tuples are in, another worker may know
        oldest_in.update(dict.fromkeys(joins.values()))
    spout_tasks = [one for worker in workers for one in worker.spout_tasks.values()]
    return RunFacts(
        0.0,
        [_spout_facts(one) for one in spout_tasks],
        list(bolts.values()),
        now - oldest.begun if oldest is not None else 0.0,
        list(oldest_in),
        oldest.root if oldest is not None else 0,
    )


def _spout_facts(one: SpoutTask) -> SpoutFacts:
    paused_by = one.paused_by.component if one.paused_by is not None else None
    held_by = one.held_by or next(filter(None, (why() for why in one.holds)), "")  # it may be in a poll still
    held_by = held_by or getattr(one.spout, "away", "")  # what the source itself waits for
    return SpoutFacts(one.component, one.pending, one.waiting, 0.0, paused_by, one.ended, held_by)
