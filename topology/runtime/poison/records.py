"""The stored rows about trials and suspects, and their changes: a part of the group commit (E7).

Must not know which messages are suspects, nor what is tried when.
"""

from collections.abc import Iterable

from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.poison.suspects import Key, key_of
from topology.storage.values import Changes, Trial


class TrialNotes:
    """A `NotedPart`. `rows` is what is stored now."""

    def __init__(self, checkpoints: WorkerCheckpoints) -> None:
        self.rows: dict[Key, Trial] = {}
        self._changed: dict[Key, Trial | None] = {}  # None: to be removed
        self._sent: dict[Key, Trial | None] = {}  # the changes in the commit in progress
        checkpoints.add(self)

    def load(self, trials: Iterable[Trial]) -> None:
        """Take over what an earlier life left."""
        self.rows = {key_of(trial): trial for trial in trials}

    @property
    def waiting(self) -> bool:
        """Return True if there is a change that is in no commit yet."""
        return bool(self._changed)

    def note(self, key: Key, trial: Trial | None) -> None:
        """Store this row with the next commit; None removes it."""
        if trial is not None or key in self.rows or self._sent.get(key) is not None:
            self._changed[key] = trial
        else:
            self._changed.pop(key, None)

    def gather(self, changes: Changes) -> None:
        self._sent, self._changed = self._changed, {}
        for key, trial in self._sent.items():
            if trial is not None:
                changes.trials.append(trial)
            elif key in self.rows:
                changes.acquitted.append(self.rows[key])

    def kept(self) -> None:
        for key, trial in self._sent.items():
            if trial is not None:
                self.rows[key] = trial
            else:
                self.rows.pop(key, None)
        self._sent = {}

    def not_kept(self) -> None:
        self._changed = {**self._sent, **self._changed}
        self._sent = {}
