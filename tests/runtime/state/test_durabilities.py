"""State with each durability: a death at each step of a checkpoint, two in a row, late frames, timers, power losses.
Rules D1 to D4, P5, P7, P9.

Each count is stored once: the sink goes by (origin, identity), and `Captured` raises for one name with two records.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from durability_kit import COUNT, DURABILITIES, KEYS, Counts, Durability, expected, stored_once
from kept_kit import dies, dies_unwritten, kept_in, known_in, run_on, through
from letters_kit import until
from positions_kit import Counted
from runtime_kit import Flaky, Number, Pair, balanced, built

from spouts import Items, Paced
from topology import Bolt, Config, Message, State, Task, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.links.protocol import Frame
from topology.runtime.run.lifecycle import Takeover
from topology.runtime.run.startup import Terms
from topology.runtime.tasks.spout_task import SpoutTask
from topology.runtime.worker.worker import Worker
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Watch, run_topology
from topology.testing.simulator.disk import SimulatedDisk
from topology.testing.simulator.files import SimulatedFiles
from topology.testing.simulator.run import STATE_DIR
from topology.testing.virtual_time.loop import START, VirtualLoop, run_virtual


def counting(durability: Durability, *, spout: Any = None, **config: Any) -> tuple[Topology, Captured[Pair]]:
    """numbers → some fail → counts, of two tasks → captured."""
    config = {"max_replays": 100, "max_restarts": 50, "checkpoint_s": 0.05, **config}
    topology = Topology("counting", Config(durability=durability, **config))
    numbers = topology.spout("numbers", spout or Paced(Items([Number(n % KEYS) for n in range(COUNT)]), 300.0))
    flaky = topology.bolt("flaky", Flaky(0.05), numbers.shuffle(), tasks=2)
    counts = topology.bolt("counts", Counts(), flaky.fields("n"), tasks=2)
    captured = Captured[Pair]()
    topology.bolt("captured", captured, counts.shuffle())
    return topology, captured


def at_each(number: int, act: Callable[[], None], of: int | None = None) -> Callable[[Worker], Callable[..., None]]:
    """For each worker a hook that does this at its call of that number, and of the next one; `of` one worker only."""
    calls = Counter[int]()

    def of_worker(worker: Worker) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            calls[worker.worker] += 1
            if calls[worker.worker] in (number, number + 1) and of in (None, worker.worker):
                act()

        return hook

    return of_worker


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize(
    ("workers", "step"), [(1, "preparing"), (1, "prepared"), (2, "preparing"), (2, "prepared"), (2, "decided")]
)
def test_a_death_at_each_step_of_a_checkpoint_counts_each_input_once_P5_P7_D2(
    tmp_path: Path, workers: int, step: str, durability: Durability
) -> None:
    """And another one at the same step of the next one. With one worker its store is the decision."""
    hooks = {
        "preparing": ("before", dies_unwritten),
        "prepared": ("after", dies),
        "decided": ("deciding", dies_unwritten),
    }
    name, act = hooks[step]
    hook_of = at_each(4, act)

    def before(worker: Worker) -> None:
        hooks: dict[str, Any] = {name: hook_of(worker)}
        through(takes_s=0.002, **hooks)(worker)

    topology, captured = counting(durability)
    report = run_topology(topology, workers=workers, state_dir=tmp_path, may_crash=True, watch=Watch(before=before))
    assert report.exit_status == 0
    assert report.restarts >= 2 * workers
    assert balanced(report)
    assert stored_once(captured.distinct)
    assert kept_in(tmp_path, "counts") == expected()
    assert known_in(tmp_path, "counts") == []


@pytest.mark.parametrize("durability", ["disk", "process"])
@pytest.mark.parametrize("step", ["unwritten", "written"])
def test_deaths_while_the_log_is_written_count_each_input_once_P7_P8(
    tmp_path: Path, step: str, durability: Durability
) -> None:
    hook_of = at_each(20, dies_unwritten, of=1)

    def before(worker: Worker) -> None:
        hooks: dict[str, Any] = {"appending" if step == "unwritten" else "appended": hook_of(worker)}
        through(takes_s=0.002, **hooks)(worker)

    topology, captured = counting(durability)
    report = run_topology(topology, workers=2, state_dir=tmp_path, may_crash=True, watch=Watch(before=before))
    assert report.exit_status == 0
    assert report.restarts == 2
    assert stored_once(captured.distinct)
    assert kept_in(tmp_path, "counts") == expected()


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("seed", range(3))
def test_several_workers_that_die_one_after_the_other_count_each_input_once_P9(
    tmp_path: Path, seed: int, durability: Durability
) -> None:
    topology, captured = counting(durability)
    crashes = [Crash(worker, at_s=at) for at in (0.2, 0.61, 0.62, 1.4) for worker in (0, 1)]
    report = run_topology(topology, seed=seed, workers=3, state_dir=tmp_path, crashes=crashes)
    assert report.exit_status == 0
    assert report.restarts == len(crashes)
    assert balanced(report)
    assert stored_once(captured.distinct)
    assert kept_in(tmp_path, "counts") == expected()


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("by_s", [0.5, 3.0])
def test_frames_of_a_generation_that_is_over_have_no_effect_however_late_they_come_P9(
    tmp_path: Path, by_s: float, durability: Durability
) -> None:
    """Those that are sent shortly before a death come long after it."""
    watch, sent = Watch(), list[float]()

    def faults(frame: Frame) -> Sequence[float]:
        if watch.deaths or frame.sender & 0xFFF == frame.receiver:
            return (0.0,)
        worker = next((one for one in watch.workers if one.peers.mine == frame.sender), None)
        if worker is None or worker.clock.monotonic() < 0.45:
            return (0.0,)
        sent.append(worker.clock.monotonic())
        return (by_s,)

    topology, captured = counting(durability)
    crashes = [Crash("numbers", at_s=0.5)]
    report = run_topology(topology, workers=3, state_dir=tmp_path, crashes=crashes, watch=watch, faults=faults)
    assert report.exit_status == 0
    assert sent
    assert balanced(report)
    assert stored_once(captured.distinct)
    assert kept_in(tmp_path, "counts") == expected()


# -- a loss of power


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("seed", range(5))
def test_what_was_put_out_before_a_loss_of_power_is_put_out_under_the_same_names_P5_P7(
    seed: int, durability: Durability
) -> None:
    """The logs of "process" and "checkpoint" do not have it: it is processed again."""
    disk = SimulatedDisk(Random(seed))
    stored: dict[Any, Pair] = {}
    for failing in (True, True, False):
        with closing(SimulatedFiles(disk, Random(seed))) as files:
            topology, captured = counting(durability)

            async def fail(run: EmbeddedRun, captured: Captured[Pair] = captured) -> None:
                await until(lambda: len(captured.distinct) >= 90)
                disk.failing_syncs = 1

            report = run_on(files, topology, seed=seed, during=fail if failing else None)
            assert report.ended == ("failed" if failing else "ended")
            for key, pair in captured.distinct.items():
                assert stored.setdefault(key, pair) == pair, "a sink that has it would drop another record"
            files.end_all()
            if failing:
                disk.lose_power()
    assert stored_once(stored)
    with closing(SimulatedFiles(disk, Random(seed))) as files:
        assert kept_in(STATE_DIR, "counts", files=files) == expected()


# -- going back


def test_outputs_have_the_names_of_their_counts_after_going_back(tmp_path: Path) -> None:
    """The source's worker lives, and goes back with the other; what was emitted is emitted once more."""
    topology, captured = counting("checkpoint", checkpoint_s=10.0)
    report = run_topology(topology, workers=2, state_dir=tmp_path, crashes=[Crash(1, acked=100)])
    assert report.exit_status == 0
    assert len(captured.records) > COUNT, "some came twice"
    assert stored_once(captured.distinct)
    assert kept_in(tmp_path, "counts") == expected()


