"""The keeper: makes what the parts of one worker have to keep durable, in one commit after the other, off the loop.

A group commit (DeWitt et al., 1984): what was gathered while one commit was being written is the next one. Each part
is asked what has changed, and told when that is durable; only then may anybody act on it (the order of durability).
A little that need not be synced is written on the loop: there and back again a thread takes longer than such a commit,
and the turns of the loop on the way, too. Then a commit of all parts is synced beside those that the loop writes after
it: these wait for no disk, and who has to does, a mark before it is announced say. While the store can't be written it
is asked again, the spouts pause, and nothing is lost. Must not know marks, letters or SQL.
"""

import asyncio
import itertools
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from topology.codes.runtime import STATE_NOT_WRITABLE
from topology.storage.store import Store, StoreBroken, StoreFull
from topology.storage.values import Changes, Loaded

SWITCH_S: Final = 0.0005  # each SQL statement takes the GIL back from the loop: at 5 ms a commit of 3 ms takes 12

T = TypeVar("T")


class _Switching:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0

    def during(self, function: Callable[[], T]) -> T:
        """Calls it, and threads are switched sooner until it returns or raises. The last one gives back the interval
        that there was. For a call and not for a task: of a task that is cancelled, or left behind when its loop closes
        or its worker dies, nobody knows when it ends."""
        with self._lock:
            if not self._users:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_S, self._before))
            self._users += 1
        try:
            return function()
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    sys.setswitchinterval(self._before)


SWITCHING: Final = _Switching()  # the process has one interval


COMMIT_S: Final = 0.2  # between two commits, where nothing is in a hurry (E11)
AGAIN_FIRST_S: Final = 0.1  # before a full store is tried again; doubled each time …
AGAIN_LAST_S: Final = 5.0  # … up to this
HERE_MAX: Final = 64  # inputs whose commit the loop may wait for,
HERE_BYTES_MAX: Final = 64 << 10  # about, that are written for them,
HERE_S: Final = 0.02  # and how long it may take: where it took longer, a disk that is busy say,
NOT_HERE_S: Final = 1.0  # none is written there for this long
TOGETHER_MAX: Final = 32  # inputs that wait for others which are at hand: a commit of many costs little more
TOGETHER_S: Final = 0.001  # how long the first of them may

logger = logging.getLogger("kedge")


class CommitPart(Protocol):
    """What has something to keep. Called on the loop; `gather` is followed by one of the other two before it is called
    again."""

    def gather(self, changes: Changes) -> None:
        """Adds what has changed since the last commit that was kept."""

    def kept(self) -> None:
        """What `gather` has added is durable; of one that is asked with every commit, as durable as it wants it."""

    def not_kept(self) -> None:
        """It is not; the next `gather` adds it again."""


class UrgentPart(CommitPart, Protocol):
    """One that is asked with every commit."""

    @property
    def waiting_to_be_kept(self) -> int:
        """How many inputs the next commit has something of."""
        ...


