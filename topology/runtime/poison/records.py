"""What the store has of trials and suspects, and what of that changes: a part of the keeper (E7).

Must not know who is suspected, nor what is tried when.
"""

from collections.abc import Iterable

from topology.runtime.commits.group_commit import GroupCommit
from topology.runtime.poison.suspects import Key, key_of
from topology.storage.values import Changes, Trial


class TrialNotes:
    """A `keeping.Part`. `rows` is what is kept now."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self.rows: dict[Key, Trial] = {}
        self._changed: dict[Key, Trial | None] = {}  # None: not kept any more
        self._sent: dict[Key, Trial | None] = {}  # what the commit under way has of that
        group_commit.add(self)

    def load(self, trials: Iterable[Trial]) -> None:
        """What an earlier life has left."""
        self.rows = {key_of(one): one for one in trials}

    @property
    def waiting(self) -> bool:
        """Whether something has changed that no commit has yet."""
        return bool(self._changed)

    def note(self, key: Key, trial: Trial | None) -> None:
        """From the next commit on this is kept of it; None: nothing."""
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
