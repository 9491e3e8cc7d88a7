"""Bolts that are not deterministic: what they emit is kept before it leaves, and sent again as it was. B2, D1."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kept_kit import known_in, through
from letters_kit import Disk, until
from runtime_kit import Number, Pair, numbers

from topology import Bolt, Config, Task, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Watch, run_topology


class Draws(Bolt):
    """Gives a number of pairs, both drawn at random; notes each input that it was given."""

    deterministic = False

    def __init__(self) -> None:
        self.given: list[int] = []

    def __deepcopy__(self, memo: object) -> "Draws":
        return self

    def open(self, task: Task) -> None:
        self.random = task.random

    def process(self, number: Number) -> Iterator[Pair]:
        self.given.append(number.n)
        for _ in range(self.random.randrange(1, 4)):
            yield Pair(number.n, self.random.randrange(10**9))


class DrawsLater(Draws):
    """As `Draws`, after a while."""

    async def process(self, number: Number) -> list[Pair]:  # type: ignore[override]
        await asyncio.sleep(self.random.random() / 50)
        return [*super().process(number)]


class Passes(Bolt):
    """Raises for a share of its inputs, and else gives what it takes."""

    def __init__(self, share: float) -> None:
        self.share = share

    def open(self, task: Task) -> None:
        self.random = task.random

    def process(self, pair: Pair) -> list[Pair]:
        if self.random.random() < self.share:
            raise ValueError("unlucky")
        return [pair]


def drawing(
    bolt: Draws, count: int, *, share: float = 0.0, tasks: int = 2, concurrency: int = 1, pause_s: float = 0.003
) -> tuple[Topology, Captured[Pair]]:
    """numbers → draws → some fail → captured."""
    script: list[Number | Pause] = []
    for n in numbers(count):
        script += [n, Pause(pause_s)]
    topology, captured = Topology("draws", Config(max_replays=60, max_restarts=20)), Captured[Pair]()
    stream = topology.spout("numbers", ScriptedSpout[Number](script))
    drawn = topology.bolt("bolt", bolt, stream.shuffle(), tasks=tasks, concurrency=concurrency)
    passed = topology.bolt("passes", Passes(share), drawn.shuffle())
    topology.bolt("captured", captured, passed.shuffle())
    return topology, captured


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_replay_gets_what_was_drawn_the_first_time_B2(tmp_path: Path, seed: int, concurrency: int) -> None:
    """`Captured` raises Divergence for one identity with two records."""
    bolt = Draws() if concurrency == 1 else DrawsLater()
    topology, captured = drawing(bolt, 100, share=0.3, concurrency=concurrency)
    report = run_topology(topology, seed=seed, state_dir=tmp_path)
    assert report.exit_status == 0
    assert report.snapshot.total("replayed") > 0
    assert sorted(bolt.given) == [*range(100)], "each input is processed once"
    assert {pair.left for pair in captured.distinct.values()} == {*range(100)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("concurrency", [1, 8])
def test_what_has_reached_a_sink_is_drawn_once_whichever_worker_dies_B2_D1(
    tmp_path: Path, seed: int, concurrency: int
) -> None:
    """Inputs that were processed and not kept are drawn again, and nobody has seen what they had emitted."""
    bolt = Draws() if concurrency == 1 else DrawsLater()
    topology, captured = drawing(bolt, 200, share=0.05, concurrency=concurrency)
    crashes = [Crash("bolt", acked=40), Crash("numbers", acked=80), Crash("bolt", acked=120)]
    watch = Watch(before=through(takes_s=0.004))
    report = run_topology(topology, seed=seed, workers=2, state_dir=tmp_path, crashes=crashes, watch=watch)
    assert report.exit_status == 0
    inputs = Counter(pair.left for pair in captured.distinct.values())
    assert {*inputs} == {*range(200)}
    assert max(inputs.values()) <= 3
    assert len({one.origin for one in captured.tuples}) == 200


def test_what_was_drawn_survives_the_run_B2(tmp_path: Path) -> None:
    """Runs are aborted when some of what a message has emitted is stored, and some has failed."""
    stored: dict[tuple[int, int], Pair] = {}
    for part in range(4):
        topology, captured = drawing(Draws(), 200, share=0.3)

        async def cut(run: EmbeddedRun, captured: Captured[Pair] = captured) -> None:
            await until(lambda: len(captured.distinct) >= 60)
            run.abort()

        watch = Watch(before=through(takes_s=0.004))
        run_topology(topology, seed=part, state_dir=tmp_path, during=cut if part < 3 else None, watch=watch)
        for key, pair in captured.distinct.items():
            assert stored.setdefault(key, pair) == pair
    assert {pair.left for pair in stored.values()} == {*range(200)}


def test_nothing_leaves_while_the_store_is_full_and_nothing_is_drawn_twice_D10(tmp_path: Path) -> None:
    disk, bolt = Disk(), Draws()
    topology, captured = drawing(bolt, 200)

    async def fill(run: EmbeddedRun) -> None:
        await until(lambda: len(captured.records) >= 50)
        disk.full = True
        await until(lambda: disk.refused > 0)
        await asyncio.sleep(1)
        before = len(captured.records)
        await asyncio.sleep(10)
        assert len(captured.records) == before
        disk.full = False

    report = run_topology(
        topology, state_dir=tmp_path, during=fill, watch=Watch(before=through(before=disk.check, appending=disk.check))
    )
    assert report.exit_status == 0
    assert sorted(bolt.given) == [*range(200)]
    assert len(captured.records) == len(captured.distinct)


def test_what_is_remembered_is_forgotten_once_its_message_is_done_D4(tmp_path: Path) -> None:
    topology, _ = drawing(Draws(), 300, tasks=1, pause_s=0.01)
    most = 0

    async def look(run: EmbeddedRun) -> None:
        nonlocal most
        await until(lambda: bool(run.workers))
        while True:
            await asyncio.sleep(0.05)
            most = max(most, len(run.workers[0].executors["bolt", 0].known))  # type: ignore[attr-defined]

    run_topology(topology, state_dir=tmp_path, during=look)
    assert 0 < most < 200
    assert len(known_in(tmp_path)) < 200


def test_without_a_state_directory_a_replay_gets_the_same_all_the_same() -> None:
    bolt = Draws()
    topology, captured = drawing(bolt, 50, share=0.3)
    assert run_topology(topology).exit_status == 0
    assert sorted(bolt.given) == [*range(50)]
    assert {pair.left for pair in captured.distinct.values()} == {*range(50)}


def test_one_whose_output_has_no_bytes_fails_alone_and_is_processed_again(tmp_path: Path) -> None:
    class TooLarge(Draws):
        def process(self, number: Number) -> Iterator[Pair]:
            first = number.n not in self.given
            self.given.append(number.n)
            yield Pair(number.n, 2**70 if first and number.n == 1 else 0)

    bolt, watch = TooLarge(), Watch()
    topology, captured = drawing(bolt, 3, tasks=1)
    run_topology(topology, state_dir=tmp_path, watch=watch)
    assert sorted(bolt.given) == [0, 1, 1, 2]
    assert len(watch.failures) == 1
    assert sorted(pair.left for pair in captured.records) == [0, 1, 2]
