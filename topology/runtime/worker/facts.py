"""Gathers the facts of a run at one moment, from the tasks of its workers: for the stall line, and for a forced end.

Looks through queues and trees; changes none. Must not know what is made of the facts.
"""

from collections.abc import Sequence

from topology.runtime.tasks.spout_task import SpoutTask
from topology.runtime.telemetry.stall import BoltFacts, RunFacts, SpoutFacts
from topology.runtime.worker.worker import Worker


def facts_of(now: float, workers: Sequence[Worker], root: int = 0) -> RunFacts:
    """The facts at this moment. Looks through all queues: for a run that stands still, or ends.

    `root`: the tree whose holders are looked for, where another worker is its home; 0: the oldest of these workers.
    """
    trees = [tree for worker in workers for tree in worker.ledger.trees()]
    oldest = min(trees, key=lambda tree: (tree.started_at, tree.root), default=None)
    named = root or (oldest.root if oldest is not None else 0)
    joins = {at: name for worker in workers for at, name in worker.subtrees.holding(named).items()}
    sought = {named, *joins} - {0}
    bolts: dict[str, BoltFacts] = {}
    oldest_in: dict[str, None] = {}
    for executor in (task for worker in workers for task in reversed([*worker.executors.values()])):
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
    spout_tasks = [task for worker in workers for task in worker.spout_tasks.values()]
    return RunFacts(
        0.0,
        [_spout_facts(task) for task in spout_tasks],
        list(bolts.values()),
        now - oldest.started_at if oldest is not None else 0.0,
        list(oldest_in),
        oldest.root if oldest is not None else 0,
    )


def _spout_facts(one: SpoutTask) -> SpoutFacts:
    pauses = one.pauses
    paused_by = pauses.queue.component if pauses.queue is not None else None
    held_by = pauses.reason or next(filter(None, (check() for check in pauses.checks)), "")  # it may be in a poll still
    held_by = held_by or getattr(one.spout, "away", "")  # what the source itself waits for
    return SpoutFacts(one.component, one.pending, one.waiting, 0.0, paused_by, one.ended, held_by)
