"""The coordinator of a run's checkpoints: it takes one after the other, and decides each.

1. Every worker notes which of its messages are done. 2. Only when all have answered, the frontier goes to all. 3. Each
worker gathers a snapshot, and 4. keeps it. 5. Only when all have, the checkpoint is decided, durably and in one place,
and all hear it. The next one begins after all have taken that in. A death gives the present one up.

Loop and clock are the caller's. Must not know workers, nor how they are reached.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from acker.frontier import EMPTY, Frontier, Note
from topology.codes.runtime import CHECKPOINT_OVERDUE, LAST_POSITIONS_NOT_KEPT, SLOW_CHECKPOINT
from topology.runtime.telemetry.metrics import CheckpointFigures
from topology.storage.store import StoreFull

LATE_S: Final = 10.0  # seconds after which a checkpoint that is not decided is reported; then after twice as long
SLOW_S: Final = 1.0  # seconds; a checkpoint that has taken longer has a line in the log
AGAIN_FIRST_S: Final = 0.1  # before a checkpoint that was given up is tried again; doubled up to AGAIN_LAST_S
AGAIN_LAST_S: Final = 5.0
# The share of the time that checkpoints take at most, as long as that puts them no more than PACED_S apart. Each packs
# and writes the keys that have changed, beside the loop. The price is that more is read again after a death.
SHARE_MAX: Final = 0.2
PACED_S: Final = 1.0
IDLE_AFTER: Final = 5  # checkpoints in a row in which nothing had changed; then the next one may take
IDLE_S: Final = 1.0  # so long, if none is wanted: an idle run has as little to do as it can
WANTED_S: Final = 0.002  # between two checkpoints at least: those who want one come together

# What a worker has to do for each step, in the words of "worker 2 has not …".
NOTE: Final = "noted what is done"
KEEP: Final = "kept what has changed"
DECIDE: Final = "decided"
SETTLE: Final = "taken the decision in"
COPY: Final = "copied its store"

T = TypeVar("T")

logger = logging.getLogger("kedge")


class Member(Protocol):
    """One worker, as the coordinator reaches it. Nothing here blocks; answers come by the coordinator's methods."""

    @property
    def worker(self) -> int: ...
    def ask_note(self, checkpoint: int) -> None: ...
    def send_barrier(self, frontier: Frontier, *, alone: bool) -> None: ...
    def send_decided(self, checkpoint: int) -> None: ...
    def send_given_up(self, checkpoint: int) -> None: ...
    def send_copy(self, checkpoint: int, folder: Path) -> None: ...


@dataclass(frozen=True)
class CheckpointFacts:
    """The last decided checkpoint: its number, its bytes and its seconds. It was decided at `current_at` of the loop's
    clock, or nothing had changed since then. This run has decided `taken` ones, of `bytes_max` and `seconds_max` at
    most; at 0 the last one is of an earlier run."""

    checkpoint: int = 0
    current_at: float = 0.0
    bytes: int = 0
    seconds: float = 0.0
    taken: int = 0
    bytes_max: int = 0
    seconds_max: float = 0.0

    def next(self, checkpoint: int, decided_at: float, size: int, seconds: float) -> "CheckpointFacts":
        """Return the facts after a further one."""
        most = max(self.bytes_max, size), max(self.seconds_max, seconds)
        return CheckpointFacts(checkpoint, decided_at, size, seconds, self.taken + 1, *most)

    def figures(self, now: float) -> CheckpointFigures | None:
        """Return what people see of them at this moment of the loop's clock; None before this run has decided one."""
        if not self.taken:
            return None
        age_s = max(0.0, now - self.current_at)
        most = self.bytes_max, self.seconds_max
        return CheckpointFigures(self.checkpoint, age_s, self.bytes, self.seconds, self.taken, *most)


class _Unchanged(Exception):
    """Nothing has changed in any worker: there is nothing to decide."""


class GivenUp(Exception):
    """The checkpoint under way will not be decided; the text says why."""


