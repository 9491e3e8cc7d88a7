"""The worker, as far as the parts need it that the worker itself imports. No behaviour."""

from typing import Protocol

from acker.ledger import Ledger
from topology.components import Clock
from topology.config import Config
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.failures import Failure
from topology.runtime.hot.pending import Pending
from topology.runtime.links.peers import Peers
from topology.runtime.tasks.executor import Executor
from topology.runtime.tasks.spout_task import SpoutTask
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.worker.subtrees import SubTree, SubTrees


class HousekeepingHost(Protocol):
    """A worker, as far as its housekeeping needs it."""

    checkpoints: WorkerCheckpoints
    clock: Clock
    ledger: Ledger[Pending | SubTree]
    executors: dict[tuple[str, int], Executor]
    spout_tasks: dict[tuple[str, int], SpoutTask]
    peers: Peers
    subtrees: SubTrees
    reporter: Reporter

    @property
    def owner(self) -> int: ...
    @property
    def config(self) -> Config: ...
    @property
    def broken(self) -> BaseException | None: ...
    def queued(self, root: int) -> None: ...
    def broke(self, error: BaseException, where: str) -> None: ...
    def reported(self, failure: Failure) -> None: ...
