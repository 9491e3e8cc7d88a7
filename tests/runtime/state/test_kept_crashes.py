"""State that survives the deaths of workers and of whole runs, exactly; and what is in the store then. D1 to D4, D7."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kept_kit import Counting, kept_in, through
from letters_kit import until
from runtime_kit import Flaky, Number, Pair, line

from spouts import Items, Paced
from topology import Bolt, Config, State, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, Crash, Divergence, Pause, ScriptedSpout, Watch, run_topology

KEYS = 7


def counted(count: int) -> dict[int, int]:
    return dict(Counter(n % KEYS for n in range(count)))


def paced(count: int, per_s: float = 300.0) -> Paced[Number]:
    return Paced(Items([Number(n % KEYS) for n in range(count)]), per_s)


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_exact_whichever_workers_die_D1_D2_D3_D4(tmp_path: Path, seed: int) -> None:
    """Counts after a bolt that fails now and then, and before one; a commit takes its time."""
    config = Config(max_replays=60, max_restarts=20)
    topology, captured = line(paced(300), Flaky(0.05), Counting(), Flaky(0.05), config=config, by="n", tasks=3)
    crashes = [Crash(0, acked=50), Crash(1, acked=100), Crash(2, acked=150), Crash("bolt1", acked=200)]
    watch = Watch(before=through(takes_s=0.002 * seed))
    report = run_topology(topology, seed=seed, workers=3, state_dir=tmp_path, crashes=crashes, watch=watch)
    assert report.exit_status == 0, f"seed {seed}"
    assert report.restarts == 4
    assert len(captured.distinct) == 300
    assert kept_in(tmp_path, "bolt1") == counted(300)


@pytest.mark.parametrize("seed", range(3))
def test_each_count_is_put_out_once_over_runs_that_are_cut_short(tmp_path: Path, seed: int) -> None:
    """Five runs; four of them are aborted in the middle, and each begins where its sources are kept."""
    found = Counter[Pair]()

    class CountPairs(Bolt):
        def process(self, number: Number, state: State[int]) -> Iterator[Pair]:
            state.set(state.get(0) + 1)
            yield Pair(number.n, state.get(0))

    stored: dict[tuple[int, int], Pair] = {}
    for part in range(5):
        topology, captured = Topology("cut"), Captured[Pair]()
        bolt = topology.bolt("bolt", CountPairs(), topology.spout("numbers", paced(300)).fields("n"), tasks=2)
        topology.bolt("captured", captured, bolt.shuffle())

        async def cut(run: EmbeddedRun, captured: Captured[Pair] = captured) -> None:
            await until(lambda: len(captured.distinct) >= 50)
            run.abort()

        watch = Watch(before=through(takes_s=0.005))
        report = run_topology(
            topology, seed=seed + part, workers=2, state_dir=tmp_path, during=cut if part < 4 else None, watch=watch
        )
        assert report.ended == ("aborted" if part < 4 else "ended")
        for key, pair in captured.distinct.items():
            assert stored.setdefault(key, pair) == pair, "a sink that has it would drop another record"
    found.update(stored.values())
    assert found == Counter(Pair(key, count) for key, all in counted(300).items() for count in range(1, all + 1))
    assert kept_in(tmp_path) == counted(300)


def test_state_goes_with_its_slots_to_another_number_of_workers_and_tasks_D7(tmp_path: Path) -> None:
    for run, (workers, tasks) in enumerate([(1, 1), (3, 5), (2, 2), (1, 3)]):
        script = [Number(n % KEYS) for n in range(100 * (run + 1))]
        topology, _ = line(ScriptedSpout(script), Counting(), by="n", tasks=tasks)
        assert run_topology(topology, workers=workers, state_dir=tmp_path).exit_status == 0
        assert kept_in(tmp_path) == counted(100 * (run + 1))


@pytest.mark.parametrize("seed", range(3))
def test_durability_process_survives_the_death_of_processes(tmp_path: Path, seed: int) -> None:
    config = Config(durability="process")
    topology, captured = line(paced(200), Counting(), by="n", tasks=2, config=config)
    synced: list[int] = []
    watch = Watch(before=through(synced=synced.append))
    crashes = [Crash("bolt", acked=50), Crash("bolt", acked=120)]
    report = run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=crashes, watch=watch)
    assert report.exit_status == 0
    assert len(captured.distinct) == 200
    assert kept_in(tmp_path) == counted(200)
    assert synced == [], "no output waits for the disk"


def test_recovery_none_begins_empty_after_a_death_and_keeps_nothing(tmp_path: Path) -> None:
    class Forgets(Counting):
        recovery = "none"

    topology, captured = line(paced(300), Forgets(), by="n")
    watch = Watch()
    with pytest.raises(Divergence):
        run_topology(topology, state_dir=tmp_path, workers=2, crashes=[Crash("bolt", acked=100)], watch=watch)
    counts = watch.state("bolt").values()
    assert 0 < sum(counts) < 300
    assert kept_in(tmp_path) == {}
    assert len(captured.distinct) == 300


def test_a_key_that_is_cleared_leaves_the_store(tmp_path: Path) -> None:
    class Clears(Bolt):
        def process(self, pair: Pair, state: State[int]) -> None:
            state.set(pair.right)
            if pair.right < 0:
                state.clear()

    def run(*pairs: Pair) -> None:
        topology = Topology("clears")
        topology.bolt("bolt", Clears(), topology.spout("pairs", ScriptedSpout(pairs)).fields("left"))
        assert run_topology(topology, state_dir=tmp_path).exit_status == 0

    first = [Pair(1, 10), Pair(2, 20), Pair(3, -1)]
    run(*first)
    assert kept_in(tmp_path) == {1: 10, 2: 20}, "it was there for a moment only"
    run(*first, Pair(1, -1), Pair(3, 30))
    assert kept_in(tmp_path) == {2: 20, 3: 30}


def test_inputs_of_no_tree_are_kept_too_at_most_once(tmp_path: Path) -> None:
    topology, captured = line(paced(100), Counting(), by="n", config=Config(guarantee="at-most-once"))
    assert run_topology(topology, state_dir=tmp_path).exit_status == 0
    assert len(captured.records) == 100
    assert kept_in(tmp_path) == counted(100)


@pytest.mark.parametrize("seed", range(3))
def test_inputs_that_wait_for_something_are_counted_exactly_over_a_death_D3(tmp_path: Path, seed: int) -> None:
    class Waits(Bolt):
        async def process(self, number: Number, state: State[int]) -> list[Number]:
            before = state.get(0)
            await asyncio.sleep(0.01)
            state.set(before + 1)
            return [Number(before + 1)]

    topology, captured = line(paced(300), Waits(), by="n", tasks=2, concurrency=16)
    crashes = [Crash("bolt", acked=100), Crash("bolt", acked=200)]
    report = run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=crashes)
    assert report.exit_status == 0
    assert len(captured.distinct) == 300
    assert kept_in(tmp_path) == counted(300)


@pytest.mark.parametrize("seed", range(3))
def test_a_replay_of_everything_counts_nothing_twice_with_a_store_D3(tmp_path: Path, seed: int) -> None:
    bolt = Counting()
    topology, captured = line(ScriptedSpout([*map(Number, [n % KEYS for n in range(200)]), Pause(1)]), bolt, by="n")
    run_topology(topology, seed=seed, replay_all=True, state_dir=tmp_path)
    assert len(bolt.given) == 200
    assert len(captured.records) == 400
    assert kept_in(tmp_path) == counted(200)
