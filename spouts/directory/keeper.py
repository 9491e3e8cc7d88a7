"""Keeps the files that are done as done: deletes or moves them, or adds their marks to the list. A task of the loop.

Must not know how files are read.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from spouts.directory.finished import FinishedFiles
from spouts.directory.listing import FoundFile
from spouts.directory.progress import FileProgress, FilesUnderWay
from spouts.directory.tidying import Tidying
from topology.errors import NotesAway

# seconds between the end of a file and its being kept as done, so that a checkpoint that is being kept under a name
# meanwhile has no file in its notes that ended after it
LATER_S: Final = 1.0
AT_ONCE: Final = 200  # files that do not wait for that time
AGAIN_S: Final = 0.5  # seconds before it is tried again

log = logging.getLogger("kedge.spouts")


class Keeper:
    """One task's. `set_away` gets the reason for which files cannot be kept now; an empty text once they can be."""

    def __init__(
        self,
        root: str,
        under_way: FilesUnderWay,
        finished: FinishedFiles,
        tidying: Tidying | None,
        set_away: Callable[[str], None],
    ) -> None:
        self.gone: frozenset[int] = frozenset()  # marks of the list whose files are no longer there
        self._root, self._under_way, self._finished = root, under_way, finished
        self._tidying, self._set_away = tidying, set_away
        self._left: list[FoundFile] | None = None  # that an earlier run should have deleted or moved
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, name: str) -> None:
        """Begin to look after files that are done."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)
        self._task.add_done_callback(lambda task: self._under_way.room.set())  # so that its error is seen

    async def close(self) -> None:
        """Keep what is done by now, and end."""
        if self._task is not None:
            self._stopping.set()
            self._under_way.to_keep.set()
            await asyncio.wait({self._task})

    @property
    def failure(self) -> BaseException | None:
        """The error that has ended it, if one has."""
        is_over = self._task is not None and self._task.done() and not self._task.cancelled()
        return self._task.exception() if self._task is not None and is_over else None

    def found_left(self, files: Sequence[FoundFile]) -> None:
        """Take note of files that are done and still there. The first call counts, once in a run."""
        if self._left is None:
            self._left = [*files] if self._tidying is not None else []
            self._under_way.to_keep.set()

    async def _run(self) -> None:
        under_way, loop, is_kept = self._under_way, asyncio.get_running_loop(), True
        while True:
            while not under_way.over and not self._left and not self._stopping.is_set():
                await self._next_news()
            until = loop.time() + LATER_S
            while len(under_way.over) < AT_ONCE and not self._stopping.is_set() and loop.time() < until:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await self._next_news()
            done = [*islice(under_way.over, AT_ONCE)]
            if done or self._left:
                is_kept = await self._keep(done)
            if self._stopping.is_set() and not (under_way.over and is_kept):
                return

    async def _next_news(self) -> None:
        self._under_way.to_keep.clear()
        await self._under_way.to_keep.wait()

    async def _keep(self, done: Sequence[FileProgress]) -> bool:
        """Keep the first files of `over` as done. Return False if that cannot be stored before the end."""
        left, self._left = self._left or [], []
        files = [progress.found for progress in done]
        if self._tidying is not None:
            refused = await asyncio.to_thread(self._tidying.tidy, self._root, [*files, *left])
            for why in refused.values():
                log.warning("%s; the next run tries it again", why)
            files = [file for file in files if file.mark in refused]
        while files and not await self._listed([file.mark for file in files]):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    await self._stopping.wait()
            if self._stopping.is_set():
                return False  # the next run reads their last lines again, which the runtime knows to be done
        self._under_way.kept(done)
        return True

    async def _listed(self, marks: Iterable[int]) -> bool:
        """Add marks to the list. Return False if they cannot be stored now."""
        marks = [*marks]
        try:
            if not (self._finished.fits(len(marks), self.gone) and self._finished.noted(marks)):
                await asyncio.to_thread(self._finished.filed, marks)
                self._finished.now_filed()
        except (NotesAway, OSError) as error:
            self._set_away(f"the list of files that are done can't be stored: {error}")
            return False
        self._set_away("")
        return True
