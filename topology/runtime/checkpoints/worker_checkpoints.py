"""A worker's end of the run's checkpoints: notes, snapshots, and what follows from a decision.

The note is taken when the coordinator asks. The snapshot is gathered in one turn of the loop: at the barrier, or before
the worker reads a tuple whose sender has gathered (the colours of Lai and Yang, 1987). It becomes bytes, and durable,
in a thread, while the loop goes on. Once the checkpoint is decided, the parts forget what can't come again.

While the store can't be written the spouts pause, and nothing is lost. Must not know marks, letters or SQL.
"""

import asyncio
import enum
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from acker.frontier import Decided, Frontier, Note
from topology.runtime.checkpoints.parts import GatheredPart, NotedPart
from topology.runtime.checkpoints.store_room import StoreRoom
from topology.runtime.checkpoints.store_threads import StoreThreads
from topology.storage.store import Store, StoreFull
from topology.storage.values import Changes, Loaded

T = TypeVar("T")

AGAIN_FIRST_S: Final = 0.1  # before a full store is asked again to take a decision in; doubled up to AGAIN_LAST_S
AGAIN_LAST_S: Final = 5.0


class CheckpointStage(enum.IntEnum):
    """The steps that this worker has done for the checkpoint under way."""

    NOTED = 1
    GATHERED = 2
    PREPARED = 3
    DECIDED = 4


@dataclass
class CheckpointAnswers:
    """A worker's reports to the coordinator, each with the checkpoint's number. `wanted` has none: it reports that a
    checkpoint is wanted."""

    noted: Callable[[int, Note, bool], None] = lambda checkpoint, note, quiet: None
    prepared: Callable[[int, int, float], None] = lambda checkpoint, size, seconds: None
    unprepared: Callable[[int, str], None] = lambda checkpoint, why: None
    settled: Callable[[int], None] = lambda checkpoint: None
    copied: Callable[[int, int, str], None] = lambda checkpoint, commits, problem: None
    wanted: Callable[[], None] = lambda: None


@dataclass(eq=False)
class _Underway:
    """The checkpoint under way. `quiet`: nothing had changed here since the last decided one when it was noted.
    `frontier` is there from the barrier on. `size`: bytes that were prepared; 0: nothing was written."""

    number: int
    note: Note
    quiet: bool
    changes: Changes
    stage: CheckpointStage = CheckpointStage.NOTED
    frontier: Frontier | None = None
    alone: bool = False
    size: int = 0


