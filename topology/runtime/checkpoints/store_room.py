"""Room for a worker's log and for its checkpoints, and the tasks that wait for it. Must not know what is written."""

import logging

from topology.codes.runtime import STATE_NOT_WRITABLE
from topology.runtime.waiting_room import WaitingRoom

logger = logging.getLogger("kedge")


class StoreRoom:
    """There is room if both the log and the checkpoints can be written: a log may have room of its own, for a while, on
    a disk that is full."""

    def __init__(self) -> None:
        self._log = self._checkpoint = ""  # why it can't be written; empty if it can
        self._reported = False
        self._waiting = WaitingRoom()

    @property
    def why_full(self) -> str:
        """Return why something can't be written now; an empty string if all can."""
        return self._log or self._checkpoint

    def log_full(self, why: str) -> None:
        """Take note that the log could not be written for lack of room."""
        self._report(why)
        self._log = why

    def checkpoint_full(self, why: str) -> None:
        """Take note that a checkpoint could not be written for lack of room."""
        self._report(why)
        self._checkpoint = why

    def _report(self, why: str) -> None:
        """Log the second failure in a row: a store first makes what room it can itself, and on a disk with little room
        it does so again and again."""
        if self.why_full and not self._reported:
            logger.warning("%s; nothing new is read until it can be written again (%s)", why, STATE_NOT_WRITABLE)
            self._reported = True

    def log_has_room(self) -> None:
        """Take note that the log was written."""
        self._log = ""
        self._let_in()

    def all_has_room(self) -> None:
        """Take note that a checkpoint was written, and before it its mark in the log."""
        self._log = self._checkpoint = ""
        self._let_in()

    def _let_in(self) -> None:
        if self.why_full:
            return
        if self._reported:
            logger.warning("the state can be written again, and the sources are read again")
            self._reported = False
        self._waiting.let_in()

    async def wait(self) -> None:
        """Return once all can be written again; at once if it can."""
        if self.why_full:
            await self._waiting.future()
