"""Savepoints of a run that goes on: a checkpoint is taken, and before the next one begins each worker copies its store.

The run keeps older ones itself, if `keep_checkpoints` asks for them. File operations are in threads. Must not know how
workers are reached, nor sockets.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from topology.codes.savepoints import SAVEPOINT_FAILED
from topology.errors import KedgeError
from topology.runtime.checkpoints.coordinator import GivenUp
from topology.storage.directory import savepoints
from topology.storage.directory.checks import store_name
from topology.storage.directory.savepoints import RUN, Savepoint
from topology.storage.directory.state_dir import StateDir
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken, StoreFull

EACH_S: Final = 60.0  # between two checkpoints that a run keeps itself
ENDING: Final = "the run is ending"
SHARE: Final = 20  # and at least so many times as long as the last one took

logger = logging.getLogger("kedge")

Copies = Callable[[Path], Awaitable[Mapping[int, int]]]
P = ParamSpec("P")
T = TypeVar("T")


class RunSavepoints:
    """The savepoints of one run. Make it in a running loop, while the run has the directory locked.

    workers  Those that have a store open. Other stores of the directory are copied here.
    copies   Has all workers copy their stores into a folder; returns the commits in each copy. Raises GivenUp.
    decided  Returns the number of the last decided checkpoint.
    """

    def __init__(
        self,
        state: StateDir,
        workers: Collection[int],
        copies: Copies,
        *,
        decided: Callable[[], int],
        utc: Callable[[], datetime],
    ) -> None:
        self._state, self._copies, self._decided, self._utc = state, copies, decided, utc
        self._in_use = {store_name(worker) for worker in workers}
        self._one_at_a_time = asyncio.Lock()
        self._work: set[asyncio.Task[Any]] = set()
        self._over = False

    async def keep(self, name: str = "", prefix: str = "") -> Savepoint:
        """Keep a decided checkpoint under this name; without one, `prefix` and the time are its name. All or nothing: a
        death, a full disk or the end of the run gives it up. It goes on if the caller is cancelled. Raises StartError,
        ConfigurationError."""
        if name:
            savepoints.checked_name(name)
        if self._over:
            raise savepoints.failed(name, ENDING)
        return await self._to_its_end(self._keep(name, prefix), name)

    async def _to_its_end(self, doing: Coroutine[Any, Any, T], name: str) -> T:
        """Do this, also if the caller is cancelled, unless the run ends."""
        work = asyncio.create_task(doing, name="savepoint")
        self._work.add(work)
        work.add_done_callback(self._work.discard)
        await asyncio.wait({work})
        if work.cancelled():
            raise savepoints.failed(name, ENDING)
        return work.result()

    async def close(self) -> None:
        """Keep no more, and give up those under way: the run ends."""
        self._over = True
        work = [*self._work]
        for each in work:
            each.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    async def _keep(self, name: str, prefix: str) -> Savepoint:
        async with self._one_at_a_time:
            state = self._state
            name = name or savepoints.free_name(state.files, state.path, self._utc(), prefix)
            state.refuse_components_files()
            folder = await _in_thread(savepoints.begun, state.files, state.path, name)
            try:
                commits = {store_name(worker): count for worker, count in (await self._copies(folder)).items()}
                commits |= await _in_thread(self._others, folder)
                manifest = state.saved(commits, at=self._utc().timestamp(), clean=False)
                last = asyncio.ensure_future(asyncio.to_thread(savepoints.complete, state.files, folder, manifest))
                with suppress(asyncio.CancelledError):  # too late: it is complete, or has failed by itself
                    await asyncio.wait({last})
                await asyncio.wait({last})
                last.result()
            except (GivenUp, StoreFull, StoreBroken) as error:
                raise savepoints.failed(name, str(error)) from error
            except OSError as error:
                why = f"{folder} can't be written: {error.strerror or error}"
                raise savepoints.failed(name, why) from error
            finally:
                await _in_thread(savepoints.given_up, state.files, folder)  # unless it is complete
            return await _in_thread(savepoints.found, state.files, folder)

    def _others(self, folder: Path) -> dict[str, int]:
        """Copy the stores that no worker has open: they have dead letters of workers that there were."""
        commits = {}
        for name in self._state.known_files.keys() - self._in_use:
            with closing(SqliteStore(self._state.files, self._state.path / name, checked=True)) as store:
                commits[name] = store.copy_to(folder / name)
        return commits

    async def keep_older(self, count: int) -> None:
        """Keep a checkpoint under a name of its own from time to time, and of those the newest `count`, until
        cancelled, or the run ends. A failure is logged, and the next one is tried in time."""
        loop = asyncio.get_running_loop()
        kept, wait_s = self._decided(), EACH_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = EACH_S
            if (decided := self._decided()) == kept:
                continue
            begun_at = loop.time()
            try:
                await self.keep(prefix=RUN)
                await self._to_its_end(self._thin_out(count), RUN)
                kept = decided
            except (KedgeError, OSError) as error:
                if self._over:
                    return
                logger.warning("%s; the run goes on (%s)", error, SAVEPOINT_FAILED)
            wait_s = max(EACH_S, SHARE * (loop.time() - begun_at))

    async def _thin_out(self, count: int) -> None:
        """Delete the oldest of those that the run has kept itself."""
        async with self._one_at_a_time:
            await _in_thread(self._delete_oldest, count)

    def _delete_oldest(self, count: int) -> None:
        files, directory = self._state.files, self._state.path
        own = [kept.name for kept in savepoints.listed(files, directory) if kept.name.startswith(RUN)]
        for name in own[: max(0, len(own) - count)]:
            savepoints.delete(files, directory, name)


async def _in_thread(function: Callable[P, T], *values: P.args, **settings: P.kwargs) -> T:
    """Call the function in a thread. A caller that is cancelled waits for its end too: the thread has stores open, and
    what follows must not run beside it."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *values, **settings))
    try:
        await asyncio.wait({work})
    finally:
        await asyncio.wait({work})
    return work.result()
