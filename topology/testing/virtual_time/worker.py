"""The worker of the test kit: the real one, which also checks every record, remembers failures, and can repeat every
input.

Must not know scripts, captures or virtual time.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from acker.identity import MessageId
from topology.records import Record
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.message_tree import MessageTree
from topology.runtime.hot.pending import MESSAGES
from topology.runtime.state.state_executor import StateExecutor
from topology.runtime.state.state_value import StateValue
from topology.runtime.tasks.checked_outbox import CheckedOutbox
from topology.runtime.tasks.executor import Executor
from topology.runtime.tasks.spout_task import SpoutTask
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.worker.worker import Worker
from topology.testing.virtual_time.process import Crashed


@dataclass(frozen=True)
class Dead:
    """A message that ended dead: its spout, its id there, its record, and its last failure, after which it is not
    replayed.

        watch = Watch()
        run_topology(build(alerts), watch=watch)
        assert [message.id for message in watch.dead] == [7]
    """

    spout: str
    id: MessageId
    record: Record
    failure: Failure


@dataclass(frozen=True)
class Death:
    """A worker that has crashed: when, in seconds of the run, and where all unfinished messages were, in a sentence for
    people.

        assert [death.worker for death in watch.deaths] == [1]
    """

    worker: int
    at_s: float
    in_flight: str

    def __str__(self) -> str:
        return f"worker {self.worker} crashed at {self.at_s:.3f} s; {self.in_flight}"


@dataclass
class Watch:
    """Facts about a run in addition to its report, filled in while it runs: dead messages, all failures, deaths of
    workers, and at the end the state of bolts.

        watch = Watch()
        run_topology(build(alerts), watch=watch)
        assert not watch.failures and len(watch.state("count")) == 100
    """

    dead: list[Dead] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)  # those that live
    before: Callable[[Worker], None] = lambda worker: None  # called when everything is open and nothing has begun

    def executor(self, component: str, task: int = 0) -> Executor:
        """Return the executor of one bolt task."""
        return next(
            worker.executors[component, task] for worker in self.workers if (component, task) in worker.executors
        )

    def state(self, component: str) -> Mapping[bytes, Any]:
        """Return the state of a bolt's tasks, by the byte form of its key."""
        tasks = [task for worker in self.workers for task in worker.tasks_of(component)]
        return {key: value for task in tasks if isinstance(task, StateExecutor) for key, value in _values_of(task)}


def _values_of(task: StateExecutor) -> Iterator[tuple[bytes, Any]]:
    """Yield each key that has a value, and the value."""
    if task.codec is not None:
        for key in task.keys:
            if (value := StateValue(task.codec, key, task.keys.get(key)).get()) is not None:
                yield key, value


class WatchedReporter(Reporter):
    """Logs what the real reporter logs, and remembers it."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def failed(self, failure: Failure) -> None:
        if isinstance(failure.error, Crashed):
            return
        self._watch.failures.append(failure)
        super().failed(failure)

    def broke(self, failure: Failure) -> None:
        self._watch.failures.append(failure)
        super().broke(failure)


class WatchedWorker(Worker):
    """A worker for tests. `replay_all` replays each message once more after all of it was done, as if the last ack was
    lost.

    `seed` decides which tasks work in the turn of the task that feeds them, and which at a turn of their own, so that
    the loop shuffles them. With None, this is as in a real run.
    """

    outbox_kind = CheckedOutbox

    def __init__(
        self, *args: Any, watch: Watch, replay_all: bool = False, seed: int | None = None, **settings: Any
    ) -> None:
        settings["reporter"] = WatchedReporter(watch)
        super().__init__(*args, **settings)
        watch.workers.append(self)
        self._watch = watch
        self._replay_all = replay_all
        self._seed = seed
        self._repeated: dict[int, MessageTree] = {}  # messages that are in flight for the second time

    def start(self, *, killed: bool = False) -> None:
        if self._seed is not None:
            random = Random(self._seed)
            for executor in self.executors.values():
                executor.hand_on = random.random() < 0.5
        self._watch.before(self)
        super().start(killed=killed)

    def completed(self, trees: list[Any]) -> None:
        if self._replay_all:
            again = [tree for tree in trees if isinstance(tree, MESSAGES) and id(tree) not in self._repeated]
            trees = [
                tree
                for tree in trees
                if not isinstance(tree, MESSAGES) or self._repeated.pop(id(tree), None) is not None
            ]
            for tree in again:
                self._repeated[id(tree)] = tree
                tree.owner.failed_tree(tree, Failure(Reason.TIMED_OUT, tree.owner.component))
        if trees:
            super().completed(trees)

    def died(self, spout_task: SpoutTask, tree: MessageTree, failure: Failure, letter: str = "") -> None:
        self._watch.dead.append(Dead(spout_task.component, tree.message.id, tree.message.record, failure))
        super().died(spout_task, tree, failure, letter)
