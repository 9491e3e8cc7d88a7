"""The checkpoints of a run on several processes: carries the coordinator's orders to workers, and their answers back.

A decision is made durable in a thread. A worker that dies meanwhile is dealt with afterwards, since the decision counts
for those that live and for what replaces the dead one. Must not know what a checkpoint has, nor how a process is
replaced.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from acker.frontier import EMPTY, Frontier
from topology.runtime.checkpoints.coordinator import CheckpointFacts, Coordinator, report_no_last
from topology.runtime.control.frontiers import packed_notes, unpacked_note
from topology.runtime.control.messages import (
    Barrier,
    CheckpointDecided,
    CheckpointGivenUp,
    CheckpointSettled,
    CheckpointWanted,
    CopyStore,
    HomeNote,
    Prepared,
    StoreCopied,
    TakeNote,
    Unprepared,
)
from topology.runtime.pausable_wait import first_of
from topology.runtime.supervisor.fleet import Fleet
from topology.runtime.supervisor.worker_handle import WorkerHandle
from topology.storage.directory.checks import store_name
from topology.storage.directory.decision import DecisionFile
from topology.storage.store import StoreFull

LAST_S: Final = 10.0  # seconds that the last checkpoint of a run may take
LOOK_S: Final = 0.01  # seconds between two looks for the end of a run whose decision failed


CheckpointWord = HomeNote | Prepared | Unprepared | CheckpointSettled | CheckpointWanted | StoreCopied


class Decisions(Protocol):
    """Keeps decisions."""

    @property
    def decided(self) -> int:
        """The last decided checkpoint."""
        ...

    def decide(self, checkpoint: int) -> None:
        """Decide a checkpoint, durably. Blocks. May be called from another thread."""


class UnkeptDecisions:
    """Decisions of a run that keeps nothing, or whose only worker keeps them itself. `first`: as for KeptDecisions."""

    def __init__(self, first: int = 0) -> None:
        self.decided = first

    def decide(self, checkpoint: int) -> None:
        self.decided = checkpoint


class KeptDecisions:
    """Decisions in the state directory. `first`: the last decided checkpoint of the runs before."""

    def __init__(self, file: DecisionFile, first: int) -> None:
        self.decided = first
        self._file = file

    def decide(self, checkpoint: int) -> None:
        self._file.decide(checkpoint)
        self.decided = checkpoint


class DecisionGate:
    """Holds back what follows from a death while a decision is made durable: it counts for those that live and for what
    replaces the dead one, so they have to know of it first.

    `decide` makes a decision durable. The coordinator calls `decide` of the gate, and tells all workers of the decision
    in the same turn of the loop. If `decide` fails for another reason than a full disk, it is unknown what is decided:
    nothing passes until `is_ending` returns True, since no worker may begin then.
    """

    def __init__(self, decide: Callable[[int], Awaitable[None]], is_ending: Callable[[], bool] = lambda: True) -> None:
        self._decide, self._is_ending = decide, is_ending
        self._loop = asyncio.get_running_loop()
        self._is_shut = False
        self._later: list[Callable[[], None]] = []

    async def decide(self, checkpoint: int) -> None:
        """Decide, and let pass what waits once all have been told. Raises what the decision raises."""
        self._is_shut = True
        try:
            await self._decide(checkpoint)
        except StoreFull:
            self._loop.call_later(0, self._open)
            raise
        except BaseException:
            self._loop.call_later(0, self._open_at_the_end)
            raise
        self._loop.call_later(0, self._open)

    def pass_on(self, call: Callable[[], None]) -> None:
        """Call this now, or once it is known what was decided."""
        if self._is_shut:
            self._later.append(call)
        else:
            call()

    def _open_at_the_end(self) -> None:
        if self._is_ending():
            self._open()
        else:
            self._loop.call_later(LOOK_S, self._open_at_the_end)

    def _open(self) -> None:
        self._is_shut = False
        later, self._later = self._later, []
        for call in later:
            call()


class RunCheckpoints:
    """All checkpoints of a run. Make it in a running loop, and call `attach` before the fleet begins. Run `run` as a
    task. Pass `died` to the fleet as its `before_death`."""

    def __init__(self, decisions: Decisions, *, every_s: float) -> None:
        self._decisions = decisions
        self._gate = DecisionGate(self._decide, lambda: self._fleet.closing)
        self._coordinator = Coordinator(self._members, self._gate.decide, first=decisions.decided, every_s=every_s)
        self._loop = asyncio.get_running_loop()
        self._barrier = EMPTY, Barrier(0, {})  # the last frontier, and the order for it
        self._is_last = False  # whether the last checkpoint is asked for
        self._why = ""  # the last reason for which one was given up

    def attach(self, fleet: Fleet) -> None:
        """Set who starts and ends workers."""
        self._fleet = fleet

    @property
    def decided(self) -> int:
        """Return the last decided checkpoint: a worker that begins now is as of that."""
        return self._coordinator.facts.checkpoint

    @property
    def frontier(self) -> Frontier:
        """Return the last frontier that was decided in this run."""
        return self._coordinator.frontier

    @property
    def facts(self) -> CheckpointFacts:
        """Return the facts of the last decided checkpoint."""
        return self._coordinator.facts

    async def run(self) -> None:
        """Take checkpoints from the start of the workers on, until cancelled. Raises what a decision raises."""
        await self._fleet.until(lambda: self._fleet.complete)
        await self._coordinator.run()

    async def last(self) -> bool:
        """Take one more checkpoint, of workers that have all stopped (E10). Return True if it is decided. If it can't
        be within LAST_S, or a worker dies, the next run repeats what is not in the one before. Raises what a decision
        raises."""
        self._is_last = True
        taking = self._loop.create_task(self._coordinator.take_last())
        try:
            kept = await first_of({taking}, LAST_S) and taking.result()
        finally:
            self._is_last = False
            taking.cancel()
        if not kept:
            report_no_last(self._why or "a worker has not answered in time")
        return kept

    async def copies(self, folder: Path) -> dict[int, int]:
        """As in Coordinator."""
        return await self._coordinator.copies(folder)

    # -- what the coordinator needs

    def _members(self) -> Sequence["HandleMember"] | None:
        fleet = self._fleet
        if not (fleet.has_stopped if self._is_last else fleet.complete and not fleet.closing):
            return None
        return [HandleMember(handle, self._barrier_of) for handle in fleet.handles.values()]

    def _barrier_of(self, frontier: Frontier, alone: bool) -> Barrier:
        """Return the order for a frontier, made once for all workers."""
        if self._barrier[0] is not frontier:
            self._barrier = frontier, Barrier(frontier.checkpoint, packed_notes(frontier), alone)
        return self._barrier[1]

    async def _decide(self, checkpoint: int) -> None:
        await asyncio.to_thread(self._decisions.decide, checkpoint)

    # -- what happens

    def died(self, why: str, then: Callable[[], None]) -> None:
        """A worker has died: the checkpoint under way is given up, unless it is being decided. Calls `then` once that
        is known and the coordinator has told all workers."""

        def go_on() -> None:
            self._why = why
            self._coordinator.give_up(f"a worker {why}")
            then()

        self._gate.pass_on(go_on)

    def heard(self, handle: WorkerHandle, word: CheckpointWord) -> None:
        """Handle what a worker says of a checkpoint."""
        worker, coordinator = handle.worker, self._coordinator
        match word:
            case HomeNote(checkpoint, note, quiet):
                coordinator.noted(worker, checkpoint, unpacked_note(note), quiet)
            case Prepared(checkpoint, size, seconds):
                coordinator.prepared(worker, checkpoint, size, seconds)
            case Unprepared(checkpoint, why):
                self._why = why
                coordinator.unprepared(worker, checkpoint, why)
            case CheckpointSettled(checkpoint):
                coordinator.settled(worker, checkpoint)
            case StoreCopied(checkpoint, commits, problem):
                coordinator.copied(worker, checkpoint, commits, problem)
            case CheckpointWanted():
                coordinator.wanted()


class HandleMember:
    """One process, as the coordinator reaches it: `coordinator.Member`."""

    def __init__(self, handle: WorkerHandle, barrier_of: Callable[[Frontier, bool], Barrier]) -> None:
        self._handle = handle
        self._barrier_of = barrier_of

    @property
    def worker(self) -> int:
        return self._handle.worker

    def ask_note(self, checkpoint: int) -> None:
        self._handle.say(TakeNote(checkpoint))

    def send_barrier(self, frontier: Frontier, *, alone: bool) -> None:
        self._handle.say(self._barrier_of(frontier, alone))

    def send_decided(self, checkpoint: int) -> None:
        self._handle.say(CheckpointDecided(checkpoint))

    def send_given_up(self, checkpoint: int) -> None:
        self._handle.say(CheckpointGivenUp(checkpoint))

    def send_copy(self, checkpoint: int, folder: Path) -> None:
        self._handle.say(CopyStore(checkpoint, str(folder / store_name(self.worker))))
