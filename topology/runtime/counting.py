"""Reads the counters of a worker's tasks into a snapshot. Changes nothing."""

from collections.abc import Sequence

from topology.plan import Plan
from topology.runtime.executor import Executor
from topology.runtime.histogram import Histogram
from topology.runtime.metrics import BoltCounts, Snapshot, SpoutCounts
from topology.runtime.spouting import Spouting


def counted(plan: Plan, seconds: float, spoutings: Sequence[Spouting], executors: Sequence[Executor]) -> Snapshot:
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
    )


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