@pytest.mark.parametrize("id_of", [int, "m{:04}".format], ids=["ints", "names"])
@pytest.mark.parametrize("heeds", [True, False], ids=["resumes", "reads all"])
def test_a_source_that_lives_emits_again_from_memory_what_no_decided_frontier_has_P3(
    tmp_path: Path, heeds: bool, id_of: Callable[[int], int | str]
) -> None:
    class Slowly(Counted):
        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            found = await super().poll(min(limit, 5))
            return [Message(Number(message.record.n % KEYS), message.id) for message in found]

    spout = Slowly(COUNT, id_of=id_of, heeds=heeds)
    topology, captured = counting("checkpoint", spout=spout, max_pending=20)
    again: list[int] = []

    async def look(run: EmbeddedRun) -> None:
        task = (await built(run)).spout_tasks["numbers", 0]
        await until(lambda: task.counters.reopened > 0)
        again.append(task.counters.reopened)

    crash = Crash(1, acked=100)
    report = run_topology(topology, workers=2, state_dir=tmp_path, crashes=[crash], during=look)
    assert report.exit_status == 0
    assert again
    assert spout.next == COUNT, "and asks its source for none of them"
    assert stored_once(captured.distinct)
    assert kept_in(tmp_path, "counts") == expected()
    if heeds or id_of is int:  # a mark says of no name that it comes before its position
        topology, captured = counting("checkpoint", spout=Slowly(COUNT, id_of=id_of, heeds=heeds))
        run_topology(topology, workers=2, state_dir=tmp_path)
        assert captured.records == [], "all of it is in the marks"


