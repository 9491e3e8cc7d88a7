"""Timers whose outputs nobody can process: a run gives them up, ends, and says so; the next one sends them again."""

from pathlib import Path

from kept_kit import known_in
from runtime_kit import Pair
from timers_kit import Fired, Timed

from topology import Bolt, Config, Reject, Topology
from topology.testing import Captured, ScriptedSpout, run_topology


class Picky(Bolt):
    """Rejects the news of one key, or passes it on."""

    def __init__(self, key: int) -> None:
        self.key = key

    def process(self, fired: Fired) -> list[Fired]:
        if fired.key == self.key:
            raise Reject("not this one")
        return [fired]


def topology(refused: int, captured: Captured[Fired]) -> Topology:
    topology = Topology("given-up", Config(max_replays=2))
    pairs = topology.spout("pairs", ScriptedSpout([Pair(1, 0), Pair(2, 0)], emits=(Pair,)))
    timed = topology.bolt("timed", Timed(), pairs.fields("left"))
    topology.bolt("captured", captured, topology.bolt("picky", Picky(refused), timed[Fired].shuffle()).shuffle())
    return topology


def test_a_timer_whose_news_is_rejected_keeps_no_run_from_its_end_and_is_sent_again_by_the_next(tmp_path: Path) -> None:
    first, second = Captured[Fired](), Captured[Fired]()
    report = run_topology(topology(1, first), state_dir=tmp_path)
    assert report.ended == "ended"
    assert report.exit_status == 1
    assert [one.key for one in first.records] == [2]
    report = run_topology(topology(-1, second), state_dir=tmp_path)
    assert report.exit_status == 0
    assert [one.key for one in second.records] == [1]
    assert not any(entry.timer for entry in known_in(tmp_path, "timed")), "what is done is not kept"
