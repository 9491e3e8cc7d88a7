"""Reads the counters of a worker's parts into a snapshot. Changes nothing."""

from collections.abc import Iterable, Sequence
from typing import Any

from acker.ledger import Ledger
from topology.plan import Plan
from topology.runtime.collecting import CollectingExecutor
from topology.runtime.executor import Executor
from topology.runtime.histogram import Histogram
from topology.runtime.keyed import KeyedExecutor
from topology.runtime.metrics import RARE, BoltCounts, Snapshot, SpoutCounts
from topology.runtime.peers import Peer
from topology.runtime.spouting import Spouting


def counted(
    plan: Plan,
    seconds: float,
    spoutings: Sequence[Spouting],
    executors: Sequence[Executor],
    ledger: Ledger[Any],
    peers: Iterable[Peer],
) -> Snapshot:
    """One worker's snapshot; tasks of a component are added up."""
    latency = Histogram()
    for spouting in spoutings:
        latency.merge(spouting.latency)
    spouts = [name for name, declared in plan.components.items() if declared.kind == "spout"]
    bolts = [name for name, declared in plan.components.items() if declared.kind == "bolt"]
    return Snapshot(
        plan.topology,
        seconds,
        1,
        {name: _spout([one for one in spoutings if one.component == name]) for name in spouts},
        {name: _bolt([one for one in executors if one.component == name]) for name in bolts},
        latency,
        rare=_rare(executors, ledger, list(peers)),
    )


def _rare(executors: Sequence[Executor], ledger: Ledger[Any], peers: Sequence[Peer]) -> dict[str, int]:
    counts = (
        ledger.unknown,
        ledger.stalls,
        sum(one.stale for one in executors if isinstance(one, KeyedExecutor)),
        sum(one.misused for one in executors if isinstance(one, CollectingExecutor)),
        sum(len(one.abandoned) for one in executors),
        sum(one.repeated + one.session.duplicates for one in peers),
        sum(one.foreign + one.session.foreign for one in peers),
    )
    return dict(zip(RARE, counts, strict=True))


def _spout(tasks: list[Spouting]) -> SpoutCounts:
    rows = [(one.emitted, one.acked, one.failed, one.replayed, one.dead, one.pending) for one in tasks]
    return SpoutCounts(*map(sum, zip(*rows, strict=True)))


def _bolt(tasks: list[Executor]) -> BoltCounts:
    return BoltCounts(
        sum(one.executed for one in tasks),
        sum(one.outbox.emitted for one in tasks),
        sum(one.failed for one in tasks),
        sum(len(one.queue) for one in tasks),
        sum(len(one.held()) for one in tasks),
        sum(one.busy_s for one in tasks),
    )
