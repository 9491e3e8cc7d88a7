"""Timers that fire because all inputs have ended, while a worker dies. Rules B10, P9."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from durability_kit import DURABILITIES, Durability
from kept_kit import through, timers_in
from runtime_kit import Pair

from topology import Bolt, Config, Record, State, Topology
from topology.runtime.state import logged_work
from topology.testing import Captured, Pause, ScriptedSpout, Watch, run_topology
from topology.testing.virtual_time.loop import START

KEYS = 60


class Fired(Record):
    key: int


class AtEnd(Bolt):
    """Each key has a timer that is due in an hour, and fires when all inputs have ended."""

    fires_at_end = True

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __deepcopy__(self, memo: object) -> "AtEnd":
        return AtEnd(self.watch)

    def process(self, pair: Pair, state: State[int]) -> None:
        state.timer(START + timedelta(hours=1))

    def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Iterator[Fired]:
        other: Any = next((one for one in self.watch.workers if one.worker == 1), None)
        if not self.watch.deaths and other is not None:  # the first one, in whichever worker
            other.life.ending = True
        yield Fired(key[0])


@pytest.mark.parametrize("durability", DURABILITIES)
def test_those_that_fire_at_the_end_fire_in_this_run_though_another_worker_dies_then_B10_P9(
    tmp_path: Path, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All inputs are decided. The log takes ten at a time, so that the others are in the queue when a worker dies."""
    monkeypatch.setattr(logged_work, "UNLOGGED_MAX", 10)
    watch = Watch(before=through(takes_s=0.02))
    config = Config(max_restarts=20, durability=durability, checkpoint_s=0.05)
    topology, captured = Topology("timing", config), Captured[Fired]()
    script: list[Pair | Pause] = [*(Pair(n, 1) for n in range(KEYS)), Pause(1)]
    pairs = topology.spout("pairs", ScriptedSpout[Pair](script))
    bolt: Any = topology.bolt("bolt", AtEnd(watch), pairs.fields("left"), tasks=2)
    topology.bolt("captured", captured, bolt[Fired].shuffle())
    report = run_topology(topology, workers=2, state_dir=tmp_path, watch=watch, may_crash=True)
    assert report.exit_status == 0
    assert watch.deaths
    assert sorted(one.key for one in captured.distinct.values()) == [*range(KEYS)]
    assert not any(timers_in(tmp_path).values())
