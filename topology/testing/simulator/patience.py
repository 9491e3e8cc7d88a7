"""Peaceful runs in which a dead message dies last: its trees fail only once nothing else of them is in flight.

So it has all the effects that it can have on branches beside the one on which it dies, whatever comes first there. Must
not know what is compared.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from acker.identity import edge
from topology.core.tuples import Tuple
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.pending import MESSAGES, Pending
from topology.runtime.tasks.collector import CollectingExecutor
from topology.runtime.tasks.executor import Executor
from topology.runtime.worker.worker import Worker

LOOK_S: Final = 0.01  # seconds between two looks at what is left of a tree
STILL: Final = 0.5  # of the timeout, without an ack: what is left of the tree waits for what has failed
TRIES_MAX: Final = 30  # replays of one message for bad luck elsewhere

Name = tuple[str, Any]  # of a message: its spout, its id


class Patience:
    """Delays the failures of messages in all workers of one run. `died` has the messages, and where each died before.

    A failure anywhere else may be bad luck, and then hides what comes after it. So it spends no attempt, and the
    message is replayed until everything else of it goes well, at most TRIES_MAX times.
    """

    def __init__(self, died: Mapping[Name, str]) -> None:
        self._died = died
        self._failing: dict[int, int] = {}  # root → the XOR of the edges of the inputs that have failed
        # root → where its tree has failed: its home may hear of one place only
        self._failed_in: defaultdict[int, set[str]] = defaultdict(set)
        self._tries: Counter[Name] = Counter()

    def join(self, worker: Worker) -> None:
        """Delay the failures of one worker, which has not started yet."""
        for executor in worker.executors.values():
            executor.fail_input = partial(self._fails, executor, executor.fail_input)  # type: ignore[method-assign]
        worker.fail = partial(self._fail, worker, worker.fail)  # type: ignore[method-assign]

    def _fails(self, executor: Executor, fail_input: Callable[..., None], tup: Tuple[Any], *why: Any) -> None:
        opened = executor.opened.get(id(tup)) if isinstance(executor, CollectingExecutor) else None
        value = edge(tup.identity, tup.source.tag)
        values = opened.values if opened is not None else dict.fromkeys(tup.roots, value)
        for root, left in values.items():
            self._failing[root] = self._failing.get(root, 0) ^ left
            self._failed_in[root].add(executor.component)
        fail_input(tup, *why)

    def _fail(self, worker: Worker, fail: Callable[[int, Failure], None], root: int, failure: Failure) -> None:
        tree = next((tree for tree in worker.ledger.trees() if tree.root == root), None)
        if not isinstance(tree, MESSAGES) or failure.reason is Reason.CUT_OFF:
            return fail(root, failure)
        name = tree.owner.component, tree.message.id
        if name not in self._died:
            return fail(root, failure)
        self._failed_in[root].add(failure.component)
        dies = partial(self._dies, fail, root, tree, name, failure)
        return self._look(worker, root, tree, dies, tree.value, worker.clock.monotonic())

    def _look(
        self, worker: Worker, root: int, tree: Pending, dies: Callable[[], None], value: int, since: float
    ) -> None:
        """Let the tree fail if all that is left of it are inputs that have failed. Otherwise look again later."""
        now = worker.clock.monotonic()
        if root not in worker.ledger:
            return None
        if tree.value == self._failing.get(root):
            return dies()
        if tree.value != value:
            value, since = tree.value, now
        elif now - since > STILL * worker.ledger.timeout_s:
            return dies()
        asyncio.get_running_loop().call_later(LOOK_S, self._look, worker, root, tree, dies, value, since)
        return None

    def _dies(
        self, fail: Callable[[int, Failure], None], root: int, tree: Pending, name: Name, failure: Failure
    ) -> None:
        if self._failed_in[root] - {self._died[name]} and self._tries[name] < TRIES_MAX:
            self._tries[name] += 1
            tree.others = 0  # so that it is replayed at once
            failure = Failure(Reason.PEER_LOST, failure.component)
        fail(root, failure)
