"""Room in a worker's store, and the tasks that wait for it. Must not know what is written."""

import logging

from topology.codes.runtime import STATE_NOT_WRITABLE
from topology.runtime.waiting_room import WaitingRoom

logger = logging.getLogger("kedge")


class StoreRoom:
    """`why_full` says why the store can't be written now; empty if it can."""

    def __init__(self) -> None:
        self.why_full = ""
        self._reported = ""  # the reason that was logged last, and that is not over
        self._waiting = WaitingRoom()

    def full(self, why: str) -> None:
        """Take note that a commit has failed for lack of room.

        The second one in a row is logged: a store first makes what room it can itself, and on a disk with little room
        it does so again and again.
        """
        if self.why_full and why != self._reported:
            logger.warning("%s; nothing new is read until it can be written again (%s)", why, STATE_NOT_WRITABLE)
            self._reported = why
        self.why_full = why

    def has_room(self) -> None:
        """Take note that a commit has succeeded."""
        if self._reported:
            logger.warning("the state can be written again, and the sources are read again")
        self.why_full = self._reported = ""
        self._waiting.let_in()

    async def wait(self) -> None:
        """Return once the store can be written again; at once if it can."""
        if self.why_full:
            await self._waiting.future()
