"""recovery='replay': state in memory, rebuilt from inputs that stay unacked until their key is cleared. Rule A19."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kept_kit import stored
from letters_kit import until
from runtime_kit import Flaky, Number, Pair

from topology import Bolt, Config, State, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Wait, Watch, run_topology


class Sums(Bolt):
    """Adds up what is right of a key, and gives the sum at the input that is 0, which ends the key."""

    recovery = "replay"
    holds_max = 100

    def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + pair.right)
        if pair.right == 0:
            yield Number(state.get(0))
            state.clear()


class Small(Sums):
    holds_max = 10


def summing(
    bolt: Bolt, script: list[Pair | Pause | Wait], *after: Bolt, config: Config | None = None
) -> tuple[Topology, Captured[Number], ScriptedSpout[Pair]]:
    topology, captured = Topology("sums", config or Config(max_replays=100)), Captured[Number]()
    spout = ScriptedSpout[Pair](script)
    stream = topology.bolt("bolt", bolt, topology.spout("pairs", spout).fields("left"))  # type: ignore[call-overload]
    for number, one in enumerate(after):
        stream = topology.bolt(f"after{number}", one, stream.shuffle())  # type: ignore[call-overload]
    topology.bolt("captured", captured, stream.shuffle())
    return topology, captured, spout


def pairs(keys: int, each: int) -> list[Pair | Pause | Wait]:
    """Of each key so many inputs, key after key, with the one that ends it, slowly."""
    script: list[Pair | Pause | Wait] = []
    for key in range(keys):
        for n in range(1, each + 1):
            script += [Pair(key, n), Pause(0.05)]
        script += [Pair(key, 0), Pause(0.05)]
    return script


def held(run: EmbeddedRun) -> int:
    return len(run.workers[0].executors["bolt", 0].held())


def test_an_input_is_acked_when_its_key_is_cleared_and_not_before_A19(tmp_path: Path) -> None:
    topology, captured, spout = summing(Sums(), [Pair(1, 5), Pair(2, 7), Pause(100), Pair(1, 0), Pause(100), Wait()])

    async def look(run: EmbeddedRun) -> None:
        await asyncio.sleep(90)
        assert spout.acked == []
        assert held(run) == 2
        await asyncio.sleep(20)
        assert sorted(spout.acked) == [0, 2]
        assert held(run) == 1
        await asyncio.sleep(80)
        run.drain()

    report = run_topology(topology, state_dir=tmp_path, during=look)
    assert report.snapshot.total("replayed") == 0, "what is held has no deadline"
    assert captured.records == [Number(5)]
    assert all(not one.rows.get("bolt") for one in stored(tmp_path)), "nothing of it is kept"


def test_what_another_workers_bolt_holds_has_no_deadline_either_A19(tmp_path: Path) -> None:
    """For longer than the hard cap, which is that of a tuple that somebody has forgotten."""
    topology, captured = Topology("sums", Config(tree_timeout_s=1, max_replays=0)), Captured[Number]()
    begins, ends = [Pair(key, 5) for key in range(8)], [Pair(key, 0) for key in range(8)]
    stream = topology.spout("pairs", ScriptedSpout[Pair]([*begins, Pause(100), *ends]))
    topology.bolt("captured", captured, topology.bolt("bolt", Sums(), stream.fields("left"), tasks=2).shuffle())
    report = run_topology(topology, state_dir=tmp_path, workers=2)
    assert report.exit_status == 0
    assert report.snapshot.total("replayed") == 0
    assert captured.records == [Number(5)] * 8


@pytest.mark.parametrize("seed", range(4))
def test_the_state_is_rebuilt_after_a_death_of_the_bolts_worker_A19(tmp_path: Path, seed: int) -> None:
    topology, captured, _ = summing(Sums(), pairs(6, 10))
    crashes = [Crash("bolt", acked=5), Crash("bolt", at_s=1.9)]
    report = run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=crashes)
    assert report.exit_status == 0
    assert {one.n for one in captured.distinct.values()} == {55}
    assert len(captured.distinct) == 6


@pytest.mark.parametrize("seed", range(3))
def test_the_state_is_as_it_was_after_a_death_of_the_sources_worker_D4(tmp_path: Path, seed: int) -> None:
    """The source gives again what was held: the bolt knows it."""
    topology, captured, _ = summing(Sums(), pairs(6, 10))
    report = run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=[Crash("pairs", at_s=1.2)])
    assert report.exit_status == 0
    assert sorted(one.n for one in captured.distinct.values()) == [55] * 6


@pytest.mark.parametrize("seed", range(3))
def test_failures_after_it_count_nothing_twice_D3(tmp_path: Path, seed: int) -> None:
    topology, captured, _ = summing(Sums(), pairs(6, 10), Flaky(0.5))
    report = run_topology(topology, seed=seed, state_dir=tmp_path)
    assert report.exit_status == 0
    assert report.snapshot.total("replayed") > 0
    assert sorted(one.n for one in captured.distinct.values()) == [55] * 6


def test_sources_wait_where_as_many_are_held_as_may_be_and_are_told_why(tmp_path: Path) -> None:
    script: list[Pair | Pause | Wait] = []
    for n in range(1, 41):
        script += [Pair(n, n), Pause(0.01)]
    topology, _, spout = summing(Small(), script, config=Config(max_pending=2_000))

    async def look(run: EmbeddedRun) -> None:
        await until(lambda: bool(run.workers) and held(run) >= 10)
        await asyncio.sleep(100)
        assert 10 <= held(run) <= 12
        assert spout.acked == []
        snapshot = run.snapshot()
        assert snapshot is not None
        assert "bolt" in snapshot.limit
        run.drain()

    report = run_topology(topology, state_dir=tmp_path, during=look)
    assert report.ended == "stopped"


def test_sources_go_on_once_a_key_is_cleared(tmp_path: Path) -> None:
    class ByTime(Small):
        """Ends a key with its third input."""

        def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
            state.set(state.get(0) + 1)
            if state.get(0) == 3:
                yield Number(pair.left)
                state.clear()

    script: list[Pair | Pause | Wait] = []
    for n in range(300):
        script += [Pair(n // 3 % 4 + n // 12 * 4, n), Pause(0.001)]
    topology, captured, spout = summing(ByTime(), script)
    report = run_topology(topology, state_dir=tmp_path)
    assert report.exit_status == 0
    assert len(captured.distinct) == 100
    assert len(spout.acked) == 300


def test_the_end_of_the_input_releases_what_is_held(tmp_path: Path) -> None:
    topology, captured, spout = summing(Sums(), [Pair(1, 5), Pair(2, 7), Pair(2, 0)])
    watch = Watch()
    report = run_topology(topology, state_dir=tmp_path, watch=watch)
    assert report.exit_status == 0
    assert captured.records == [Number(7)]
    assert sorted(spout.acked) == [0, 1, 2]
    assert len(watch.state("bolt")) == 1


def test_a_drain_leaves_what_is_held_unacked_for_the_next_run_E10(tmp_path: Path) -> None:
    config = Config(max_replays=100, drain_timeout_s=5)
    topology, captured, spout = summing(Sums(), [Pair(1, 5), Pair(2, 7), Pair(2, 0), Wait()], config=config)
    report = run_topology(topology, state_dir=tmp_path, until_s=10)
    assert report.ended == "stopped"
    assert sorted(spout.acked) == [1, 2]
    topology, captured, _ = summing(Sums(), [Pair(1, 5), Pair(2, 7), Pair(2, 0), Pair(1, 0)], config=config)
    assert run_topology(topology, state_dir=tmp_path).exit_status == 0
    assert captured.records == [Number(5)]


def test_an_input_that_raises_is_not_held_and_changes_nothing_D9(tmp_path: Path) -> None:
    class Raises(Sums):
        def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
            yield from super().process(pair, state)
            if pair.right == 100:
                raise ValueError("a hundred is bad")

    topology, captured, _ = summing(
        Raises(), [Pair(1, 5), Pair(1, 100), Pause(60), Pair(1, 0)], config=Config(max_replays=1)
    )
    watch = Watch()
    run_topology(topology, state_dir=tmp_path, watch=watch)
    assert [one.id for one in watch.dead] == [1]
    assert captured.records == [Number(5)]