class Coordinator:
    """The checkpoints of one run. Make it in a running loop, and run `run` as a task.

    `members` returns all workers, or None while one of them is away. `decide` makes a decision durable; if it raises
    StoreFull, the checkpoint is given up. `first` is the last one that was decided before. `facts` has the last one of
    this run.
    """

    def __init__(
        self,
        members: Callable[[], Sequence[Member] | None],
        decide: Callable[[int], Awaitable[None]],
        *,
        first: int,
        every_s: float,
    ) -> None:
        self.facts = CheckpointFacts(first)
        self._members, self._decide, self._every_s = members, decide, every_s
        self._loop = asyncio.get_running_loop()
        self._last = first
        self.frontier = EMPTY  # of the last one that was decided in this run
        self._present: tuple[int, str] = (0, "")  # the checkpoint under way, and its step
        self._waits_for: set[int] = set()  # workers that have not answered
        self._answers: asyncio.Future[None] | None = None
        self._notes: dict[int, Note] = {}
        self._copies: dict[int, int] = {}  # worker → the commits in its copy
        self._problems: list[str] = []  # of copies
        self._bytes = 0
        self._given_up = ""  # why the last one was
        self._ends = ""  # why the present step does not count, though all have answered
        self._trying_since = float("inf")  # of the first one that was given up since the last decided one
        self._late_s = LATE_S  # after so many seconds of that, it is reported
        self._unchanged = 0  # checkpoints in a row in which nothing had changed
        self._is_quiet = False  # whether all workers that have answered have nothing new
        self._wanted = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._taking: asyncio.Task[Any] | None = None
        self._watch: asyncio.TimerHandle  # over the checkpoint under way, or the copy of it
        self._broken: BaseException | None = None  # with which a decision has failed: it is unknown whether it is made

    def wanted(self) -> None:
        """Take a checkpoint soon: a worker waits for it."""
        self._wanted.set()

    async def run(self) -> None:
        """Take checkpoints, until cancelled. Raises what `decide` raises."""
        again_s = AGAIN_FIRST_S
        while True:
            begun_at = self._loop.time()
            if await self.take():
                took_s, again_s = self._loop.time() - begun_at, AGAIN_FIRST_S
                self._trying_since, self._late_s = float("inf"), LATE_S
                await asyncio.sleep(WANTED_S)
                await self._due(begun_at + self._until_next(took_s))
            else:
                self._report_given_up(begun_at)
                await asyncio.sleep(again_s)
                again_s = min(2 * again_s, AGAIN_LAST_S) if self._members() else AGAIN_FIRST_S

    def _until_next(self, took_s: float) -> float:
        """Return the seconds from the begin of a checkpoint that has taken so long to that of the next one."""
        if self._unchanged >= IDLE_AFTER:
            return max(self._every_s, IDLE_S)
        return max(self._every_s, min(took_s / SHARE_MAX, PACED_S))

    async def _due(self, at: float) -> None:
        if not self._wanted.is_set():
            try:
                async with asyncio.timeout_at(at):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def take(self) -> bool:
        """Take one checkpoint, after the one under way. Return False if it was given up, or a worker is away. Raises
        what `decide` raises, and so does each later call: no worker may prepare another checkpoint over one that may be
        decided. If the caller is cancelled, the checkpoint goes on: one that is decided must be told."""
        return await self._to_its_end(self._take_next())

    async def take_last(self) -> bool:
        """Take the last checkpoint of a run in which nothing goes on. Return False if it was given up. Raises what
        `take` raises."""
        kept = await self.take() or await self.take()  # a store may have made room itself
        if kept:
            await self.take()  # sub-trees whose messages that one has; mostly there are none, and nothing has changed
        return kept

    async def copies(self, folder: Path) -> dict[int, int]:
        """Take a checkpoint, and have every worker copy its store into a folder before the next one begins. Return the
        number of commits in the copy of each worker. Raises GivenUp, after which a worker may still be copying, and
        what `decide` raises. If the caller is cancelled, the copies go on."""
        return await self._to_its_end(self._take_and_copy(folder))

    async def settle(self) -> None:
        """Wait until no checkpoint is under way. Does not raise what that has raised."""
        if self._taking is not None:
            await asyncio.wait({self._taking})

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        self._taking = taking = self._loop.create_task(work, name="checkpoint")
        taking.add_done_callback(_looked_at)
        return await asyncio.shield(taking)

    async def _take_next(self) -> bool:
        async with self._one_at_a_time:
            return await self._take()

    async def _take_and_copy(self, folder: Path) -> dict[int, int]:
        try:
            async with asyncio.timeout(LATE_S):
                await self._one_at_a_time.acquire()
        except TimeoutError:
            raise GivenUp(self._late(*self._present, LATE_S)) from None
        try:
            if not await self._take():
                raise GivenUp(f"no checkpoint could be taken now: {self._given_up}")
            members = self._members()
            if not members:
                raise GivenUp("a worker is away")
            self._copies, self._problems = {}, []
            checkpoint = self._last
            self._watch = self._loop.call_later(LATE_S, self._report_late, checkpoint, LATE_S)
            try:
                await self._all(checkpoint, COPY, members, lambda member: member.send_copy(checkpoint, folder))
            finally:
                self._watch.cancel()
                self._present, self._answers = (0, ""), None
            if self._problems:
                raise GivenUp("; ".join(self._problems))
            return self._copies
        finally:
            self._one_at_a_time.release()

    async def _take(self) -> bool:
        self._wanted.clear()
        if self._broken is not None:
            raise self._broken
        members = self._members()
        if not members:
            self._given_up = "a worker is away"
            return False
        self._last += 1
        self._watch = self._loop.call_later(LATE_S, self._report_late, self._last, LATE_S)
        try:
            await self._taken(self._last, members)
        except (GivenUp, _Unchanged) as why:
            self._given_up = str(why)
            self._unchanged = self._unchanged + 1 if isinstance(why, _Unchanged) else 0
            for member in self._members() or ():
                member.send_given_up(self._last)
            return isinstance(why, _Unchanged)
        finally:
            self._watch.cancel()
            self._present, self._answers = (0, ""), None
        self._unchanged = 0
        return True

    async def _taken(self, checkpoint: int, members: Sequence[Member]) -> None:
        begun_at = self._loop.time()
        self._notes, self._bytes, self._is_quiet = {}, 0, True
        alone = len(members) == 1
        await self._all(checkpoint, NOTE, members, lambda member: member.ask_note(checkpoint))
        if self._is_quiet:
            self.facts = replace(self.facts, current_at=self._loop.time())
            raise _Unchanged
        frontier = Frontier(checkpoint, dict(self._notes))
        await self._all(checkpoint, KEEP, members, lambda member: member.send_barrier(frontier, alone=alone))
        if self._bytes and not alone:
            self._present = checkpoint, DECIDE
            try:
                await self._decide(checkpoint)
            except StoreFull as error:
                raise GivenUp(str(error)) from error
            except BaseException as error:
                self._broken = error
                raise
        self.frontier = frontier
        decided_at = self._loop.time()
        self.facts = self.facts.next(checkpoint, decided_at, self._bytes, decided_at - begun_at)
        if decided_at - begun_at > SLOW_S:
            text = "checkpoint %d took %.1f s, with %s bytes (%s)"
            logger.warning(text, checkpoint, decided_at - begun_at, f"{self._bytes:,}", SLOW_CHECKPOINT)
        with contextlib.suppress(GivenUp):  # a death now changes nothing: the next life begins as of the decision
            await self._all(checkpoint, SETTLE, members, lambda member: member.send_decided(checkpoint))

    async def _all(self, checkpoint: int, step: str, members: Sequence[Member], ask: Callable[[Member], None]) -> None:
        """Ask all members something, and wait until all have answered. Raises GivenUp."""
        self._present, self._ends = (checkpoint, step), ""
        self._waits_for = {member.worker for member in members}
        self._answers = answers = self._loop.create_future()
        for member in members:
            ask(member)
        await answers
        if self._ends:
            raise GivenUp(self._ends)

    # -- answers

    def noted(self, worker: int, checkpoint: int, note: Note, quiet: bool) -> None:
        """A worker has noted which of its messages are done. `quiet`: nothing has changed there."""
        if self._is_asked(worker, checkpoint, NOTE):
            self._notes[worker] = note
            self._is_quiet = self._is_quiet and quiet
            self._answered(worker)

    def prepared(self, worker: int, checkpoint: int, size: int, seconds: float) -> None:
        """A worker has kept its part: so many bytes; 0 if nothing had to be kept."""
        if self._is_asked(worker, checkpoint, KEEP):
            self._bytes += size
            self._answered(worker)

    def settled(self, worker: int, checkpoint: int) -> None:
        """A worker has taken the decision in."""
        if self._is_asked(worker, checkpoint, SETTLE):
            self._answered(worker)

    def unprepared(self, worker: int, checkpoint: int, why: str) -> None:
        """A worker could not keep its part now: the checkpoint is none."""
        if self._present[0] == checkpoint:
            self.give_up(f"worker {worker}: {why}")

    def copied(self, worker: int, checkpoint: int, commits: int, problem: str) -> None:
        """A worker has copied its store, with so many commits in it, or could not."""
        if self._is_asked(worker, checkpoint, COPY):
            self._copies[worker] = commits
            self._problems += [f"worker {worker}: {problem}"] if problem else []
            self._answered(worker)

    def give_up(self, why: str) -> None:
        """Give the checkpoint under way up, as a worker has died. One that is decided stays decided.

        That may be in the turn of the loop in which the last worker has answered: what a process has said before its
        end is read with the news of its end."""
        if self._answers is None:
            return
        if self._answers.done():
            self._ends = self._ends or why
        else:
            self._answers.set_exception(GivenUp(why))

    def _is_asked(self, worker: int, checkpoint: int, step: str) -> bool:
        return self._present == (checkpoint, step) and worker in self._waits_for

    def _answered(self, worker: int) -> None:
        self._waits_for.discard(worker)
        if not self._waits_for and self._answers is not None and not self._answers.done():
            self._answers.set_result(None)

    # -- what takes long (P16)

    def _report_late(self, checkpoint: int, late_s: float) -> None:
        """Say what the checkpoint under way waits for."""
        present, step = self._present
        if present != checkpoint:
            return
        _overdue(self._late(checkpoint, step, late_s))
        self._watch = self._loop.call_later(late_s, self._report_late, checkpoint, 2 * late_s)

    def _late(self, checkpoint: int, step: str, late_s: float) -> str:
        """Return what a step waits for, in a sentence."""
        workers = [f"worker {worker}" for worker in sorted(self._waits_for)]
        who = f"{' and '.join(workers)} {'has' if len(workers) == 1 else 'have'} not {step}"
        if step == DECIDE:
            who = "the decision is not on the disk yet"
        text = f"checkpoint {checkpoint} is not decided after {late_s:.0f} s: {who}"
        if step == COPY:
            text = f"the copy of checkpoint {checkpoint} is not ready after {late_s:.0f} s: {who}"
        elif step == SETTLE:
            text = f"checkpoint {checkpoint} is decided, and the next one waits: after {late_s:.0f} s {who}"
        return text

    def _report_given_up(self, begun_at: float) -> None:
        """Say why each checkpoint is given up, if none was decided for long."""
        self._trying_since = min(self._trying_since, begun_at)
        late_s = self._loop.time() - self._trying_since
        if late_s >= self._late_s:
            self._late_s *= 2
            _overdue(f"no checkpoint was decided for {late_s:.0f} s, and the last one was given up: {self._given_up}")


def report_no_last(why: str) -> None:
    """Say that the last checkpoint of a run could not be taken."""
    text = "the next run repeats what was done since the last positions were kept: %s (%s)"
    logger.warning(text, why, LAST_POSITIONS_NOT_KEPT)


def _overdue(text: str) -> None:
    logger.warning("%s (%s)", text, CHECKPOINT_OVERDUE)


def _looked_at(taking: "asyncio.Task[Any]") -> None:
    """Take note of the error, for which no caller may wait any more."""
    if not taking.cancelled():
        taking.exception()
