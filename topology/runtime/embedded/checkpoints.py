"""Workers of this process, as the coordinator of checkpoints reaches them: by calls.

Must not know when a checkpoint is due, nor what a worker keeps.
"""

from functools import partial
from pathlib import Path
from typing import Any

from acker.frontier import Frontier
from topology.runtime.checkpoints.coordinator import Coordinator
from topology.storage.directory.checks import store_name


class LocalMember:
    """A `coordinator.Member`: one worker of this loop."""

    def __init__(self, worker: Any) -> None:
        self._of = worker
        self.worker: int = worker.worker

    def ask_note(self, checkpoint: int) -> None:
        checkpoints = self._of.checkpoints
        checkpoints.answers.noted(checkpoint, *checkpoints.note(checkpoint))

    def send_barrier(self, frontier: Frontier, *, alone: bool) -> None:
        self._of.checkpoints.gather(frontier, alone=alone)

    def send_decided(self, checkpoint: int) -> None:
        self._of.checkpoints.decided(checkpoint)

    def send_given_up(self, checkpoint: int) -> None:
        self._of.checkpoints.given_up(checkpoint)

    def send_copy(self, checkpoint: int, folder: Path) -> None:
        self._of.checkpoints.copy(checkpoint, folder / store_name(self.worker))


def attach(worker: Any, coordinator: Coordinator) -> None:
    """Have the answers of a worker reach the coordinator."""
    checkpoints = worker.checkpoints
    checkpoints.answers.noted = partial(coordinator.noted, worker.worker)
    checkpoints.answers.prepared = partial(coordinator.prepared, worker.worker)
    checkpoints.answers.unprepared = partial(coordinator.unprepared, worker.worker)
    checkpoints.answers.settled = partial(coordinator.settled, worker.worker)
    checkpoints.answers.copied = partial(coordinator.copied, worker.worker)
    checkpoints.answers.wanted = coordinator.wanted
