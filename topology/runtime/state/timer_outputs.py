"""Sends what the timers of one task have emitted: as a tree of this worker's ledger, again until that is processed.

It is forgotten once a decided frontier has its trees. Must not know when a timer is due, nor how state is kept.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from acker.ledger import Ledger, Tree
from acker.roots import RootSource, message_of
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.records import Record
from topology.runtime.current_task import TaskPlace, entered
from topology.runtime.failures import OWN, Failure, Reason
from topology.runtime.state.due_times import Due
from topology.runtime.state.known_input import KnownInput
from topology.runtime.state.known_inputs import each
from topology.runtime.state.lookups import Pair
from topology.runtime.state.timer_retries import Fired, TimerRetries
from topology.runtime.tasks.interfaces import TreeOwner
from topology.runtime.tasks.outbox import Outbox, Staged
from topology.user_frames import described


class TimerTree(Tree):
    """One attempt at what a timer has emitted."""

    pair: Pair
    owner: TreeOwner  # the TimerOutputs that began it
    started_at: float  # loop time
    renamed: tuple[int, ...] = ()  # as of messages; each attempt is a tree of its own


class TimerOutputs:
    """The outputs of one task's timers. Make it in a running loop.

    `records_of` returns what a timer has emitted. `wake` has the readers look at what was sent. `report` is called with
    each failure to emit.
    """

    def __init__(
        self,
        place: TaskPlace,
        outbox: Outbox,
        fired: Fired,
        retries: TimerRetries,
        *,
        ledger: Ledger[Any],
        roots: RootSource,
        report: Callable[[Failure], None],
        records_of: Callable[[KnownInput], Sequence[Record]],
        wake: Callable[[], None],
    ) -> None:
        self.component = place.component
        self.source = Source(place.component, "timer", 0, lambda record: record.key)
        self._place, self._outbox, self._fired, self._retries = place, outbox, fired, retries
        self._ledger, self._roots, self._report = ledger, roots, report
        self._records_of, self._wake = records_of, wake
        self._entries: dict[Pair, KnownInput] = {}
        self._waiting: dict[Pair, asyncio.TimerHandle] = {}  # those that will be sent again
        self._failing: dict[Pair, float] = {}  # the loop time of the first failure
        self._attempts: dict[Pair, int] = {}  # how many have failed
        self._own: dict[Pair, int] = {}  # how many of these have failed for what the timer has emitted
        self._loop = asyncio.get_running_loop()

    def send(self, pair: Pair, entry: KnownInput) -> None:
        """Begin a tree for what a timer has emitted, which is durable; again until it is done. Does nothing for what is
        being sent: the run may go back after this task was opened, and before it starts."""
        if pair in self._entries:
            return
        self._entries[pair] = entry
        # of attempts before the run went back: who has them knows them
        self._fired.trees[pair] = [*each(entry.messages)]
        self._fired.open += 1
        self._begin(pair)

    def _begin(self, pair: Pair) -> None:
        self._waiting.pop(pair, None)
        if self._retries.closed:
            return
        root = self._roots.next_root()
        tup: Tuple[Any] = Tuple(Due(b"", "", 0), *pair, root, (), self.source)
        staged: Staged = []
        try:
            with entered(self._place):
                value = self._stage(staged, self._entries[pair], tup)
        except BaseException as error:
            failure = Failure(Reason.EMIT, self.component, described(error), error)
            self._report(failure)
            self._failed(pair, failure)
            return
        self._fired.trees[pair].append(message_of(root))
        self._entries[pair].messages = (*self._fired.trees[pair],)
        if not value:  # no bolt reads it
            self._done(pair)
            return
        self._ledger.begin(TimerTree(root, value, pair, self, self._loop.time()))
        self._outbox.send(staged)
        self._wake()

    def _stage(self, staged: Staged, entry: KnownInput, tup: Tuple[Any]) -> int:
        records = self._records_of(entry)
        if entry.first < 0 or entry.key is None:
            return self._outbox.stage_all(staged, records, tup)
        return self._outbox.stage_counted(staged, records, tup, entry.key, entry.first)

    def completed(self, trees: Iterable[TimerTree]) -> None:
        """Take note that these trees have been processed completely."""
        for tree in trees:
            self._done(tree.pair)

    def failed_tree(self, tree: TimerTree, failure: Failure) -> None:
        """Begin the tree again after a while: only this task can replay it."""
        self._failed(tree.pair, failure)

    def _done(self, pair: Pair) -> None:
        self._fired.open -= 1
        self._forget(pair)

    def _forget(self, pair: Pair) -> None:
        del self._entries[pair]
        self._fired.trees.pop(pair, None)
        self._attempts.pop(pair, None)
        self._own.pop(pair, None)
        self._failing.pop(pair, None)

    def _failed(self, pair: Pair, failure: Failure) -> None:
        times = self._attempts[pair] = self._attempts.get(pair, 0) + 1
        own = self._own[pair] = self._own.get(pair, 0) + (failure.reason in OWN)
        now = self._loop.time()
        failing_s = now - self._failing.setdefault(pair, now)
        retries = self._retries
        if retries.is_spent(failure, own, times - own, failing_s, draining=retries.draining):
            self._fired.open -= 1
            del self._entries[pair]  # it stays known, and its trees stay unfinished: the next run sends it again
            retries.give_up("what a timer has emitted", times)
        elif not retries.closed:
            self._waiting[pair] = self._loop.call_later(retries.back_off_s(times), self._begin, pair)

    def send_all_now(self) -> None:
        """Send now what waits to be sent again."""
        for pair, handle in [*self._waiting.items()]:
            handle.cancel()
            self._begin(pair)

    def go_back(self) -> None:
        """Send nothing of all this again: the task goes back, and sends what it had then."""
        for handle in self._waiting.values():
            handle.cancel()
        self._waiting.clear()
        for pair in [*self._entries]:
            self._fired.open -= 1
            self._forget(pair)

    def close(self) -> None:
        """Send nothing again."""
        for handle in self._waiting.values():
            handle.cancel()
