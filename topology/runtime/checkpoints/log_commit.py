"""Group commit of a worker's log: outputs leave once the log has the records of their inputs (P8).

With `durability="process"` all that was done in one slice is written as one group, and its outputs leave at once. With
"disk" they leave after the next sync. What is done while one sync is under way is one group, which is written at its
end, and made durable by the next one (DeWitt et al., 1984). Must not know what a record means.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from topology.runtime.checkpoints.store_room import StoreRoom
from topology.runtime.checkpoints.store_threads import StoreThreads
from topology.storage.store import Store, StoreFull

AGAIN_FIRST_S: Final = 0.1  # before a full log is written again; doubled each time, up to AGAIN_LAST_S
AGAIN_LAST_S: Final = 5.0
GROUP_BYTES: Final = 16 << 20  # of the records of one group, about

logger = logging.getLogger("kedge")


class LoggedPart(Protocol):
    """A task whose outputs wait for the log."""

    def take_records(self) -> list[bytes]:
        """Return the records of what was done since the last call; it waits for `written` now."""
        ...

    def written(self, position: int) -> None:
        """Take note that all records that were taken end at this position or before; 0: there were none."""
        ...

    def release(self, position: int) -> None:
        """Let the outputs leave of all records before this position of the log."""
        ...


class LogCommit:
    """The log of one worker. Make it in a running loop. `synced`: outputs wait for a sync. `failed` is called with an
    error after which the worker can't go on."""

    def __init__(self, store: Store, threads: StoreThreads, room: StoreRoom, *, synced: bool) -> None:
        self.failed: Callable[[BaseException], None] = lambda error: None
        self._store, self._threads, self._room, self._synced = store, threads, room, synced
        self._loop = asyncio.get_running_loop()
        self._parts: list[LoggedPart] = []
        self._unwritten: list[bytes] = []  # taken, and not written for want of room
        self._position = 0  # behind the last record that was written
        self._is_asked = False
        self._is_full = False  # and is tried again
        self._syncing: asyncio.Future[int] | None = None
        self._again_s = AGAIN_FIRST_S
        self._closed = False
        self._error: BaseException | None = None  # after which nothing is written any more
        self._released = 0  # outputs of records before it have left

    def add(self, part: LoggedPart) -> None:
        self._parts.append(part)

    def soon(self) -> None:
        """Write at the end of this turn of the loop, unless `write` is called before."""
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_soon(self._due)

    def _due(self) -> None:
        if self._is_asked:
            self.worked()

    def worked(self, *, is_much: bool = False) -> None:
        """Take note of the end of a slice. Write all records now, or, unless that `is_much`, at the end of the sync
        that is under way: in either case the sync after that one is the first to have them."""
        self._is_asked = False
        if self._syncing is None or is_much:
            self.write()

    def write(self) -> None:
        """Write all records that there are, if there is room. Does not raise: an error of the store ends the worker."""
        self._is_asked = False
        if self._closed:
            return
        self._take()
        if not self._is_full:
            try:
                self._append()
            except StoreFull as error:
                self._is_full = True
                self._room.log_full(str(error))
                self._loop.call_later(self._again_s, self._try_again)
                self._again_s = min(2 * self._again_s, AGAIN_LAST_S)
            except BaseException as error:
                self._broke(error)
                return
        self._release(self._released if self._synced else self._position)
        if self._synced:
            self._sync()

    def mark(self, checkpoint: int) -> None:
        """Write all records that there are, and behind them the mark of a checkpoint: what is gathered now is before
        it. Raises StoreFull: then there is no mark; StoreBroken."""
        if self._error is not None:
            raise self._error
        if not self._closed:
            self._take()
            self._append()
        self._store.mark(checkpoint)

    def _broke(self, error: BaseException) -> None:
        """Write nothing any more, and let nothing leave: what is on the disk is unknown (P13)."""
        self._closed, self._error = True, error
        self.failed(error)

    def _take(self) -> None:
        for part in self._parts:
            self._unwritten += part.take_records()
        if not self._unwritten:
            for part in self._parts:
                part.written(0)

    def _append(self) -> None:
        if self._unwritten:
            for group in _groups(self._unwritten):
                self._position = self._store.append(group)
                del self._unwritten[: len(group)]
            for part in self._parts:
                part.written(self._position)

    def _try_again(self) -> None:
        if self._closed:
            return
        self._is_full = False
        self.write()
        if not self._is_full:
            self._again_s = AGAIN_FIRST_S
            self._room.log_has_room()

    def _sync(self) -> None:
        if self._syncing is None and self._position > self._released:
            self._syncing = self._threads.sync_soon(self._store.sync)
            self._syncing.add_done_callback(self._is_synced)

    def _is_synced(self, future: "asyncio.Future[int]") -> None:
        self._syncing = None
        if future.cancelled():
            return
        if (error := future.exception()) is not None:
            self._broke(error)
            return
        self._release(future.result())
        self.write()

    def _release(self, position: int) -> None:
        self._released = position
        for part in self._parts:
            part.release(position)

    async def close(self) -> None:
        """Wait for the sync under way; nothing leaves any more. What is not written is in the last checkpoint."""
        self._closed = True
        if self._syncing is not None:
            await asyncio.wait({self._syncing})


def _groups(records: Sequence[bytes]) -> list[list[bytes]]:
    """Return the records in groups that the log takes."""
    if sum(map(len, records)) <= GROUP_BYTES:
        return [list(records)]
    groups: list[list[bytes]] = [[]]
    size = 0
    for record in records:
        if groups[-1] and size + len(record) > GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(record)
        size += len(record)
    return groups
