"""A worker's housekeeping: deadlines, time limits, touches, reminders, all on the loop's clock.

Looks at the clock ten times a second. What is due is done by the worker's parts; this only says when.
"""

import asyncio
from typing import Any, Final

from acker.ledger import STALL_S
from topology.core.tuples import Tuple
from topology.runtime.asyncio_tools import to_next
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.pending import Pending
from topology.runtime.tasks.collector import CollectingExecutor
from topology.runtime.tasks.executor import Executor
from topology.runtime.worker.interfaces import HousekeepingHost
from topology.runtime.worker.subtrees import SubTree

TURN_S: Final = 0.1  # between two looks at the clock
REMIND_S: Final = 60.0  # between two reminders of repeated failures
LOG_LONG: Final = 256 << 20  # bytes of a log since the last checkpoint, above which one is taken sooner


class Housekeeping:
    """`run` goes on until it is cancelled. `began_at`: when the worker was made, in seconds of its clock."""

    def __init__(self, worker: HousekeepingHost) -> None:
        self.began_at = worker.clock.monotonic()
        self._worker = worker
        self._work = 0, 0, 0  # messages that have begun, those under way, and inputs: before the worker was idle

    async def run(self) -> None:
        worker, now = self._worker, self._worker.clock.monotonic
        loop = asyncio.get_running_loop()
        touch_every_s = worker.config.tree_timeout_s / 3
        last = touched = reminded = now()
        while True:
            await asyncio.sleep(to_next(loop.time(), TURN_S))
            this = now()
            self._turn(last, this)
            last = this
            if self._checkpoint_helps():
                worker.checkpoints.want()
            if this - touched >= touch_every_s:
                touched = this
                for executor in worker.executors.values():
                    executor.touch_waiting()
                    if _away(executor):
                        self._keep_waiting(executor)
                worker.subtrees.touch()
                worker.peers.touch_waiting()
            if this - reminded >= REMIND_S:
                reminded = this
                worker.reporter.remind()

    def _checkpoint_helps(self) -> bool:
        """Return True if something is held up, or grows, until the next checkpoint is decided, or if a worker that was
        idle has had work."""
        worker = self._worker
        if any(executor.why_full for executor in worker.executors.values()):
            return True
        if any(spout_task.waits_for_decision for spout_task in worker.spout_tasks.values()):
            return True
        if self._works_again():
            return True
        store = worker.checkpoints.store
        return store is not None and store.log_bytes > LOG_LONG

    def _works_again(self) -> bool:
        """Return True if the run was idle, so that checkpoints are seldom, and something has begun or ended here."""
        worker, checkpoints = self._worker, self._worker.checkpoints
        executed = sum([executor.executed for executor in worker.executors.values()])
        work = worker.ledger.begun, len(worker.ledger), executed
        again = checkpoints.is_quiet and work != self._work
        if again and checkpoints.time() - checkpoints.noted_at < worker.config.checkpoint_s:
            return False  # the next look says it again
        self._work = work
        return again

    def _keep_waiting(self, executor: Executor) -> None:
        """Renew the time, cap and all, of the inputs that a bolt holds while it waits (F43)."""
        ledger = self._worker.ledger
        for root in {root for tup in _all_of(executor) for root in tup.roots}:
            if root in ledger:
                ledger.renew(root)
            else:
                self._worker.queued(root)

    def _turn(self, last: float, now: float) -> None:
        """Deadlines and limits. Time in which the loop stood still counts for neither (A10).

        Deadlines stop while spouts are paused (A9): all of those that wait for their trees, as they share a ledger;
        and while a peer's loop stands still, in whose queues tuples may be.
        """
        worker = self._worker
        stood_still = now - last - TURN_S
        if stood_still > STALL_S:
            for executor in worker.executors.values():
                executor.shift(stood_still)
        else:
            stood_still = 0.0
            waiting = [spout_task for spout_task in worker.spout_tasks.values() if spout_task.pending]
            paused = bool(waiting) and all(spout_task.pauses.queue is not None for spout_task in waiting)
            if paused or worker.peers.silent(now):
                worker.ledger.shift(now - last)
        if silent := worker.ledger.advance(now):
            self._fail_silent(silent, now)
        worker.peers.check(now, stood_still)
        for executor in worker.executors.values():
            if _away(executor):
                executor.shift(now - last - stood_still)
            executor.check_time_limits(now)
            executor.tidy()
            if (error := getattr(executor.bolt, "broken", None)) is not None and worker.broken is None:
                worker.broke(error, executor.component)

    def _fail_silent(self, trees: list[Pending | SubTree], now: float) -> None:
        """Fails trees without progress.

        Over the hard cap, those of which a bolt holds a tuple fail at the bolt, which has forgotten it (A13). A tuple
        in a queue that moves, or that has come to its turn, is not stuck, however long the queue takes (A9), nor is one
        whose bolt waits for what is away (F43): its tree's time is renewed.
        """
        worker, ledger = self._worker, self._worker.ledger
        over = {tree.root for tree in trees if ledger.over_the_cap(tree)}
        queued: set[int] = set()
        held: list[tuple[CollectingExecutor, Tuple[Any]]] = []
        for executor in worker.executors.values():
            waiting = _moving(executor, now - ledger.cap_s)
            if _away(executor):
                waiting = _all_of(executor)
            elif isinstance(executor, CollectingExecutor):
                held += ((executor, tup) for tup in executor.held() if not over.isdisjoint(tup.roots))
            else:
                waiting += executor.held()  # they wait for their key
            queued.update(root for tup in waiting for root in tup.roots)
        forgotten = over.intersection(root for _, tup in held for root in tup.roots) - queued
        for tree in trees:
            if tree.root in forgotten or (tree.root in queued and tree.root in over):
                ledger.begin(tree)  # open again, a forgotten one for its holder to fail it
                continue
            failure = Failure(Reason.TIMED_OUT, tree.owner.component)
            worker.reported(failure)
            tree.owner.failed_tree(tree, failure)
        for executor, tup in held:
            if not forgotten.isdisjoint(tup.roots):
                text = f"no other ack in its tree for {ledger.cap_s:g} s"
                executor.fail_input(tup, None, Reason.FORGOTTEN, text)


def _away(executor: Executor) -> str:
    return getattr(executor.bolt, "away", "")


def _all_of(executor: Executor) -> list[Tuple[Any]]:
    """Its inputs: those that wait, are under way, or are held."""
    return [*executor.queue, *(tup for tup, _ in executor.under_way.values()), *executor.held()]


def _moving(executor: Executor, since: float) -> list[Tuple[Any]]:
    """The inputs that are under way since that time or later, and those that wait, unless older ones have all places.

    Places are seldom held for so long: an input under way has a time limit of its own (F9).
    """
    moving = [tup for tup, started_at in executor.under_way.values() if started_at >= since]
    if moving or len(executor.under_way) < executor.concurrency:
        moving += executor.queue
    return moving
