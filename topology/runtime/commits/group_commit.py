"""Group commit: makes what the parts of one worker have to keep durable, one commit after the other, off the loop.

What was gathered while one commit was being written is the next one (DeWitt et al., 1984). Each part is asked what has
changed, and is called again when that is durable. Only then may anything act on it (the order of durability).

A small commit that need not be synced is written on the loop: to a thread and back takes longer than such a commit, and
so do the turns of the loop on the way. Then a full commit is synced in the background while the loop goes on.
Those inline commits do not wait for the disk. What must be durable first, such as a mark before it is announced, waits
for the sync.

While the store can't be written it is tried again, the spouts pause, and nothing is lost. Must not know marks, letters
or SQL.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, Protocol, TypeVar

from topology.runtime.commits.store_room import StoreRoom
from topology.runtime.commits.store_threads import StoreThreads
from topology.storage.store import Store, StoreBroken, StoreFull
from topology.storage.values import Changes, Loaded

T = TypeVar("T")

COMMIT_S: Final = 0.2  # between two commits, if nothing is in a hurry (E11)
AGAIN_FIRST_S: Final = 0.1  # before a full store is tried again; doubled each time, up to AGAIN_LAST_S
AGAIN_LAST_S: Final = 5.0
INLINE_MAX_INPUTS: Final = 64  # a commit of more inputs goes to the thread that writes
INLINE_MAX_BYTES: Final = 64 << 10  # a commit of more bytes, approximately, goes to the thread that writes
INLINE_SLOW_S: Final = 0.02  # an inline commit that takes longer means a busy disk
INLINE_RETRY_S: Final = 1.0  # after such a commit, the thread writes all commits for this long
TOGETHER_MAX: Final = 32  # inputs that wait for others which are at hand: a commit of many costs little more
TOGETHER_S: Final = 0.001  # how long the first of them waits at most


class CommitPart(Protocol):
    """A part of a worker that has something to keep. Called on the loop. `gather` is followed by one of the other two
    before it is called again."""

    def gather(self, changes: Changes) -> None:
        """Add what has changed since the last commit that was kept."""

    def kept(self) -> None:
        """Take note that what `gather` added is durable. For an urgent part: as durable as it asked for."""

    def not_kept(self) -> None:
        """Take note that what `gather` added was not kept. The next `gather` adds it again."""


class UrgentPart(CommitPart, Protocol):
    """A part that is asked with every commit."""

    @property
    def waiting_to_be_kept(self) -> int:
        """The number of inputs the next commit has something of."""
        ...


class GroupCommit:
    """The commits of one worker. Make it in a running loop, `add` parts, `run` it as a task; `settle` at the end, once.

    Without a store, all is kept at once. `lasting`: a hurried commit survives a loss of power too; if it need not, it
    may be written on the loop, where `inline_allowed` is true. `more_comes` returns whether more inputs are at hand,
    which come within this turn of the loop: a backlog is committed together, and a lone input waits for none.
    """

    def __init__(self, store: Store | None, *, executor: Executor | None = None, lasting: bool = True) -> None:
        self.store = store
        self._lasting = lasting
        self._syncs = not lasting and store is not None  # apart from commits
        self.commits = 0  # of this life
        self._store_room = StoreRoom()
        self._threads = StoreThreads(executor)
        self._loop = asyncio.get_running_loop()
        self._parts: list[CommitPart] = []
        self._urgent: list[UrgentPart] = []
        self.inline_allowed = store is None or not lasting
        self._asked = False  # whether a part is in a hurry, and nothing was done for it yet
        self._asked_at = 0.0  # loop time at which it asked
        self.more_comes: Callable[[], bool] = lambda: False
        self._committing_inline = False
        self._inline_again_at = 0.0  # loop time before which the thread writes all commits
        self._trouble: BaseException | None = None  # the error of an inline commit; `run` raises it
        self._hurry = asyncio.Event()
        self._all = False  # whether the next commit is of all parts
        self._whole_at = self._loop.time()  # when the last one of all was gathered
        self._rows = itertools.count(self.loaded.next_journal)
        self._one_at_a_time = asyncio.Lock()
        self._in_doubt: list[CommitPart] = []  # the parts of a commit that was cancelled while the thread had it
        self._all_at_a_time = asyncio.Lock()  # of commits of all parts, each until it is synced
        self._unsynced: list[CommitPart] = []  # the parts whose `kept` waits for a sync
        self._is_behind = False  # whether the store has commits that were not synced

    @property
    def why_full(self) -> str:
        """The reason why the store can't be written now; empty if it can. While it is full, spouts read nothing."""
        return self._store_room.why_full

    @property
    def loaded(self) -> Loaded:
        """The content of the store when it was opened."""
        return self.store.loaded if self.store is not None else Loaded()

    def add(self, part: CommitPart) -> None:
        """Ask this part with each full commit from now on."""
        self._parts.append(part)

    def add_urgent(self, part: UrgentPart) -> None:
        """Ask this part with every commit from now on."""
        self._parts.append(part)
        self._urgent.append(part)

    def want(self) -> None:
        """Begin a full commit as soon as the current one is done, and not after COMMIT_S: something waits for it."""
        self._all = True
        self._hurry.set()

    def hurry(self) -> None:
        """As `want`, but for the urgent parts alone, which costs little."""
        if not self.inline_allowed:
            self._hurry.set()
        elif not self._asked:
            self._asked, self._asked_at = True, self._loop.time()
            self._loop.call_soon(self.commit_inline)  # if nothing calls it before

    def commit_inline(self) -> None:
        """Make the commit that a part is in a hurry for now if it is short; otherwise let `run` make it. To be called
        between slices: the outputs that it keeps leave within this call."""
        while self._asked and not self._committing_inline:
            if self.more_comes() and self._may_wait():
                return
            self._asked = False
            if self._is_short():
                self._write_inline()
            else:
                self._hurry.set()

    def next_row(self) -> int:
        """Return a number for a row of the journal that no other row in this store has had."""
        return next(self._rows)

    def time(self) -> float:
        """Loop time."""
        return self._loop.time()

    async def run(self) -> None:
        """Commit again and again, until cancelled. Raises StoreBroken, and any error of the runtime."""
        again_s = AGAIN_FIRST_S
        while True:
            whole = await self._due()
            if self.inline_allowed and not whole:  # the thread was at work when it was asked for, and may be no more
                self._asked = True
                self._hurry.clear()
                self.commit_inline()
                if not self._hurry.is_set():
                    continue
            while not await self.commit(whole=whole or self._all):
                await asyncio.sleep(again_s)  # hurry or not
                again_s = min(again_s * 2, AGAIN_LAST_S)
                whole = True
            again_s = AGAIN_FIRST_S

    async def _due(self) -> bool:
        """Wait until the next commit is due. Return whether it is a full one."""
        due = self._whole_at + COMMIT_S
        if not self._hurry.is_set():
            try:
                async with asyncio.timeout_at(due):
                    await self._hurry.wait()
            except TimeoutError:
                return True
        return self._all or self._loop.time() >= due

    async def commit(self, *, whole: bool = True) -> bool:
        """Commit what has changed, of all parts (`whole`) or of the urgent ones. Return False if the store is full.

        A full commit survives a loss of power when this returns. Raises StoreBroken.
        """
        if not whole:
            return await self._commit(self._urgent)
        async with self._all_at_a_time:
            async with self._one_at_a_time:
                await self._idle()
            if self._unsynced:  # of a commit that was cancelled
                await self._sync()
            kept = await self._commit(self._parts, whole=True)
            if self._is_behind:
                self._asked |= self._hurry.is_set()  # inputs that came meanwhile …
                self.commit_inline()  # … would wait for the disk
                await self._sync()
            return kept

    async def _commit(self, asked: Sequence[CommitPart], *, whole: bool = False) -> bool:
        async with self._one_at_a_time:
            await self._idle()
            if self._trouble is not None:
                raise self._trouble
            self._hurry.clear()
            if whole:
                self._all, self._whole_at = False, self._loop.time()
            parts = [*asked]
            few = self._is_few()
            changes = self._gathered(parts, lasting=self._lasting)
            kept = False
            try:
                if changes and self.store is not None:
                    if self.inline_allowed and few and self._is_quick() and changes.size <= INLINE_MAX_BYTES:
                        self._write(self.store, changes)
                    else:
                        self._is_behind = self._syncs
                        await self._threads.write(partial(self.store.commit, changes))
                    self.commits += 1
                kept = True
            except StoreFull as error:
                self._store_room.full(str(error))
            except asyncio.CancelledError:
                self._in_doubt, parts = parts, []  # the thread continues: `_idle` finds out how it ended
                raise
            finally:
                self._tell(parts, kept=kept, synced=not changes)
            if kept:
                self._store_room.has_room()
            return kept

    def _tell(self, parts: Sequence[CommitPart], *, kept: bool, synced: bool) -> None:
        """Call `kept` or `not_kept` of these parts. If a sync is needed, only urgent parts are called now."""
        wait = kept and self._syncs and not synced
        for part in parts:
            if wait and part not in self._urgent:
                self._unsynced.append(part)
            elif kept:
                part.kept()
            else:
                part.not_kept()

    async def _sync(self) -> None:
        """Make what was committed survive a loss of power, then call the parts that wait for that.

        Inline commits go on meanwhile, but for a moment once in a while. Raises StoreBroken.
        """
        assert self.store is not None, "else nothing is behind"
        threads = self._threads
        if threads.syncing is not None:
            await asyncio.wait({threads.syncing})
        self._is_behind = False
        try:
            await threads.sync(self.store.sync)
        except asyncio.CancelledError:
            self._is_behind = True
            raise
        parts, self._unsynced = self._unsynced, []
        for part in parts:
            part.kept()
        if self.store.is_long:
            await self.call(self.store.shorten)

    def _gathered(self, parts: Sequence[CommitPart], *, lasting: bool) -> Changes:
        changes = Changes(lasting=lasting)
        for part in parts:
            part.gather(changes)
        return changes

    # -- on the loop

    def _is_short(self) -> bool:
        """Return whether a commit now would take about a tenth of a millisecond."""
        writing = self._threads.writing
        if (
            (writing is not None and not writing.done())
            or self._one_at_a_time.locked()
            or self._in_doubt
            or self._trouble is not None
        ):
            return False
        return self._is_quick() and self._is_few()

    def _is_few(self) -> bool:
        return self._waiting() <= INLINE_MAX_INPUTS

    def _may_wait(self) -> bool:
        """Return whether the inputs that are at hand may be a part of the same commit."""
        return self._waiting() < TOGETHER_MAX and self._loop.time() < self._asked_at + TOGETHER_S

    def _waiting(self) -> int:
        return sum([part.waiting_to_be_kept for part in self._urgent])

    def _is_quick(self) -> bool:
        """Return whether the store takes what is not synced without a wait."""
        if self.store is None:
            return True
        return not self._store_room.why_full and self.store.is_short and self._loop.time() >= self._inline_again_at

    def _write(self, store: Store, changes: Changes) -> None:
        started_at, self._is_behind = self._loop.time(), self._syncs
        store.commit(changes)
        if self._loop.time() - started_at > INLINE_SLOW_S:
            self._inline_again_at = self._loop.time() + INLINE_RETRY_S

    def _write_inline(self) -> None:
        """Commit the urgent parts that have something. An error ends the worker by way of `run`: the part that was in a
        hurry is not to blame."""
        self._committing_inline = True
        parts = [part for part in self._urgent if part.waiting_to_be_kept]
        try:
            changes = self._gathered(parts, lasting=False)
            if changes and self.store is not None:
                if changes.size > INLINE_MAX_BYTES:
                    self._let_be(parts)
                    return
                self._write(self.store, changes)
                self.commits += 1
            for part in parts:
                part.kept()
        except StoreFull:  # `run` tries again, and reports it
            self._let_be(parts)
        except BaseException as error:
            self._trouble = error
            self._hurry.set()
        finally:
            self._committing_inline = False

    def _let_be(self, parts: Sequence[CommitPart]) -> None:
        """Call `not_kept` of these parts, and let `run` commit them."""
        for part in parts:
            part.not_kept()
        self._hurry.set()

    # -- in the thread

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function that blocks on the store, between two commits. Raises what the function raises."""
        async with self._one_at_a_time:
            await self._idle()
            return await self._threads.write(function)

    async def room(self) -> None:
        """Return once the store can be written again; at once if it can."""
        await self._store_room.wait()

    async def settle(self, *, in_order: bool) -> bool:
        """Make the last commit, when nothing is acked any more (E10), also of a run that has failed. Then give back the
        store and the threads.

        `in_order`: the worker ends as it should, and has not died. Return whether all is kept, which is False if the
        store is full. Raises StoreBroken.
        """
        if self.store is None:
            return True
        try:
            kept = await self.commit() or await self.commit()  # a store may have made room itself
            if kept and in_order:
                await self.call(self.store.ended_in_order)
        except StoreFull as error:
            self._store_room.full(str(error))
            kept = False
        finally:
            await self._threads.close(self.store.close)
        return kept

    async def _idle(self) -> None:
        """Wait until the thread has finished a commit whose caller was cancelled. Raises StoreBroken for that commit.

        Only then its parts learn whether it was kept. If the same state were committed twice, the digest of all rows
        would differ, and the next start would report the file as damaged.
        """
        writing = self._threads.writing
        if writing is not None:
            await asyncio.wait({writing})
            error = writing.exception()
            parts, self._in_doubt = self._in_doubt, []
            self._tell(parts, kept=error is None, synced=False)
            if isinstance(error, StoreBroken):
                raise error
