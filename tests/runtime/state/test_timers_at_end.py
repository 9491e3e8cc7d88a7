"""Timers that fire because all inputs have ended, while a worker dies. Rules B10, P9."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from durability_kit import DURABILITIES, Durability
from kept_kit import through, timers_in
from runtime_kit import Pair

from topology import Bolt, Collector, Config, Record, State, Topology, Tuple
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


class Late(Bolt):
    """Holds its input until the next second, or until all inputs have ended."""

    def __init__(self) -> None:
        self.held: list[tuple[Tuple[Pair], Collector[Pair]]] = []

    def execute(self, tup: Tuple[Pair], out: Collector[Pair]) -> None:
        self.held.append((tup, out))

    def tick(self, now: datetime) -> None:
        held, self.held = self.held, []
        for tup, out in held:
            out.emit(tup.record, anchors=[tup])
            out.ack(tup)

    def flush(self, out: Collector[Pair]) -> None:
        self.tick(START)


class FailsOnce(AtEnd):
    """Its first input comes again, when it has heard already that all inputs have ended."""

    failed = False

    def __deepcopy__(self, memo: object) -> "FailsOnce":
        return FailsOnce(self.watch)

    def process(self, pair: Pair, state: State[int]) -> None:
        if not self.failed:
            self.failed = True
            raise ValueError("the first one")
        super().process(pair, state)


def test_a_timer_that_a_replay_sets_after_all_inputs_had_ended_fires_in_this_run(tmp_path: Path) -> None:
    watch = Watch()
    topology, captured = Topology("timing"), Captured[Fired]()
    pairs = topology.spout("pairs", ScriptedSpout[Pair]([Pair(7, 1)]))
    late: Any = topology.bolt("late", Late(), pairs.shuffle(), every="1s")
    bolt: Any = topology.bolt("bolt", FailsOnce(watch), late.fields("left"))
    topology.bolt("captured", captured, bolt[Fired].shuffle())
    report = run_topology(topology, state_dir=tmp_path, watch=watch)
    assert (report.exit_status, report.snapshot.total("replayed")) == (0, 1)
    assert [one.key for one in captured.records] == [7]
    assert not any(timers_in(tmp_path).values())
