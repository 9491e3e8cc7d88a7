"""A worker's clockwork: deadlines, time limits, touches, progress, reminders, all on the loop's clock.

Looks at the clock ten times a second. What is due is done by the worker's parts; this only says when.
"""

import asyncio
from typing import Any, Final, Protocol

from acker.ledger import STALL_S, Ledger
from acker.progress import Progress
from acker.roots import RootSource, message_of
from topology.components import Clock, Tuple
from topology.config import Config
from topology.plan import Plan
from topology.runtime.collecting import CollectingExecutor
from topology.runtime.executor import Executor
from topology.runtime.failures import Failure, Reason
from topology.runtime.linking import Peers
from topology.runtime.reporting import Reporter
from topology.runtime.spouting import Pending, Spouting

TURN_S: Final = 0.1  # between two looks at the clock
PROGRESS_S: Final = 0.2  # how often it is announced which messages are done, to those who remember them
REMIND_S: Final = 60.0  # how often repeated failures are told again


class Wound(Protocol):
    """What a clockwork drives: a worker, as far as it is seen from here."""

    clock: Clock
    config: Config
    plan: Plan
    ledger: Ledger[Pending]
    roots: RootSource
    executors: dict[tuple[str, int], Executor]
    spoutings: dict[tuple[str, int], Spouting]
    peers: Peers
    reporter: Reporter

    def reported(self, failure: Failure) -> None: ...
    def progressed(self, progress: Progress) -> None: ...


class Clockwork:
    """`run` goes on until it is cancelled."""

    def __init__(self, worker: Wound) -> None:
        self._worker = worker
        self._progress: Progress | None = None
        self._remembers = any(one.shape == "state" for one in worker.plan.components.values())

    async def run(self) -> None:
        worker, now = self._worker, self._worker.clock.monotonic
        touch_every_s = worker.config.tree_timeout_s / 3
        last = touched = announced = reminded = now()
        while True:
            await asyncio.sleep(TURN_S)
            this = now()
            self._turn(last, this)
            last = this
            if this - touched >= touch_every_s:
                touched = this
                for executor in worker.executors.values():
                    executor.touch_waiting()
                worker.peers.touch_waiting()
            if self._remembers and this - announced >= PROGRESS_S:
                announced = this
                self._announce_progress()
            if this - reminded >= REMIND_S:
                reminded = this
                worker.reporter.remind()

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
            waiting = [spouting for spouting in worker.spoutings.values() if spouting.pending]
            paused = bool(waiting) and all(spouting.paused_by is not None for spouting in waiting)
            if paused or worker.peers.silent(now):
                worker.ledger.shift(now - last)
        if silent := worker.ledger.advance(now):
            self._fail_silent(silent, now)
        worker.peers.check(now, stood_still)
        for executor in worker.executors.values():
            executor.check_time_limits(now)
            executor.tidy()

    def _fail_silent(self, trees: list[Pending], now: float) -> None:
        """Fails trees without progress.

        Over the hard cap, those of which a bolt holds a tuple fail at the bolt, which has forgotten it (A13). A tuple
        in a queue that moves, or that has come to its turn, is not stuck, however long the queue takes (A9): its tree
        is given its time anew.
        """
        worker, ledger = self._worker, self._worker.ledger
        over = {tree.root for tree in trees if ledger.over_the_cap(tree)}
        queued: set[int] = set()
        held: list[tuple[CollectingExecutor, Tuple[Any]]] = []
        for executor in worker.executors.values():
            waiting = _moving(executor, now - ledger.cap_s)
            if isinstance(executor, CollectingExecutor):
                held += ((executor, tup) for tup in executor.held() if not over.isdisjoint(tup.roots))
            else:
                waiting += executor.held()  # they wait for their key
            queued.update(root for tup in waiting for root in tup.roots)
        forgotten = over.intersection(root for _, tup in held for root in tup.roots) - queued
        for tree in trees:
            if tree.root in forgotten or (tree.root in queued and tree.root in over):
                ledger.begin(tree)  # open again, a forgotten one for its holder to fail it
                continue
            failure = Failure(Reason.TIMED_OUT, tree.spouting.component)
            worker.reported(failure)
            tree.spouting.failed_tree(tree, failure)
        for executor, tup in held:
            if not forgotten.isdisjoint(tup.roots):
                text = f"no other ack in its tree for {ledger.cap_s:g} s"
                executor.fail_input(tup, None, Reason.FORGOTTEN, text)

    def _announce_progress(self) -> None:
        """Tells those who remember inputs, here and elsewhere, which messages of this home are done."""
        worker = self._worker
        trees = [*worker.ledger.trees(), *(tree for one in worker.spoutings.values() for tree in one.later())]
        unfinished = {message_of(tree.root) for tree in trees}.union(*(tree.renamed for tree in trees if tree.renamed))
        progress = Progress(message_of(worker.roots.latest), frozenset(unfinished))
        if progress != self._progress:
            self._progress = progress
            worker.progressed(progress)
            worker.peers.tell_progress(progress)


def _moving(executor: Executor, since: float) -> list[Tuple[Any]]:
    """The inputs that are under way since that time or later, and those that wait, unless older ones have all places.

    Places are seldom held for so long: an input under way has a time limit of its own (F9).
    """
    moving = [tup for tup, begun in executor.under_way.values() if begun >= since]
    if moving or len(executor.under_way) < executor.concurrency:
        moving += executor.queue
    return moving
