"""For how long replays may come, and sinks that forget sooner (C6, F48)."""

from typing import ClassVar, Never

import pytest

from topology import Bolt, Collector, Config, Record, Topology, Tuple
from topology.errors import ConfigurationError
from topology.runtime.worker.sink_horizon import check_memories, memory_lines, replay_horizon_s
from topology.testing import ScriptedSpout, run_topology


class Line(Record):
    text: str


class Forgetful(Bolt):
    drops_replays: ClassVar[bool] = True
    durability: ClassVar[str] = "two copies in memory"
    opened = 0

    def __init__(self, remembers_s: float | None) -> None:
        self.remembers_s = remembers_s

    def execute(self, tup: Tuple[Line], out: Collector[Never]) -> None:
        out.ack(tup)


def over(remembers_s: float | None, config: Config | None = None) -> Topology:
    topology = Topology("forgets", config=config or Config())
    lines = topology.spout("lines", ScriptedSpout([Line("a")]))
    topology.bolt("store", Forgetful(remembers_s), lines.shuffle())
    return topology


def test_the_horizon_is_attempts_back_offs_and_restarts() -> None:
    config = Config(max_replays=2, tree_timeout_s=10, max_restarts=4)
    assert replay_horizon_s(config) == pytest.approx(3 * 20 + 0.05 + 0.1 + 4 * 5)


def test_at_most_once_nothing_is_replayed() -> None:
    assert replay_horizon_s(Config(guarantee="at-most-once")) == 0


def test_f48_a_sink_that_forgets_before_the_last_replay_does_not_start_and_both_figures_are_told() -> None:
    with pytest.raises(ConfigurationError, match=r"'store' remembers .* for 120 s, .* up to 770 s later") as raised:
        run_topology(over(120))
    assert raised.value.code is not None
    assert raised.value.code.name == "K344"


@pytest.mark.parametrize("remembers_s", [None, 770.0, 1e9])
def test_one_that_remembers_for_long_enough_starts(remembers_s: float | None) -> None:
    assert run_topology(over(remembers_s)).exit_status == 0


def test_a_lower_number_of_replays_lets_a_shorter_memory_do() -> None:
    config = Config(max_replays=0, tree_timeout_s=30, max_restarts=0)
    check_memories(over(120, config).components, config)


def test_c11_what_an_ack_of_each_sink_stands_for_is_told() -> None:
    assert memory_lines(over(None).components) == [
        "store: acks after two copies in memory; drops what a replay repeats, for ever"
    ]
    (line,) = memory_lines(over(7200).components)
    assert line.endswith("repeats, for 7,200 s")