class GroupCommit:
    """Of one worker. Make it in a running loop, `add` parts, `run` it as a task; `settle` at the end, once.

    Without a store all is kept at once. `lasting`: what is kept in a hurry survives a loss of power too; what need not
    may be written on the loop, where `here` is true. `why_full` says why the store can't be written now, and is empty
    otherwise: while it is not, spouts read nothing. `more_comes` tells whether more inputs are at hand, which come
    within this turn of the loop: who has a backlog commits many together, and a lone input waits for none.
    """

    def __init__(self, store: Store | None, *, executor: Executor | None = None, lasting: bool = True) -> None:
        self.store = store
        self._lasting = lasting
        self._syncs = not lasting and store is not None  # apart from commits
        self.why_full = ""
        self.commits = 0  # of this life
        self._told = ""  # which reason people know of
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._parts: list[CommitPart] = []
        self._at_once: list[UrgentPart] = []
        self.here = store is None or not lasting
        self._asked = False  # whether somebody is in a hurry, and nothing was done for it yet,
        self._asked_at = 0.0  # and since when
        self.more_comes: Callable[[], bool] = lambda: False
        self._is_here = False  # whether a commit is made on the loop
        self._not_here_until = 0.0
        self._trouble: BaseException | None = None  # what such a commit has raised; `run` raises it
        self._hurry = asyncio.Event()
        self._all = False  # whether the next commit is of all parts
        self._whole_at = self._loop.time()  # when the last one of all was gathered
        self._rows = itertools.count(self.loaded.next_journal)
        self._one_at_a_time = asyncio.Lock()
        self._at_work: asyncio.Future[Any] | None = None  # what the thread does, or has done last
        self._in_doubt: list[CommitPart] = []  # those of a commit that was cancelled while the thread had it
        self._all_at_a_time = asyncio.Lock()  # of commits of all parts, each until it is synced
        self._syncing: asyncio.Future[None] | None = None  # what syncs one, or has done last
        self._unsynced: list[CommitPart] = []  # those that are told when that is done
        self._is_behind = False  # whether the store has commits that were not synced
        self._room: list[asyncio.Future[None]] = []

    @property
    def loaded(self) -> Loaded:
        """What the store held when it was opened."""
        return self.store.loaded if self.store is not None else Loaded()

    def add(self, part: CommitPart) -> None:
        """From now on this is asked too, with each commit of all parts."""
        self._parts.append(part)

    def add_urgent(self, part: UrgentPart) -> None:
        """This one with every commit."""
        self._parts.append(part)
        self._at_once.append(part)

    def want(self) -> None:
        """Commits all as soon as the commit under way is done, and not in COMMIT_S: something waits for it."""
        self._all = True
        self._hurry.set()

    def hurry(self) -> None:
        """As `want`, but for the parts alone that are asked with every commit: it costs little."""
        if not self.here:
            self._hurry.set()
        elif not self._asked:
            self._asked, self._asked_at = True, self._loop.time()
            self._loop.call_soon(self.at_once)  # where nobody calls it before

    def at_once(self) -> None:
        """Makes the commit that somebody is in a hurry for now, where it is short, and else lets `run` do so. To be
        called between slices: what it keeps leaves within this call."""
        while self._asked and not self._is_here:
            if self.more_comes() and self._may_wait():
                return
            self._asked = False
            if self._is_short():
                self._commit_here()
            else:
                self._hurry.set()

    def next_row(self) -> int:
        """A number for a row of the journal, that none has had in this store."""
        return next(self._rows)

    def time(self) -> float:
        """Loop time."""
        return self._loop.time()

    async def run(self) -> None:
        """Commits again and again, until cancelled. Raises StoreBroken, and whatever is wrong in the runtime."""
        again_s = AGAIN_FIRST_S
        while True:
            whole = await self._due()
            if self.here and not whole:  # the thread was at work when it was asked for, and may be no more
                self._asked = True
                self._hurry.clear()
                self.at_once()
                if not self._hurry.is_set():
                    continue
            while not await self.commit(whole=whole or self._all):
                await asyncio.sleep(again_s)  # hurry or not
                again_s = min(again_s * 2, AGAIN_LAST_S)
                whole = True
            again_s = AGAIN_FIRST_S

    async def _due(self) -> bool:
        """Returns once the next commit is due; whether it is one of all parts."""
        due = self._whole_at + COMMIT_S
        if not self._hurry.is_set():
            try:
                async with asyncio.timeout_at(due):
                    await self._hurry.wait()
            except TimeoutError:
                return True
        return self._all or self._loop.time() >= due

    async def commit(self, *, whole: bool = True) -> bool:
        """One commit of what has changed, of all parts or of those that are asked at once; False where the store is
        full. One of all parts survives a loss of power when this returns. Raises StoreBroken."""
        if not whole:
            return await self._commit(self._at_once)
        async with self._all_at_a_time:
            async with self._one_at_a_time:
                await self._idle()
            if self._unsynced:  # of a commit that was cancelled
                await self._sync()
            kept = await self._commit(self._parts, whole=True)
            if self._is_behind:
                self._asked |= self._hurry.is_set()  # for what came of that commit, or while it was written,
                self.at_once()  # and would wait for the disk
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
                    if self.here and few and self._is_quick() and changes.size <= HERE_BYTES_MAX:
                        self._write(self.store, changes)
                    else:
                        self._is_behind = self._syncs
                        await self._in_thread(partial(self.store.commit, changes))
                    self.commits += 1
                kept = True
            except StoreFull as error:
                self._full(str(error))
            except asyncio.CancelledError:
                self._in_doubt, parts = parts, []  # the thread goes on with it: `_idle` finds out what has come of it
                raise
            finally:
                self._tell(parts, kept=kept, synced=not changes)
            if kept:
                self._has_room()
            return kept

    def _tell(self, parts: Sequence[CommitPart], *, kept: bool, synced: bool) -> None:
        """What has come of a commit. Where it has to be synced yet, that is told later to all who have not to hurry."""
        wait = kept and self._syncs and not synced
        for part in parts:
            if wait and part not in self._at_once:
                self._unsynced.append(part)
            elif kept:
                part.kept()
            else:
                part.not_kept()

    async def _sync(self) -> None:
        """What was committed survives a loss of power, and those who wait for that are told. Others commit meanwhile,
        but for a moment once in a while. Raises StoreBroken."""
        assert self.store is not None, "else nothing is behind"
        if self._syncing is not None:
            await asyncio.wait({self._syncing})
        self._is_behind = False
        self._syncing = syncing = self._loop.run_in_executor(self._threads(), self.store.sync)
        try:
            await asyncio.shield(syncing)
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
        """Whether a commit now would be a matter of a tenth of a millisecond."""
        at_work = self._at_work is not None and not self._at_work.done()
        if at_work or self._one_at_a_time.locked() or self._in_doubt or self._trouble is not None:
            return False
        return self._is_quick() and self._is_few()

    def _is_few(self) -> bool:
        return self._waiting() <= HERE_MAX

    def _may_wait(self) -> bool:
        """Whether the inputs that are at hand may be a part of the same commit."""
        return self._waiting() < TOGETHER_MAX and self._loop.time() < self._asked_at + TOGETHER_S

    def _waiting(self) -> int:
        return sum([part.waiting_to_be_kept for part in self._at_once])

    def _is_quick(self) -> bool:
        """Whether the store takes what is not synced without a wait."""
        if self.store is None:
            return True
        return not self.why_full and self.store.is_short and self._loop.time() >= self._not_here_until

    def _write(self, store: Store, changes: Changes) -> None:
        begun, self._is_behind = self._loop.time(), self._syncs
        store.commit(changes)
        if self._loop.time() - begun > HERE_S:
            self._not_here_until = self._loop.time() + NOT_HERE_S

    def _commit_here(self) -> None:
        """As `commit`, of the urgent parts that have something. What it raises ends the worker by `run`; whoever was in
        a hurry is not to blame."""
        self._is_here = True
        parts = [part for part in self._at_once if part.waiting_to_be_kept]
        try:
            changes = self._gathered(parts, lasting=False)
            if changes and self.store is not None:
                if changes.size > HERE_BYTES_MAX:
                    self._let_be(parts)
                    return
                self._write(self.store, changes)
                self.commits += 1
            for part in parts:
                part.kept()
        except StoreFull:  # `run` tries again, and tells of it
            self._let_be(parts)
        except BaseException as error:
            self._trouble = error
            self._hurry.set()
        finally:
            self._is_here = False

    def _let_be(self, parts: Sequence[CommitPart]) -> None:
        """Nothing of theirs was kept: it is a part of what `run` commits."""
        for part in parts:
            part.not_kept()
        self._hurry.set()

    # -- in the thread

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
        if begun := {one for one in (self._at_work, self._syncing) if one is not None}:
            await asyncio.wait(begun)
        await self._in_thread(store.close)
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Calls it in a thread; cancelled, what was begun goes on there."""
        self._at_work = at_work = self._loop.run_in_executor(self._threads(), SWITCHING.during, function)
        return await asyncio.shield(at_work)

    def _threads(self) -> Executor:
        """Of two threads: one writes, one syncs."""
        self._executor = self._executor or ThreadPoolExecutor(2, thread_name_prefix="kedge-store")
        return self._executor

    async def _idle(self) -> None:
        """Returns once the thread has done what somebody has begun who was cancelled. Raises StoreBroken for that.

        The parts of a commit are told then whether it was kept: of the same state twice the digest of all rows would be
        another one, and the next start would take the file for damaged."""
        if self._at_work is not None:
            await asyncio.wait({self._at_work})
            error = self._at_work.exception()
            parts, self._in_doubt = self._in_doubt, []
            self._tell(parts, kept=error is None, synced=False)
            if isinstance(error, StoreBroken):
                raise error

    def _full(self, why: str) -> None:
        """Told from the second time on: a store first makes what room it can itself, and on a disk with little room
        does so again and again."""
        if self.why_full and why != self._told:
            logger.warning("%s; nothing new is read until it can be written again (%s)", why, STATE_NOT_WRITABLE)
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
