"""Notes in the state directory, from time to time, how far the workers' stores are. A file that is behind that at the
next start is an older copy (D12).

Must not know what is in the stores.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from topology.errors import StartError
from topology.storage.directory.state_dir import StateDir

EACH_S: Final = 5.0  # between two writes of the manifest: each is an fsync on the supervisor's loop


class Noting:
    """The commits of each worker's store. Without a state directory it does nothing."""

    def __init__(self, state: StateDir | None, stores: Mapping[int, Path]) -> None:
        self._state = state
        self._names = {worker: path.name for worker, path in stores.items()}
        self._seen: dict[str, int] = {}  # not yet noted
        self._noted_at = float("-inf")

    def seen(self, worker: int, commits: int) -> None:
        """So many commits were durable when the worker said so."""
        if commits and worker in self._names:
            self._seen[self._names[worker]] = commits

    def note(self, now: float) -> None:
        """Note it in the state directory, unless that was done a moment ago. If it can't be written, note it later."""
        if self._state is None or not self._seen or now - self._noted_at < EACH_S:
            return
        self._noted_at = now
        try:
            self._state.record(self._seen)
        except StartError:
            return  # a full disk: the workers say so, and what is noted is only a lower bound
        self._seen = {}
