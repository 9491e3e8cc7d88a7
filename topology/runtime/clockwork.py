"""A worker's clockwork: deadlines, time limits, touches, progress, reminders, all on the loop's clock.

Looks at the clock ten times a second. What is due is done by the worker's parts; this only says when.
"""

import asyncio
from typing import Final, Protocol

from acker.ledger import STALL_S, Ledger
from acker.progress import Progress
from acker.roots import RootSource, message_of
from topology.components import Clock
from topology.config import Config
from topology.plan import Plan
from topology.runtime.executor import Executor
from topology.runtime.failures import Failure, Reason
from topology.runtime.peers import Peers
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
            if self._remembers and this - announced >= PROGRESS_S:
                announced = this
                self._announce_progress()
            if this - reminded >= REMIND_S:
                reminded = this
                worker.reporter.remind()

    def _turn(self, last: float, now: float) -> None:
        """Deadlines and limits. Time in which the loop stood still, or a queue paused a spout, counts for neither."""
        worker = self._worker
        if (stood_still := now - last - TURN_S) > STALL_S:
            for executor in worker.executors.values():
                executor.shift(stood_still)
        elif any(spouting.paused_by is not None for spouting in worker.spoutings.values()):
            worker.ledger.shift(now - last)
        self._fail_silent(worker.ledger.advance(now))
        worker.peers.check(now)
        for executor in worker.executors.values():
            executor.check_time_limits(now)
            executor.tidy()

    def _fail_silent(self, trees: list[Pending]) -> None:
        """Fails trees without progress, naming who holds a tuple of theirs and has forgotten it (A13)."""
        holders = {}
        if trees:
            held = [(one.component, tup) for one in self._worker.executors.values() for tup in one.held()]
            holders = {root: component for component, tup in held for root in tup.roots}
        for tree in trees:
            holder = holders.get(tree.root)
            failure = Failure(Reason.TIMED_OUT, tree.spouting.component)
            if holder is not None:
                failure = Failure(Reason.TIMED_OUT, holder, "it holds the tuple")
            self._worker.reported(failure)
            tree.spouting.failed_tree(tree, failure)

    def _announce_progress(self) -> None:
        """Tells those who remember inputs, here and elsewhere, which messages of this home are done."""
        worker = self._worker
        trees = [*worker.ledger.trees(), *(tree for one in worker.spoutings.values() for tree in one.later())]
        unfinished = {message_of(tree.root) for tree in trees}.union(*(tree.renamed for tree in trees if tree.renamed))
        progress = Progress(message_of(worker.roots.latest), frozenset(unfinished))
        if progress != self._progress:
            self._progress = progress
            worker.progressed(progress)
            for peer in worker.peers.by_worker.values():
                peer.tell_progress(progress)