def test_an_input_that_comes_again_in_the_next_generation_before_its_record_is_synced_leaves_with_it_P7_P9(
    tmp_path: Path,
) -> None:
    """A worker dies while the source's own worker waits for a sync that takes long."""
    topology = Topology("counting", Config(checkpoint_s=60.0, tree_timeout_s=30.0))
    numbers = topology.spout("numbers", Items([Number(n % KEYS) for n in range(50)]))
    counts = topology.bolt("counts", Counts(), numbers.fields("n"), tasks=2)
    captured = Captured[Pair]()
    topology.bolt("captured", captured, counts.shuffle())
    seen: list[float] = []

    async def look(run: EmbeddedRun) -> None:
        await until(lambda: len(captured.distinct) == 50)
        seen.append(asyncio.get_running_loop().time())

    def appended(*_: Any) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        if not seen:
            seen.append(loop.time())
            takes = iter((2.0,) * 4)  # for each worker: until its sync is done, and until the loop hears of that
            loop.executor_takes = lambda: next(takes, 0.001)

    slowly, crash = Watch(before=through(appended=appended)), Crash(1, at_s=1.0)
    report = run_topology(topology, workers=2, state_dir=tmp_path, crashes=[crash], watch=slowly, during=look)
    assert report.restarts == 1
    assert stored_once(captured.distinct, 50)
    begun_at, all_at = seen
    assert 4 <= all_at - begun_at < 10, "before any tree is over its time"


# -- timers


class Windows(Bolt):
    """Counts the inputs of a key; a timer gives the count and ends it."""

    def open(self, task: Task) -> None:
        self.clock = task.clock

    def process(self, pair: Pair, state: State[int]) -> Iterator[Pair]:
        state.set(state.get(0) + 1)
        state.timer(START + timedelta(seconds=pair.right))
        yield from ()

    def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Iterator[Pair]:
        yield Pair(key[0], state.get(0))
        state.clear()


@pytest.mark.slow
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("seed", range(3))
def test_each_timer_fires_once_for_the_sink_whoever_dies_D2_P7(
    tmp_path: Path, seed: int, durability: Durability
) -> None:
    script: list[Pair | Pause] = []
    for n in range(200):
        script += [Pair(n % 20, 60 + n % 20), Pause(0.01)]
    script.append(Pause(100))
    topology = Topology("windows", Config(durability=durability, max_replays=100, max_restarts=50))
    pairs = topology.spout("pairs", ScriptedSpout[Pair](script, emits=(Pair,)))
    windows = topology.bolt("windows", Windows(), pairs.fields("left"), tasks=2)
    captured = Captured[Pair]()
    topology.bolt("captured", captured, windows.shuffle())
    crashes = [Crash("windows", acked=50), Crash("pairs", acked=120), Crash("windows", acked=199)]
    report = run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=crashes)
    assert report.restarts == 3
    assert sorted((pair.left, pair.right) for pair in captured.distinct.values()) == [(key, 10) for key in range(20)]
    left = kept_in(tmp_path, "windows")
    assert left == ({} if durability == "disk" else dict.fromkeys(range(20))), "but for the count that names outputs"
    assert known_in(tmp_path, "windows") == []