class WorkerCheckpoints:
    """The checkpoints of one worker. Make it in a running loop and add all parts; then the coordinator may call it.

    `decided` is what all tasks of the worker share: the last decided frontier, and which checkpoint was gathered last.
    `note_of` returns the worker's own note. The host sets `answers`, and `failed`, which is called with an error after
    which the worker can't go on.
    """

    def __init__(
        self, store: Store | None, *, decided: Decided, note_of: Callable[[], Note], executor: Executor | None = None
    ) -> None:
        self.store = store
        self.decided_facts = decided
        self.answers = CheckpointAnswers()
        self.failed: Callable[[BaseException], None] = lambda error: None
        self.before_gather: Callable[[int], None] = lambda checkpoint: None  # marks the log; raises what a store raises
        self.at_decision: list[Callable[[], None]] = []  # called when a checkpoint is decided, before it is taken in
        self.waits: list[Callable[[], bool]] = []  # whether something waits for a decision, though nothing has changed
        self.is_quiet = False  # whether the last one was given up since nothing had changed in any worker
        self.noted_at = 0.0  # loop time of the last note
        self.is_ready = True  # False while tasks lack what the store has for them: a snapshot would be without it
        self.trash: list[list[Any]] = []  # lists that the thread empties: the loop would be held for too long
        self.threads = StoreThreads(executor)
        self.room_of_store = StoreRoom()
        self._note_of = note_of
        self._loop = asyncio.get_running_loop()
        self._noted: list[NotedPart] = []
        self._gathered: list[GatheredPart] = []
        self._underway: _Underway | None = None
        self._last_note: Note | None = None  # of the last decided one
        self._why_broken = ""  # why nothing is kept any more
        self._one_at_a_time = asyncio.Lock()
        self._work: set[asyncio.Task[None]] = set()
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []  # those who wait for a checkpoint after this one

    @property
    def loaded(self) -> Loaded:
        """The content of the store when it was opened."""
        return self.store.loaded if self.store is not None else Loaded()

    @property
    def why_full(self) -> str:
        """The reason why the store can't be written now; empty if it can. While it is full, spouts read nothing."""
        return self.room_of_store.why_full

    @property
    def gathered(self) -> int:
        """The newest checkpoint that this worker has gathered: the colour of what it sends."""
        return self.decided_facts.gathered

    def add(self, part: NotedPart) -> None:
        """Note this part with each checkpoint from now on, after those that were added before."""
        self._noted.append(part)

    def add_gathered(self, part: GatheredPart) -> None:
        """Gather this part with each checkpoint from now on."""
        self._gathered.append(part)

    def want(self) -> None:
        """Ask for a checkpoint soon: something waits for it."""
        self.answers.wanted()

    async def commit(self) -> bool:
        """Wait until a checkpoint is decided that was noted after this call. Return False if the next one was given
        up."""
        if self.store is None:
            return True
        future: asyncio.Future[bool] = self._loop.create_future()
        self._waiting.append((self._underway.number if self._underway is not None else 0, future))
        self.want()
        return await future

    async def room(self) -> None:
        """Return once the store can be written again; at once if it can."""
        await self.room_of_store.wait()

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function that blocks on the store, between two writes. Raises what the function raises."""
        async with self._one_at_a_time:
            return await self.threads.write(function)

    def time(self) -> float:
        """Loop time."""
        return self._loop.time()

    # -- 1. the note

    def note(self, checkpoint: int) -> tuple[Note, bool]:
        """Note which messages of this worker are done, and what goes with that (P1, P2). Return the note, and True if
        nothing has changed here since the last checkpoint that was decided. While the decision before is being taken in
        (P6), and before the tasks have what the store has for them, the checkpoint is refused by
        `answers.unprepared`."""
        now, why = self._underway, ""
        if not self.is_ready:
            why = "it has not loaded its state yet"
        elif now is not None and now.stage is CheckpointStage.DECIDED:
            why = f"it has not taken in yet that checkpoint {now.number} is decided"
        if why:
            self._loop.call_soon(self.answers.unprepared, checkpoint, why)
            return self._note_of(), False
        self.end()
        changes = Changes()
        for part in self._noted:
            part.gather(changes)
        note = self._note_of()
        owes = self.store is not None and (self.store.is_owing or self.store.log_bytes > 0)
        changed = owes or bool(self.why_full) or note != self._last_note or bool(changes)
        changed = changed or any(part.changed for part in self._gathered) or any(waits() for waits in self.waits)
        self._underway = _Underway(checkpoint, note, not changed, changes)
        self.noted_at = self.time()
        return note, not changed

    # -- 2. and 3. the barrier, and the snapshot

    def saw(self, checkpoint: int) -> None:
        """A tuple is about to be read whose sender has gathered this checkpoint: gather first (P1)."""
        now = self._underway
        if now is not None and now.number == checkpoint and now.stage is CheckpointStage.NOTED:
            self._gather(now)

    def gather(self, frontier: Frontier, *, alone: bool = False) -> None:
        """All workers have noted: gather if that was not done, and keep it. `alone`: this is the only worker, and what
        it keeps is the decision."""
        now = self._underway
        if now is None or now.number != frontier.checkpoint or now.frontier is not None:
            return
        now.frontier, now.alone = frontier, alone
        if now.stage is CheckpointStage.NOTED:
            self._gather(now)
        if self._why_broken:
            self.answers.unprepared(now.number, self._why_broken)
        elif now.stage is CheckpointStage.GATHERED:
            self._spawn(self._keep(now, frontier), f"checkpoint {now.number}")

    def _gather(self, now: _Underway) -> None:
        """Take the snapshot; or, if the log can't be marked, give the checkpoint up: it will not be decided."""
        try:
            self.before_gather(now.number)
        except StoreFull as error:
            self.room_of_store.log_full(str(error))
            self.given_up(now.number)
            self.answers.unprepared(now.number, str(error))
            return
        except BaseException as error:
            self._broke(error)
            return
        now.stage = CheckpointStage.GATHERED
        for part in self._gathered:
            part.gather()
        self.decided_facts.gathered = now.number

    # -- 4. what was gathered is kept

    async def _keep(self, now: _Underway, frontier: Frontier) -> None:
        begun_at = self._loop.time()
        try:
            async with self._one_at_a_time:
                if now is not self._underway:
                    return
                await self.threads.write(lambda: self._packed(now, frontier))
                if now is not self._underway:
                    return
                now.stage = CheckpointStage.PREPARED
        except StoreFull as error:
            self.room_of_store.checkpoint_full(str(error))
            if now is self._underway:
                self.answers.unprepared(now.number, str(error))
            return
        self.answers.prepared(now.number, now.size, self._loop.time() - begun_at)

    def _packed(self, now: _Underway, frontier: Frontier) -> None:
        """Make bytes of the snapshot, and keep them. In a thread; the checkpoint may have been given up meanwhile."""
        while self.trash:
            one = self.trash.pop()
            while one:
                one.pop()
        for part in self._gathered:
            part.pack(now.changes, frontier)
        if self.store is not None:
            if now.alone:
                self.store.conclude(now.number, now.changes)
            else:
                self.store.prepare(now.number, now.changes)
            now.size = max(1, now.changes.size)

    # -- 5. the decision

    def decided(self, checkpoint: int) -> None:
        """The checkpoint is decided: refuse and forget what its frontier has, from now on (P4)."""
        now = self._underway
        if now is None or now.number != checkpoint or now.frontier is None or now.stage is not CheckpointStage.PREPARED:
            number = now.number if now is not None else 0
            raise AssertionError(f"checkpoint {checkpoint} is decided, and {number} is under way here")
        now.stage = CheckpointStage.DECIDED
        self.is_quiet = False
        self._last_note = now.note
        self.decided_facts.frontier = now.frontier
        for part in self._gathered:
            part.kept()
        for call in self.at_decision:
            call()
        self._spawn(self._take_in(now), f"decision {checkpoint}")

    async def _take_in(self, now: _Underway) -> None:
        store, again_s = self.store, AGAIN_FIRST_S
        while True:
            try:
                async with self._one_at_a_time:
                    if now.size and not now.alone and store is not None:
                        await self.threads.write(lambda: store.decided(now.number))
                break
            except StoreFull as error:
                self.room_of_store.checkpoint_full(str(error))
                await asyncio.sleep(again_s)
                again_s = min(2 * again_s, AGAIN_LAST_S)
        self._underway = None
        self.room_of_store.all_has_room()
        for part in self._noted:
            part.kept()
        self._tell(now.number, kept=True)
        self.answers.settled(now.number)

    # -- a copy of it

    def copy(self, checkpoint: int, path: Path) -> None:
        """Copy the store to this path, before anything else is written to it. The content is of the last decided
        checkpoint, which all workers have taken in; `checkpoint` names the answer. Ends in `answers.copied`: with the
        number of commits in the copy, and a problem or nothing."""
        self._spawn(self._copy(checkpoint, path), f"copy of checkpoint {checkpoint}")

    async def _copy(self, checkpoint: int, path: Path) -> None:
        commits, problem, store = 0, "", self.store
        if store is None:
            problem = "the run keeps nothing"
        else:
            try:
                commits = await self.call(lambda: store.copy_to(path))
            except StoreFull as error:
                problem = str(error)
        self.answers.copied(checkpoint, commits, problem)

    def given_up(self, checkpoint: int) -> None:
        """The checkpoint is not decided and never will be. Nothing of it has left (P5). If nothing had changed here,
        all is kept by the one before."""
        now = self._underway
        if now is None or now.number != checkpoint:
            return
        self._underway = None
        self.is_quiet = now.quiet and now.stage is CheckpointStage.NOTED
        for part in self._noted:
            part.kept() if now.quiet else part.not_kept()
        if now.stage >= CheckpointStage.GATHERED:
            for gathered in self._gathered:
                gathered.not_kept()
        self._tell(checkpoint, kept=now.quiet)

    def end(self) -> None:
        """Give up the checkpoint under way, if there is one: a new generation of the run begins."""
        if self._underway is not None and self._underway.stage is not CheckpointStage.DECIDED:
            self.given_up(self._underway.number)

    def _tell(self, checkpoint: int, *, kept: bool) -> None:
        """Wake those who wait for this checkpoint: they came before it was noted."""
        over = [future for after, future in self._waiting if after != checkpoint]
        self._waiting = [(after, future) for after, future in self._waiting if after == checkpoint]
        for future in over:
            if not future.done():
                future.set_result(kept)
        if self._waiting:
            self.want()

    def go_back(self) -> None:
        """Be as in the last decided checkpoint: a worker has died, and outputs have left that no log has."""
        for part in self._gathered:
            part.go_back()

    # -- the end

    async def close(self, *, in_order: bool) -> None:
        """Give back the store and the threads. `in_order`: the worker ends as it should. Raises StoreBroken."""
        for task in self._work:
            task.cancel()
        for _, future in self._waiting:
            future.cancel()
        if self.store is None:
            return
        store = self.store
        try:
            if in_order:
                await self.call(store.ended_in_order)
        except StoreFull as error:
            self.room_of_store.checkpoint_full(str(error))
        finally:
            await self.threads.close(store.close)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._loop.create_task(work, name=name)
        self._work.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broke(error)

    def _broke(self, error: BaseException) -> None:
        """Keep nothing any more (P13). The checkpoint under way is given up, unless it is decided."""
        self._why_broken = str(error)
        self.failed(error)
        if self._underway is not None:
            self.answers.unprepared(self._underway.number, self._why_broken)
