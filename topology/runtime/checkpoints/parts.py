"""The parts of a worker that a checkpoint keeps, as the worker's checkpoints see them. No behaviour."""

from typing import Protocol

from acker.frontier import Frontier
from topology.storage.values import Changes


class NotedPart(Protocol):
    """A part whose changes go with the frontier: marks, dead letters, trials. Called on the loop. `gather` is called
    when the frontier is noted, and is followed by one of the other two before it is called again."""

    def gather(self, changes: Changes) -> None:
        """Add what has changed since the last checkpoint that was decided."""

    def kept(self) -> None:
        """Take note that the checkpoint with it is decided."""

    def not_kept(self) -> None:
        """Take note that the checkpoint was given up. The next `gather` adds it again."""


class GatheredPart(Protocol):
    """A part with state: it is gathered in one turn of the loop, and becomes bytes later."""

    @property
    def changed(self) -> bool:
        """True if something has changed since the last snapshot."""
        ...

    def gather(self) -> None:
        """Take the snapshot: what is done from now on is not in it. Called on the loop, and quick."""

    def pack(self, changes: Changes, frontier: Frontier) -> None:
        """Add what the snapshot has. Called in a thread. If a checkpoint is given up meanwhile, the thread may come to
        the next snapshot, with the frontier of the one before: then it is called again, and only that counts."""

    def kept(self) -> None:
        """Forget what the frontier of the snapshot has: it is decided. Called on the loop."""

    def not_kept(self) -> None:
        """Take note that the checkpoint was given up. The next `gather` has it again."""

    def go_back(self) -> None:
        """Be as in the last decided checkpoint."""
