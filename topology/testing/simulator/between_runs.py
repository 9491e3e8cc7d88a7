"""Hazards between two runs of one simulation, and drains, which bring a run to an orderly end: drawn from the seed.

A run is drained at any time, also before it has read anything. Starts come to nothing, and each has spent an
incarnation (A20). The wall clock is set, back or forth. A checkpoint that a run has kept is what a later run begins
from (P15). Must not know workers.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final

from topology.storage.directory.state_dir import StateDir
from topology.testing.simulator.faults import Hazard

DRAINS_MAX: Final = 1  # of one simulation, and a few more soon after the beginning of a run
SOON: Final = 0.35  # chance that a run is drained soon, after one that was drained
SOON_S: Final = 1.2  # seconds of a run that is drained soon, at most
STARTS: Final = (1, 2, 2_047, 2_048, 2_049, 4_096)  # a root has 12 bits of an incarnation
STEPS_S: Final = (-86_400.0, -3_600.0, -1.0, 0.5, 90.0, 86_400.0)  # of the wall clock
CHANCE: Final = 0.3  # of each of these two, between two runs
KEPT_MAX: Final = 3  # checkpoints that the runs of one simulation keep
SOON_FROM: Final = 0.5  # chance that a run is drained soon after it has kept one
FROM: Final = 0.7  # chance that a run begins from a kept one, if there is any


@dataclass
class BetweenRuns:
    """The draws of one simulation. `drains` and `keeps` say after how many messages a run is drained, and keeps a
    checkpoint; those that are to come."""

    random: Random
    hazards: Collection[Hazard]
    drains: list[int]
    keeps: list[int]
    of_kept: Random
    again: bool = False  # whether a run was drained, and the next one may be drained soon

    def soon(self) -> float | None:
        """Return after how many seconds the run that begins now is drained, however little it has done; None if it
        is not."""
        again, self.again = self.again, False
        return self.random.uniform(0, SOON_S) if again and self.random.random() < SOON else None

    def step(self) -> timedelta:
        """Return by how much the wall clock is set before the next run."""
        happens = Hazard.CLOCK_STEP in self.hazards and self.random.random() < CHANCE
        return timedelta(seconds=self.random.choice(STEPS_S) if happens else 0)

    def starts_in_vain(self, state: StateDir) -> int:
        """Spend incarnations, as starts do that come to nothing. Return how many."""
        if Hazard.VAIN_STARTS not in self.hazards or self.random.random() >= CHANCE:
            return 0
        count = self.random.choice(STARTS)
        state._manifest.incarnation += count - 1
        state.next_incarnation()
        return count

    def after_kept(self) -> float | None:
        """Return in how many seconds the run that has kept a checkpoint is drained; None if it is not."""
        happens = Hazard.DRAIN in self.hazards and self.of_kept.random() < SOON_FROM
        return self.of_kept.uniform(0, SOON_S) if happens else None

    def begins_from(self, kept: Sequence[str]) -> str | None:
        """Return which of the kept checkpoints the next run begins from; None if it continues."""
        happens = Hazard.SAVEPOINT in self.hazards and kept and self.of_kept.random() < FROM
        return self.of_kept.choice(kept) if happens else None

    def heal(self) -> None:
        """Cause nothing more from now on."""
        self.hazards, self.again = (), False
        self.drains.clear()
        self.keeps.clear()


def drawn(seed: int, hazards: Collection[Hazard], messages: int) -> BetweenRuns:
    """Return what happens between the runs of this seed's simulation, of so many messages."""
    random, of_kept = Random(f"between the runs of {seed}"), Random(f"kept checkpoints of {seed}")
    drains = random.randint(0, DRAINS_MAX) if Hazard.DRAIN in hazards else 0
    keeps = of_kept.randint(0, KEPT_MAX) if Hazard.SAVEPOINT in hazards else 0
    return BetweenRuns(
        random,
        hazards,
        drains=sorted(random.randrange(messages) for _ in range(drains)),
        keeps=sorted(of_kept.randrange(messages) for _ in range(keeps)),
        of_kept=of_kept,
    )
