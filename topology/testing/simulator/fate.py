"""The draws of one simulation, and their effects so far: of all its runs, one after the other.

Must not know how a fault is carried out, nor what a run's result should be.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from topology.core.tuples import Tuple
from topology.runtime.telemetry.stall import held
from topology.runtime.worker.facts import facts_of
from topology.storage.dead_questions import DeadAnswer
from topology.testing.simulator.between_runs import BetweenRuns
from topology.testing.simulator.disk import ROOT, SimulatedDisk
from topology.testing.simulator.faults import FaultyLinks, Hazard, Strike
from topology.testing.simulator.files import SimulatedFiles
from topology.testing.simulator.sinks import SimulatedSinks

STATE_DIR: Final = ROOT / "state"
KINDS_MIN: Final = 2  # of faults that hit a run, if so many were drawn
NEARLY: Final = 0.75  # of its messages are done: a run is nearly over
STEP_S: Final = 2.0  # seconds that a strike waits for its step of a checkpoint; then it strikes at any time


@dataclass
class Fate:
    """The faults of one simulation over all its runs, and their effects so far."""

    random: Random
    messages: int  # that the sources give, all in all
    strikes: list[Strike]  # those that are to come, in their order
    order_s: float  # seconds that an order to a worker, or its answer, takes at most
    drops: bool  # whether the dead letters are dropped in the end
    by_hand: list[int]  # after how many messages all dead letters are replayed by hand
    links: FaultyLinks
    hits: Counter[Hazard]
    disk: SimulatedDisk
    files: SimulatedFiles
    between: BetweenRuns
    dies: bool  # whether some messages end dead
    sinks: SimulatedSinks
    poll_s: float = 0.001  # seconds between two polls of a source
    orders_late: float = 0.0  # share of the orders to workers that are late: tuples overtake a barrier (P1)
    answers_twice: float = 0.0  # share of the answers that arrive once more (P6)
    paths: Counter[str] = field(default_factory=Counter)  # rare code paths that were taken
    events: list[str] = field(default_factory=list)  # what has hit, and when, for people
    trace: Any = field(default_factory=hashlib.sha256)
    acked: int = 0  # by workers and runs that are gone
    healed: bool = False
    commits: dict[int, int] = field(default_factory=dict)  # worker → commits that its store has reported as durable
    done: dict[int, float] = field(default_factory=dict)  # root → when its tree was complete, in this run
    seen: Counter[str] = field(default_factory=Counter)  # of each Captured: how many tuples came in earlier runs
    refused: list[Tuple[Any]] = field(default_factory=list)  # tuples rejected as stale, since the last turn of the loop
    run: Any = None  # the present run, or the last one
    waiting: tuple[int, float] = 0, 0.0  # how many strikes are left, and since when the next one waits for its step
    is_last: bool = False  # True in the run after which nothing is left to do
    states: Mapping[str, Mapping[bytes, Any]] = field(default_factory=dict)  # of bolts, when the last run had ended
    memory_lost: bool = False  # True if what is only in workers' memory has been lost
    went_back: bool = False  # True if a run has gone back, perhaps beyond outputs that had left

    def in_flight(self) -> str:
        """Return where everything unfinished is, in a sentence."""
        workers = self.run.workers if self.run is not None else []
        return held(facts_of(workers[0].clock.monotonic(), workers)) if workers else "nothing is known"

    def tell(self, now: float, text: str) -> None:
        self.events.append(f"{now:9.4f} s  {text}")
        self.trace.update(f"{now:.9f} {text}\n".encode())

    def by_hand_done(self, now: float, answer: DeadAnswer) -> None:
        if answer.names:
            self.tell(now, f"{len(answer.names)} dead letters are replayed by hand")
            self.paths["letters replayed by hand"] += len(answer.names)

    def dropped(self, now: float, answer: DeadAnswer) -> None:
        if answer.names:
            self.tell(now, f"{len(answer.names)} dead letters are dropped")
            self.paths["letters dropped"] += len(answer.names)

    def waits_for_step(self, strike: Strike, now: float) -> bool:
        """Return True if the next strike waits for its step of a checkpoint; it does not wait for ever."""
        if self.waiting[0] != len(self.strikes):
            self.waiting = len(self.strikes), now
        return strike.step is not None and now - self.waiting[1] < STEP_S

    def hasty(self, done: int, *, is_over: bool) -> list[Strike]:
        """Return the strikes that take any worker and wait for no step, at the end of a run that fewer than KINDS_MIN
        kinds of faults have hit: the next one may wait for a worker that has nothing to do any more. `done`: messages;
        `is_over` is True if all sources have ended."""
        if len(+self.hits) >= KINDS_MIN:
            return []
        is_nearly_over = done >= self.messages * NEARLY
        return [strike for strike in self.strikes if is_over or (is_nearly_over and not self.hits[strike.hazard])]

    def heal(self) -> None:
        """Cause no more faults from now on."""
        self.healed = self.links.healed = True
        self.between.heal()
        self.disk.full = False
        self.disk.failing_syncs = 0
        self.strikes.clear()

    def new_machine(self, *, power: bool) -> None:
        """Handle the death of all processes. With `power`, what was not synced is lost too."""
        self.files.end_all()
        if power:
            self.disk.lose_power()
        self.files = SimulatedFiles(self.disk, self.random)
