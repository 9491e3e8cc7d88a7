"""The faults of a simulated run, and their times: all are drawn from one seed before anything happens.

A strike waits until so many messages are done, so that it hits a run of any speed. Its text explains a failing seed.
Must not know how a strike is carried out.
"""

import enum
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from topology.runtime.links.protocol import Frame
from topology.testing.simulator.steps import Step

STRIKES_MAX: Final = 6  # in one run
AT_STEP: Final = 0.5  # chance that a strike hits at a step of a checkpoint
AGAIN: Final = 0.3  # chance that such a strike is followed by another one, at a step of the next checkpoint
FRAME_S: Final = 0.002  # seconds that a frame takes at most, without a fault
LATE_S: Final = 0.3  # seconds for a delayed frame
LOST_MAX: Final = 4  # frames of a run: each costs a worker its life


class Hazard(enum.Enum):
    """One kind of fault. `simulate` draws from `ALL` by default. The value says what happens; `SimReport.faults` has
    the name.

        simulate(make, seed=7, faults=[Hazard.CRASH, Hazard.POWER_LOSS])
    """

    CRASH = "a worker is killed"
    PAUSE = "a worker stands still, and wakes"
    HANG = "a worker stands still for so long that it is killed"
    KILL_ALL = "all processes are killed"
    POWER_LOSS = "the power is lost"
    DISK_FULL = "the disk is full for a while"
    SYNC_FAILS = "a sync of the disk fails"
    LOST_FRAME = "a frame between two workers is lost"
    LATE_FRAMES = "frames are late, and overtake each other"
    REPEATED_FRAMES = "frames arrive twice"
    DRAIN = "the run is drained, and begins again"
    VAIN_STARTS = "starts come to nothing"
    CLOCK_STEP = "the wall clock is set"
    SAVEPOINT = "the run begins again from a checkpoint that was kept"


ALL: Final = tuple(Hazard)
OF_LINKS: Final = {Hazard.LOST_FRAME: 0.004, Hazard.LATE_FRAMES: 0.05, Hazard.REPEATED_FRAMES: 0.1}  # chance per frame

BETWEEN_RUNS: Final = frozenset(
    {Hazard.DRAIN, Hazard.VAIN_STARTS, Hazard.CLOCK_STEP, Hazard.SAVEPOINT}
)  # see `between_runs`


@dataclass(frozen=True)
class Strike:
    """One fault, at the first moment at which `after` messages are done and it hits something; with a `step`, as a
    checkpoint has come there."""

    hazard: Hazard
    after: int
    worker: int
    seconds: float
    step: Step | None = None

    def __str__(self) -> str:
        who = f" (worker {self.worker})" if self.hazard in (Hazard.CRASH, Hazard.PAUSE, Hazard.HANG) else ""
        long = f" for {self.seconds:.3g} s" if self.hazard in (Hazard.PAUSE, Hazard.HANG, Hazard.DISK_FULL) else ""
        return f"{self.hazard.value}{who}{long}, once {self.after} messages are done"


def draw_strikes(
    random: Random, hazards: Collection[Hazard], workers: Sequence[int], messages: int
) -> tuple[list[Strike], dict[Hazard, float]]:
    """Return the strikes of one run, in their order, and the chance of each fault per frame."""
    links = {hazard: chance * random.choice([0.3, 1, 3]) for hazard, chance in OF_LINKS.items() if hazard in hazards}
    chosen = random.sample(
        sorted(links, key=lambda hazard: hazard.name), random.randint(min(1, len(links)), len(links))
    )
    kinds = [hazard for hazard in ALL if hazard in hazards and hazard not in OF_LINKS and hazard not in BETWEEN_RUNS]
    count = random.randint(min(2, len(kinds)), STRIKES_MAX) if kinds else 0
    drawn = random.sample(kinds, min(2, len(kinds)))  # at least two kinds
    strikes = []
    for hazard in (*drawn, *random.choices(kinds, k=count))[:count]:
        seconds = random.uniform(3.5, 8) if hazard is Hazard.HANG else random.choice([0.01, 0.3, 1.5, 2.5])
        after, worker = random.randrange(max(1, messages * 9 // 10)), random.choice(workers)
        step = random.choice([*Step]) if random.random() < AT_STEP else None
        strikes.append(Strike(hazard, after, worker, seconds, step))
        if step is not None and random.random() < AGAIN:
            strikes.append(Strike(hazard, after, random.choice(workers), seconds, random.choice([*Step])))
    return sorted(strikes, key=lambda strike: strike.after), {hazard: links[hazard] for hazard in chosen}


class FaultyLinks:
    """`memory.Faults`: decides what happens to each frame, until `healed`."""

    def __init__(self, random: Random, chances: dict[Hazard, float], hits: Counter[Hazard]) -> None:
        self.healed = False
        self._random = random
        self._chances = chances
        self._hits = hits

    def __call__(self, frame: Frame) -> Sequence[float]:
        delays = [self._random.uniform(0, FRAME_S)]
        if self.healed:
            return delays
        if self._happens(Hazard.LOST_FRAME) and self._hits[Hazard.LOST_FRAME] < LOST_MAX:
            self._hits[Hazard.LOST_FRAME] += 1
            return ()
        if self._happens(Hazard.LATE_FRAMES):
            self._hits[Hazard.LATE_FRAMES] += 1
            delays[0] += self._random.uniform(0, LATE_S)
        if self._happens(Hazard.REPEATED_FRAMES):
            self._hits[Hazard.REPEATED_FRAMES] += 1
            delays.append(self._random.choice([delays[0], self._random.uniform(0, LATE_S)]))
        return delays

    def _happens(self, hazard: Hazard) -> bool:
        chance = self._chances.get(hazard)
        return chance is not None and self._random.random() < chance
