"""The keeper: makes what the parts of one worker have to keep durable, in one commit after the other, off the loop.

A group commit (DeWitt et al., 1984): what was gathered while one commit was being written is the next one. Each part
is asked what has changed, and told when that is durable; only then may anybody act on it (the order of durability).
While the store can't be written it is asked again, the spouts pause, and nothing is lost. Must not know marks, letters
or SQL.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from topology.codes.running import K536
from topology.durable.store import Store, StoreBroken, StoreFull
from topology.durable.values import Changes, Loaded

COMMIT_S: Final = 0.2  # between two commits, where nothing is in a hurry (E11)
AGAIN_FIRST_S: Final = 0.1  # before a full store is tried again; doubled each time …
AGAIN_LAST_S: Final = 5.0  # … up to this

logger = logging.getLogger("kedge")

T = TypeVar("T")


class Part(Protocol):
    """What has something to keep. Called on the loop; `gather` is followed by one of the other two before it is called
    again."""

    def gather(self, changes: Changes) -> None:
        """Adds what has changed since the last commit that was kept."""

    def kept(self) -> None:
        """What `gather` has added is durable."""

    def not_kept(self) -> None:
        """It is not; the next `gather` adds it again."""


class Keeper:
    """Of one worker. Make it in a running loop, `add` parts, `run` it as a task; `settle` at the end, once.

    Without a store all is kept at once. `why_full` says why the store can't be written now, and is empty otherwise:
    while it is not, spouts read nothing.
    """

    def __init__(self, store: Store | None, *, executor: Executor | None = None) -> None:
        self.store = store
        self.why_full = ""
        self.commits = 0  # of this life
        self._told = ""  # which reason people know of
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._parts: list[Part] = []
        self._hurry = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._at_work: asyncio.Future[Any] | None = None  # what the thread does, or has done last
        self._room: list[asyncio.Future[None]] = []

    @property
    def loaded(self) -> Loaded:
        """What the store held when it was opened."""
        return self.store.loaded if self.store is not None else Loaded()

    def add(self, part: Part) -> None:
        """From now on this is asked too."""
        self._parts.append(part)

    def want(self) -> None:
        """Commits as soon as the commit under way is done, and not in COMMIT_S: something waits for it."""
        self._hurry.set()

    async def run(self) -> None:
        """Commits again and again, until cancelled. Raises StoreBroken, and whatever is wrong in the runtime."""
        wait_s, again_s = COMMIT_S, AGAIN_FIRST_S
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            while not await self.commit():
                await asyncio.sleep(again_s)  # hurry or not
                again_s = min(again_s * 2, AGAIN_LAST_S)
            again_s = AGAIN_FIRST_S

    async def commit(self) -> bool:
        """One commit of all that has changed; False where the store is full. Raises StoreBroken."""
        async with self._one_at_a_time:
            await self._idle()
            self._hurry.clear()
            changes = Changes()
            parts = list(self._parts)
            for part in parts:
                part.gather(changes)
            kept = False
            try:
                if changes and self.store is not None:
                    await self._in_thread(partial(self.store.commit, changes))
                    self.commits += 1
                kept = True
            except StoreFull as error:
                self._full(str(error))
            finally:  # cancelled, it may be durable all the same: then it is the same once more
                for part in parts:
                    part.kept() if kept else part.not_kept()
            if kept:
                self._has_room()
            return kept

    async def call(self, function: Callable[[], T]) -> T:
        """Runs something that blocks on the store, between two commits. Raises what that raises."""
        async with self._one_at_a_time:
            await self._idle()
            return await self._in_thread(function)

    async def room(self) -> None:
        """Returns once the store can be written again; at once where it can."""
        if self.why_full:
            self._room.append(future := self._loop.create_future())
            await future

    async def settle(self, *, in_order: bool) -> bool:
        """The last commit, when nothing is acked any more (E10), also of a run that has failed; then gives the store
        and the thread back. `in_order`: the worker ends as it should, and has not died. Returns whether all is kept,
        which is False where the store is full. Raises StoreBroken."""
        if self.store is None:
            return True
        try:
            kept = await self.commit() or await self.commit()  # a store may have made room itself
            if kept and in_order:
                await self.call(self.store.ended_in_order)
        except StoreFull as error:
            self._full(str(error))
            kept = False
        finally:
            await self._closed(self.store)
        return kept

    async def _closed(self, store: Store) -> None:
        if self._at_work is not None:
            await asyncio.wait({self._at_work})
        await self._in_thread(store.close)
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Calls it in the one thread that the store has; cancelled, what was begun goes on there."""
        self._executor = self._executor or ThreadPoolExecutor(1, thread_name_prefix="kedge-store")
        self._at_work = at_work = self._loop.run_in_executor(self._executor, function)
        return await asyncio.shield(at_work)

    async def _idle(self) -> None:
        """Returns once the thread has done what somebody has begun who was cancelled. Raises StoreBroken for that."""
        if self._at_work is not None:
            await asyncio.wait({self._at_work})
            if isinstance(error := self._at_work.exception(), StoreBroken):
                raise error

    def _full(self, why: str) -> None:
        """Told from the second time on: a store first makes what room it can itself, and on a disk with little room
        does so again and again."""
        if self.why_full and why != self._told:
            logger.warning("%s; nothing new is read until it can be written again (%s)", why, K536)
            self._told = why
        self.why_full = why

    def _has_room(self) -> None:
        if self._told:
            logger.warning("the state can be written again, and the sources are read again")
        self.why_full = self._told = ""
        for future in self._room:
            if not future.done():
                future.set_result(None)
        self._room.clear()