class Ringing(Bolt):
    """Numbers the inputs of a key, and rings once, at a time of the clock."""

    def process(self, pair: Pair, state: State[int]) -> Iterator[Pair]:
        state.set(count := state.get(0) + 1)
        if count == 1:
            state.timer(START + timedelta(seconds=1))
        yield Pair(pair.left, count)

    def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Iterator[Pair]:
        yield Pair(key[0], 0)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_timer_that_fires_at_another_place_the_second_time_leaves_the_names_of_other_outputs_D2(
    tmp_path: Path, durability: Durability
) -> None:
    """After going back it is due before inputs that had come before it."""
    topology = Topology("ringing", Config(durability=durability, checkpoint_s=10.0, max_replays=100))
    pairs = topology.spout("pairs", Paced(Items([Pair(n % 3, n) for n in range(300)]), 100.0))
    ringing = topology.bolt("ringing", Ringing(), pairs.fields("left"))
    captured = Captured[Pair]()
    topology.bolt("captured", captured, ringing.shuffle())
    report = run_topology(topology, workers=2, state_dir=tmp_path, crashes=[Crash("ringing", acked=200)])
    assert report.restarts == 1
    stored = Counter((pair.left, pair.right) for pair in captured.distinct.values())
    assert stored == Counter({(key, count): 1 for key in range(3) for count in range(101)})
    assert captured.divergent == []


@pytest.mark.parametrize("durability", DURABILITIES)
def test_another_run_id_stores_all_again_C3(tmp_path: Path, durability: Durability) -> None:
    """And the same one stores nothing again, whatever names its outputs."""
    captured: Captured[Pair] = Captured()

    def run(run_id: str, *, fresh: bool = False) -> int:
        topology = Topology("counting", Config(durability=durability))
        numbers = topology.spout("numbers", ScriptedSpout([Number(n % KEYS) for n in range(COUNT)]))
        counts = topology.bolt("counts", Counts(), numbers.fields("n"))
        topology.bolt("captured", captured, counts.shuffle())
        takeover = Takeover(Terms(fresh=fresh, run_id=run_id))

        async def lives() -> None:
            await EmbeddedRun(topology, state_dir=tmp_path, takeover=takeover).finish()

        run_virtual(lives(), seed=None)
        return len(captured.by_pair)

    assert run("first") == COUNT
    assert run("first", fresh=True) == COUNT
    assert len(captured.tuples) == 2 * COUNT
    assert run("second") == 2 * COUNT


def test_after_a_going_back_no_more_than_max_pending_are_under_way_at_once_P9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = Topology("counting", Config(durability="checkpoint", checkpoint_s=60.0, max_pending=100))
    numbers = topology.spout("numbers", ScriptedSpout([Number(n % KEYS) for n in range(6_000)]))
    topology.bolt("counts", Counts(), numbers.fields("n"), tasks=2)
    again, at_once, in_all = SpoutTask._again, list[int](), list[int]()

    def counted(spout_task: SpoutTask, trees: Sequence[Any]) -> None:
        again(spout_task, trees)
        at_once.append(len(spout_task.home.ledger))
        in_all.append(len(trees))

    monkeypatch.setattr(SpoutTask, "_again", counted)
    report = run_topology(topology, workers=2, state_dir=tmp_path, crashes=[Crash(1, acked=3_000)], limit_s=600)
    assert (report.exit_status, report.restarts) == (0, 1)
    assert max(at_once) <= 100
    assert sum(in_all) >= 3_000
    assert sum(kept_in(tmp_path, "counts").values()) == 6_000
