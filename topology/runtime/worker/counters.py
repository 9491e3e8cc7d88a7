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
        latencies.setdefault(spout_task.component, Histogram()).merge(spout_task.counters.latency)
    spouts = [name for name, declared in plan.components.items() if declared.kind == "spout"]
    bolts = [name for name, declared in plan.components.items() if declared.kind == "bolt"]
    return Snapshot(
        plan.topology,
        seconds,
        1,
        {name: _spout([task for task in spout_tasks if task.component == name]) for name in spouts},
        {name: _bolt([task for task in executors if task.component == name], now) for name in bolts},
        latencies,
        rare=_rare(spout_tasks, executors, ledger, peers),
        letters=dead_letters.kept,
        held_by={task.component: task.pauses.reason for task in spout_tasks if task.pauses.reason},
    )


def status(
    worker: int,
    spout_tasks: Sequence[SpoutTask],
    executors: Sequence[Executor],
    peers: Iterable[Peer],
    held: bool,
    subtrees: int,
    dead_letters: DeadLetters,
    ledger: Ledger[Any],
    flushed: Mapping[tuple[str, int], int],
) -> WorkerStatus:
    """One worker's status; `held`: whether a bolt keeps tuples that belong to no tree; `subtrees` are open; `flushed`:
    bolt task → its inputs when it was flushed last."""
    counters = [task.counters for task in spout_tasks]
    executed = sum(task.executed + task.outbox.emitted + task.failed for task in executors)
    return WorkerStatus(
        worker,
        sum(task.pending + task.unread for task in spout_tasks) + subtrees + dead_letters.pending,
        sum(task.waiting for task in spout_tasks) + dead_letters.later,
        sorted({task.component for task in executors if not task.quiet}),
        held,
        any(not peer.idle for peer in peers),
        executed
        + dead_letters.emitted
        + sum(count.emitted + count.replayed + count.acked + count.failed for count in counters),
        {peer.worker: peer.sent for peer in peers},
        {peer.worker: peer.receiving.read for peer in peers if peer.receiving is not None},
        sorted({task.component for task in spout_tasks if not task.ended}),
        sorted({task.component for task in executors if task.inputs > flushed.get((task.component, task.task), -1)}),
        any(task.inputs > flushed.get((task.component, task.task), 0) for task in executors),
        ledger.begun - len(ledger),
    )


def _rare(
    spout_tasks: Sequence[SpoutTask], executors: Sequence[Executor], ledger: Ledger[Any], peers: Peers
) -> dict[str, int]:
    ends = list(peers.by_worker.values())
    sessions = [peer.receiving for peer in ends if peer.receiving is not None]
    dropped = peers.dropped()
    counts = (
        ledger.unknown,
        ledger.stalls,
        sum(task.stale for task in executors if isinstance(task, SerialByKeyExecutor | CollectingExecutor)),
        sum(task.misused for task in executors if isinstance(task, CollectingExecutor)),
        sum(len(task.abandoned) for task in executors),
        sum(peer.repeated for peer in ends) + sum(peer.duplicates for peer in sessions),
        dropped.foreign + sum(peer.foreign for peer in ends) + sum(peer.foreign for peer in sessions),
        dropped.malformed,
        dropped.strangers,
        sum(task.counters.coalesced for task in spout_tasks),
        dropped.overlooked,
    )
    return dict(zip(RARE, counts, strict=True))


def _spout(tasks: list[SpoutTask]) -> SpoutCounts:
    rows = [
        (
            *(count.emitted, count.acked - count.reopened, count.failed, count.replayed, count.dead),
            *(task.pending, task.pauses.seconds),
        )
        for task in tasks
        for count in [task.counters]
    ]
    return SpoutCounts(*map(sum, zip(*rows, strict=True)))


def _bolt(tasks: list[Executor], now: float) -> BoltCounts:
    waits = [
        (task.kept, task.kept_s) if isinstance(task, CollectingExecutor) else (task.waited, task.waited_s)
        for task in tasks
    ]
    return BoltCounts(
        sum(task.inputs for task in tasks),
        sum(task.outbox.emitted for task in tasks),
        sum(task.failed for task in tasks),
        sum(len(task.queue) for task in tasks),
        sum(_held(task) for task in tasks),
        sum(task.busy_s for task in tasks),
        sum(waited for waited, _ in waits),
        sum(waited_s for _, waited_s in waits),
        sum(_taken_s(task, now) for task in tasks if task.waits),
        *map(sum, zip(*(task.kept_now for task in tasks), strict=True)),
    )


def _held(task: Executor) -> int:
    """Inputs in hand: a tuple that `execute` works on is among those that it holds."""
    if isinstance(task, CollectingExecutor):
        return task.in_hand
    return len(task.held()) + len(task.under_way)


def _taken_s(task: Executor, now: float) -> float:
    """Seconds in which all places of this task for inputs under way were taken, or twice as long half of them."""
    under_way = list(task.under_way.values())  # in one step: it may change meanwhile, in another thread
    return (task.waited_s + sum(now - started_at for _, started_at in under_way)) / task.concurrency
