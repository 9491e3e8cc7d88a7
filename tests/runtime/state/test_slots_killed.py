"""Runs of one topology with other numbers of tasks and workers, each killed in the middle but the last: state, timers
and what is remembered of inputs go with their slots, so all is as in one run that nothing befell (D7)."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kept_kit import Counting, kept_in, known_in, through, timers_in
from letters_kit import until
from runtime_kit import Number, Pair

from spouts import Items, Paced
from topology import Bolt, State, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, ScriptedSpout, Watch, run_topology

KEYS = 40
COUNT = 600
PLANS = [(2, 2), (3, 3), (1, 1), (4, 3), (1, 2), (3, 2)]  # tasks and workers

Stored = dict[tuple[int, int], Pair]


class Rings(Bolt):
    """Counts the inputs of each key, gives each count, and has a timer that gives the key once, negative."""

    def process(self, number: Number, state: State[int]) -> Iterator[Pair]:
        count = state.get(0)
        if count == 0:
            state.timer(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.after_s(number.n)), "ring")
        state.set(count + 1)
        yield Pair(number.n, count + 1)

    def after_s(self, n: int) -> float:
        return 0.0

    def on_timer(self, key: tuple[int], name: str, state: State[int]) -> Iterator[Pair]:
        yield Pair(-1 - key[0], 0)


class RingsMuchLater(Rings):
    """When the runs are over, and no timer fires because inputs have ended."""

    fires_at_end = False

    def after_s(self, n: int) -> float:
        return 10**8


class Draws(Bolt):
    """Gives another number each time that it is asked."""

    deterministic = False
    drawn = iter(range(10**9))

    def process(self, number: Number) -> Iterator[Pair]:
        yield Pair(number.n, next(self.drawn))


def lived(path: Path, bolt: Any, numbers: list[Number], read: Callable[[Any], Any], seed: int) -> tuple[Stored, Path]:
    """All of the runs: what a sink has at their end that drops what it has, and where the last one was. Each begins on
    what was on the disk when the one before it was killed."""
    stored: Stored = {}
    directory = path
    for part, (tasks, workers) in enumerate(PLANS):
        directory, following = path / f"{part}", path / f"{part + 1}"
        topology, captured = Topology("lived"), Captured[Pair]()
        source = topology.spout("numbers", Paced(Items(numbers), 300.0))
        given = topology.bolt("bolt", bolt, read(source), tasks=tasks)
        topology.bolt("captured", captured, given.shuffle())
        got: Stored = {}

        async def kill(
            run: EmbeddedRun,
            captured: Captured[Pair] = captured,
            got: Stored = got,
            directory: Path = directory,
            following: Path = following,
            most: int = 60 + 7 * part,
        ) -> None:
            await until(lambda: len(captured.distinct) >= most)
            got.update(captured.distinct)
            shutil.copytree(directory, following, ignore=lambda _, names: [one for one in names if "sock" in one])
            run.abort()

        last = part == len(PLANS) - 1
        report = run_topology(
            topology,
            seed=seed + part,
            workers=workers,
            state_dir=directory,
            during=None if last else kill,
            watch=Watch(before=through(takes_s=0.004)),
        )
        assert report.ended == ("ended" if last else "aborted")
        for key, pair in (captured.distinct if last else got).items():
            assert stored.setdefault(key, pair) == pair, "a replay meets what is remembered of it, wherever it goes"
    return stored, directory


@pytest.mark.parametrize("seed", range(4))
def test_counts_and_timers_are_exact_over_other_numbers_of_tasks_and_workers_D2_D7_B10(
    tmp_path: Path, seed: int
) -> None:
    numbers = [Number(n % KEYS) for n in range(COUNT)]
    stored, end = lived(tmp_path, Rings(), numbers, lambda source: source.fields("n"), seed)
    each = COUNT // KEYS
    expected = Counter(Pair(key, count) for key in range(KEYS) for count in range(1, each + 1))
    expected.update(Pair(-1 - key, 0) for key in range(KEYS))
    assert Counter(stored.values()) == expected
    assert kept_in(end) == dict.fromkeys(range(KEYS), each)


def test_timers_that_are_not_due_go_with_their_keys_D7_B10(tmp_path: Path) -> None:
    numbers = [Number(n % KEYS) for n in range(COUNT)]
    _, end = lived(tmp_path, RingsMuchLater(), numbers, lambda source: source.fields("n"), 0)
    timers = timers_in(end)
    assert len(timers) == KEYS
    assert {name for one in timers.values() for name in one} == {"ring"}
    assert sum(kept_in(end).values()) == COUNT


@pytest.mark.parametrize("by", ["fields", "identity"])
def test_what_was_drawn_once_is_found_by_a_replay_in_another_task_and_worker_B2_D7(tmp_path: Path, by: str) -> None:
    def read(source: Any) -> Any:
        return source.fields("n") if by == "fields" else source.shuffle()

    stored, _ = lived(tmp_path, Draws(), [Number(n) for n in range(COUNT)], read, 0)
    assert sorted(pair.left for pair in stored.values()) == [*range(COUNT)]


def test_after_a_run_that_was_done_with_all_the_next_one_remembers_nothing_D4(tmp_path: Path) -> None:
    for part in range(3):
        topology = Topology("done")
        script = [Number(n % KEYS) for n in range(100 * (part + 1))]
        topology.bolt("bolt", Counting(), topology.spout("numbers", ScriptedSpout(script)).fields("n"), tasks=2)
        assert run_topology(topology, workers=2, state_dir=tmp_path).exit_status == 0
        assert len(known_in(tmp_path)) <= 100, "nothing of the runs before"
        assert kept_in(tmp_path) == dict(Counter(n % KEYS for n in range(100 * (part + 1))))
