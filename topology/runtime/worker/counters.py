"""Reads the counters of a worker's parts: into a snapshot, for people, and into a status, for the run's end. Changes
nothing, and may be called from another thread."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acker.ledger import Ledger
from topology.plan import Plan
from topology.runtime.control.completion import WorkerStatus
from topology.runtime.dead_letters.dead_letters import DeadLetters
from topology.runtime.links.peer import Peer
from topology.runtime.links.peers import Peers
from topology.runtime.state.keyed_executor import SerialByKeyExecutor
from topology.runtime.tasks.collector import CollectingExecutor
from topology.runtime.tasks.executor import Executor
from topology.runtime.tasks.spout_task import SpoutTask
from topology.runtime.telemetry.histogram import Histogram
from topology.runtime.telemetry.metrics import RARE, BoltCounts, Snapshot, SpoutCounts


def counted(
    plan: Plan,
    now: float,
    seconds: float,
    spout_tasks: Sequence[SpoutTask],
    executors: Sequence[Executor],
    ledger: Ledger[Any],
    peers: Peers,
    dead_letters: DeadLetters,
) -> Snapshot:
    """One worker's snapshot `seconds` after it has begun, at `now` on the loop's clock; tasks of a component are added
    up."""
    latencies: dict[str, Histogram] = {}
    for spout_task in spout_tasks:
        latencies.setdefault(spout_task.component, Histogram()).merge(spout_task.latency)
    spouts = [name for name, declared in plan.components.items() if declared.kind == "spout"]
    bolts = [name for name, declared in plan.components.items() if declared.kind == "bolt"]
    return Snapshot(
        plan.topology,
        seconds,
        1,
        {name: _spout([one for one in spout_tasks if one.component == name]) for name in spouts},
        {name: _bolt([one for one in executors if one.component == name], now) for name in bolts},
        latencies,
        rare=_rare(spout_tasks, executors, ledger, peers),
        letters=dead_letters.kept,
        held_by={one.component: one.held_by for one in spout_tasks if one.held_by},
    )


def status(
    worker: int,
    spout_tasks: Sequence[SpoutTask],
    executors: Sequence[Executor],
    peers: Iterable[Peer],
    held: bool,
    subtrees: int,
    dead_letters: DeadLetters,
    flushed: Mapping[tuple[str, int], int],
) -> WorkerStatus:
    """One worker's status; `held`: whether a bolt keeps tuples that belong to no tree; `subtrees` are open; `flushed`:
    bolt task → its inputs when it was flushed last."""
    executed = sum(one.executed + one.outbox.emitted + one.failed for one in executors)
    return WorkerStatus(
        worker,
        sum(one.pending + one.unread for one in spout_tasks) + subtrees + dead_letters.pending,
        sum(one.waiting for one in spout_tasks) + dead_letters.later,
        sorted({one.component for one in executors if not one.quiet}),
        held,
        any(not peer.idle for peer in peers),
        executed
        + dead_letters.emitted
        + sum(one.emitted + one.replayed + one.acked + one.failed for one in spout_tasks),
        {peer.worker: peer.sent for peer in peers},
        {peer.worker: peer.receiving.read for peer in peers if peer.receiving is not None},
        sorted({one.component for one in spout_tasks if not one.ended}),
        sorted({one.component for one in executors if one.inputs > flushed.get((one.component, one.task), -1)}),
    )


def _rare(
    spout_tasks: Sequence[SpoutTask], executors: Sequence[Executor], ledger: Ledger[Any], peers: Peers
) -> dict[str, int]:
    ends = list(peers.by_worker.values())
    sessions = [one.receiving for one in ends if one.receiving is not None]
    dropped = peers.dropped()
    counts = (
        ledger.unknown,
        ledger.stalls,
        sum(one.stale for one in executors if isinstance(one, SerialByKeyExecutor | CollectingExecutor)),
        sum(one.misused for one in executors if isinstance(one, CollectingExecutor)),
        sum(len(one.abandoned) for one in executors),
        sum(one.repeated for one in ends) + sum(one.duplicates for one in sessions),
        dropped.foreign + sum(one.foreign for one in ends) + sum(one.foreign for one in sessions),
        dropped.malformed,
        dropped.strangers,
        sum(one.coalesced for one in spout_tasks),
        dropped.overlooked,
    )
    return dict(zip(RARE, counts, strict=True))


def _spout(tasks: list[SpoutTask]) -> SpoutCounts:
    rows = [(one.emitted, one.acked, one.failed, one.replayed, one.dead, one.pending, one.paused_s) for one in tasks]
    return SpoutCounts(*map(sum, zip(*rows, strict=True)))


def _bolt(tasks: list[Executor], now: float) -> BoltCounts:
    waits = [
        (one.kept, one.kept_s) if isinstance(one, CollectingExecutor) else (one.waited, one.waited_s) for one in tasks
    ]
    return BoltCounts(
        sum(one.inputs for one in tasks),
        sum(one.outbox.emitted for one in tasks),
        sum(one.failed for one in tasks),
        sum(len(one.queue) for one in tasks),
        sum(_held(one) for one in tasks),
        sum(one.busy_s for one in tasks),
        sum(waited for waited, _ in waits),
        sum(waited_s for _, waited_s in waits),
        sum(_taken_s(one, now) for one in tasks if one.waits),
        *map(sum, zip(*(one.kept_now for one in tasks), strict=True)),
    )


def _held(task: Executor) -> int:
    """Inputs in hand: a tuple that `execute` works on is among those that it holds."""
    if isinstance(task, CollectingExecutor):
        return task.in_hand
    return len(task.held()) + len(task.under_way)


def _taken_s(task: Executor, now: float) -> float:
    """Seconds in which all places of this task for inputs under way were taken, or twice as long half of them."""
    under_way = list(task.under_way.values())  # in one step: it may change meanwhile, in another thread
    return (task.waited_s + sum(now - begun for _, begun in under_way)) / task.concurrency
