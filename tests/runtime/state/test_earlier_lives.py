"""What the death of a home means for what others know of its messages (D4, P4)."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from letters_kit import until
from positions_kit import Counted, Stuck, numbers_of
from runtime_kit import Number, Totals

from topology import Message, Positions, Task, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, Crash, Watch, run_topology

FIRST = 40  # messages that the first life gives, of which none is done when it dies


class Hesitant(Counted):
    """The first life gives some numbers, and then waits until it dies; the next one waits before each poll, too."""

    def __init__(self, count: int, wait_s: float) -> None:
        super().__init__(count)
        self.lives = 0
        self.wait_s = wait_s

    def open(self, task: Task, positions: Positions) -> None:
        super().open(task, positions)
        self.lives += 1

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        if self.lives == 1 and self.next == FIRST:
            await asyncio.sleep(10_000)
        await asyncio.sleep(self.wait_s if self.lives > 1 else 0.01)
        return await super().poll(min(limit, 10))


def remembering(spout: Any, stuck: set[int]) -> tuple[Topology, Captured[Number]]:
    """Totals of every second number are in another worker than the source; what is stuck is behind them."""
    topology, captured = Topology("lives"), Captured[Number]()
    totals = topology.bolt("totals", Totals(), topology.spout("numbers", spout).fields("n"), tasks=2)
    keys = topology.bolt("stuck", Stuck(stuck), totals.shuffle(), concurrency=512)
    topology.bolt("captured", captured, keys.shuffle())
    return topology, captured


@pytest.mark.parametrize("seed", range(3))
def test_a_bolt_that_lives_on_does_not_count_twice_what_a_dead_home_gives_again_after_a_while_D4(
    tmp_path: Path, seed: int
) -> None:
    """The first frontier with a note of its new life has all that that has emitted, and none of what it will give
    again."""
    stuck, spout, watch = {1}, Hesitant(FIRST, wait_s=3.0), Watch()
    topology, captured = remembering(spout, stuck)

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: spout.lives == 2)
        stuck.clear()

    run_topology(
        topology,
        seed=seed,
        workers=2,
        state_dir=tmp_path,
        crashes=[Crash("numbers", at_s=1)],
        during=during,
        watch=watch,
    )
    assert len(watch.deaths) == 1
    assert Counter(watch.state("totals").values()) == {1: FIRST}, "each number once"
    assert set(numbers_of(captured)) == {1}


def test_a_run_that_drains_before_a_new_life_has_given_all_again_is_not_over_D4_B11(tmp_path: Path) -> None:
    """It has come further than any mark. What the dead life had given beyond is in no mark, and counted already."""
    spout, watch = Hesitant(FIRST, wait_s=0.1), Watch()

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: spout.lives == 2 and spout.next in (10, 20))
        run.drain()

    first, _ = remembering(spout, set())
    crash = Crash("numbers", at_s=0.033)  # when it has given 30, and no commit has kept a mark
    report = run_topology(first, workers=2, state_dir=tmp_path, crashes=[crash], during=during)
    assert (report.ended, report.aborted, spout.next < 30) == ("stopped", 0, True), "not all again"
    assert not report.clean
    again, _ = remembering(Hesitant(FIRST, wait_s=0.0), set())
    again.components[0].prototype.lives = 1
    assert run_topology(again, workers=2, state_dir=tmp_path, watch=watch).clean
    assert Counter(watch.state("totals").values()) == {1: FIRST}, "each number once"
