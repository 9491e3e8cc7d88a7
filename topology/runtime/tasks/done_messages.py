"""The messages of a spout task that are done and that no decided checkpoint has yet.

They are kept where the run may go back, and then they are emitted again; or where the source hears what is settled.
Must not know how a message is emitted.
"""

from collections.abc import Sequence
from typing import Any


class DoneMessages:
    """Those of one task, as trees. Where they are not `kept`, there are none."""

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._now: list[Any] = []  # since the last note
        self._noted: list[Any] = []

    def __len__(self) -> int:
        return len(self._now) + len(self._noted)

    @property
    def trees(self) -> Sequence[Any]:
        return self._noted + self._now

    def add(self, trees: Sequence[Any]) -> None:
        """Take note that these are done."""
        if self._kept:
            self._now += trees

    def noted(self) -> None:
        """A checkpoint is noted: what is done by now is in its frontier."""
        self._noted += self._now
        self._now = []

    def decided(self) -> list[Any]:
        """Return what was done when the checkpoint was noted: it is decided now, and they are no more here."""
        done, self._noted = self._noted, []
        return done

    def undone(self) -> list[Any]:
        """Return all that are not in the last decided frontier; they are no more here."""
        again, self._now, self._noted = self._noted + self._now, [], []
        return again
