"""What the death of a home means for what others remember of its messages, and how far a source is ahead of its marks.
Rules D4, D5."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from letters_kit import Trying, run_kept, store_at, until
from positions_kit import Counted, Stuck, numbers_of
from runtime_kit import Number, Totals, built

from topology import Message, Positions, Task, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.tasks.read_ahead import AHEAD_MIN
from topology.storage.values import Changes
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


def remembered_by(run: EmbeddedRun, life: int) -> int:
    """How many inputs bolts remember of messages of this life, or an earlier one."""
    found = 0
    for worker in run.workers:
        for executor in worker.tasks_of("totals"):
            entries = executor.memory.entries.values()  # type: ignore[attr-defined]
            found += sum(min(entry.messages) >> 32 <= life for entry in entries)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_bolt_that_lives_on_does_not_count_twice_what_a_dead_home_gives_again_after_a_while_D4(
    tmp_path: Path, seed: int
) -> None:
    """Its first announcement covers all that was emitted before; had the bolt forgotten it then, it would be new."""
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


class Forgetful(Hesitant):
    """Has lost its first messages by the second life."""

    def __init__(self, count: int, lost: int) -> None:
        super().__init__(count, wait_s=0.5)
        self.lost = lost

    def open(self, task: Task, positions: Positions) -> None:
        super().open(task, positions)
        if self.lives > 1:
            self.next = self.lost


@pytest.mark.parametrize("seed", range(3))
def test_what_is_remembered_for_a_life_that_is_over_is_kept_until_the_next_one_has_given_as_many_more_as_that_could(
    tmp_path: Path, seed: int
) -> None:
    stuck, spout = {1}, Forgetful(400, lost=8)
    topology, _ = remembering(spout, stuck)
    seen: list[tuple[int, int]] = []

    async def during(run: EmbeddedRun) -> None:
        life = (await built(run)).owner
        await until(lambda: spout.lives == 2)
        stuck.clear()
        while spout.next < spout.count:
            await asyncio.sleep(0.2)
            seen.append((spout.next, remembered_by(run, life)))

    run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=[Crash("numbers", at_s=5)], during=during)
    print(seen)
    enough = FIRST - 1 + AHEAD_MIN  # beyond the newest that was kept
    before = {left for given, left in seen if FIRST + 10 < given <= enough}
    assert before == {8}, "those that the source has lost"
    assert seen[-1][1] == 0


def test_a_source_waits_at_its_line_while_no_commit_is_kept_and_goes_on_with_the_next_D4(tmp_path: Path) -> None:
    """Each commit takes five seconds; the source gives up to ten thousand messages a second."""

    class Fast(Counted):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            await asyncio.sleep(0.001 * min(limit, 10))
            return await super().poll(min(limit, 10))

    spout, captured, topology = Fast(3_000), Captured[Number](), Topology("line")
    totals = topology.bolt("totals", Totals(), topology.spout("numbers", spout).fields("n"))
    topology.bolt("captured", captured, totals.shuffle())
    given, ahead = 0, 0  # as the last commit that is durable says
    beyond: list[int] = []
    why: set[str] = set()

    def written(changes: Changes) -> None:
        nonlocal given, ahead
        given = max((int(mark.newest) + 1 for mark in changes.marks), default=given)
        ahead = max((one.ahead for one in changes.begun), default=ahead)

    async def during(run: EmbeddedRun) -> None:
        asyncio.get_running_loop().executor_takes = lambda: 2.5  # type: ignore[attr-defined]
        spout_task = (await built(run)).spout_tasks["numbers", 0]
        while not spout_task.ended:
            await asyncio.sleep(0.01)
            beyond.append(spout.next - given - ahead)
            why.add(spout_task.pauses.reason)

    report = run_kept(topology, Trying(store_at(tmp_path), after=written), during=during)
    assert report.snapshot.total("acked") == 3_000
    assert max(beyond) == 0, "it has used what it was allowed, and no more"
    assert any("ahead of what is kept" in one for one in why)
