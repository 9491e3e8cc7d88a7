"""Lives of a worker that are any number of incarnations apart: those are counted round, and no number of starts makes
a state directory useless. Rule A20."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runtime_kit import Number, Same, numbers

from topology import Bolt, Config, State, Topology
from topology.storage.directory.state_dir import StateDir
from topology.testing import Captured, Crash, Pause, ScriptedSpout, Watch, run_topology

COUNT = 600
APART = (1023, 2048, 2100, 3500, 4095, 4096, 4097, 6000)


class Counts(Bolt):
    def process(self, item: Number, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        yield item


@pytest.fixture(params=APART)
def apart(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Each life that is begun comes after so many others, which came to nothing."""
    many: int = request.param
    counted = StateDir.next_incarnation

    def jumped(directory: StateDir) -> int:
        directory._manifest.incarnation += many - 1
        return counted(directory)

    monkeypatch.setattr(StateDir, "next_incarnation", jumped)
    return many


def run(path: Path, crashes: list[Crash], **settings: Any) -> tuple[Counter[Any], int, Watch]:
    """Long enough for what is done to be forgotten, and the floors to be kept."""
    script: list[Any] = [one for n in range(0, COUNT, 20) for one in (*numbers(COUNT)[n : n + 20], Pause(0.2))]
    topology, watch, seen = Topology("apart", Config(max_replays=1)), Watch(), Captured[Number]()
    given = topology.spout("numbers", ScriptedSpout[Number](script))
    counts = topology.bolt("counts", Counts(), given.fields("n"), tasks=2)
    topology.bolt("seen", seen, topology.bolt("same", Same(), counts.shuffle()).shuffle())
    report = run_topology(topology, state_dir=path, crashes=crashes, watch=watch, **settings)
    assert report.clean
    return Counter(watch.state("counts").values()), len(seen.distinct), watch


@pytest.mark.parametrize("victim", ["numbers", "counts"])
def test_workers_that_begin_many_lives_later_are_believed_at_once_and_count_once_A20(
    tmp_path: Path, apart: int, victim: str
) -> None:
    crashes = [Crash(victim, acked=200), Crash(victim, acked=400)]
    counts, seen, watch = run(tmp_path, crashes, workers=2)
    assert (counts, seen) == ({1: COUNT}, COUNT)
    assert not [one for one in watch.failures if "timed out" in str(one.reason)], "nothing was refused for its life"


def test_the_next_run_goes_on_however_many_starts_came_to_nothing_A20(tmp_path: Path, apart: int) -> None:
    run(tmp_path, [], until_s=3.9)
    with contextlib.closing(StateDir(tmp_path, "apart")) as directory:
        directory.set_begun(directory.shape or "")  # as if it had been killed: the floors of its life stay
    counts, _, _ = run(tmp_path, [])
    assert counts == {1: COUNT}
