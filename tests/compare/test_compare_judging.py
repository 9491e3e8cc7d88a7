"""What is made of arrivals: latencies by origin, repeated and missing results, what a kill has cost. Runs nothing."""

from pathlib import Path

import pytest

from acker.identity import message_pair, partition_seed
from bridge.compare.job import ComparisonRow
from bridge.compare.rounds.judge import Arrival, MeasuredRound, agreed, figures, merged, names_of, origins_of
from bridge.compare.workload.script import Script, ScriptSource, ScriptWriter
from topology import Record

ROW = ComparisonRow("embedded", "Kedge, one process", "exactly once")
MS = 1_000_000
START = 5_000 * MS


class One(Record):
    value: int


def script_of(folder: Path, sources: int = 1, rate: float | None = 1_000.0) -> Script:
    """Ten messages held, thirty offered, ten of them to warm up: one is due each millisecond."""
    writer = ScriptWriter(folder)
    for number in range(10):
        writer.add(number % sources, 0, One(number))
    writer.close()
    named = tuple(ScriptSource(f"spout{number}", f"spout{number}", (One,)) for number in range(sources))
    return Script(folder, "x", named, 10, 30, 10, rate, 1_000.0)


def origin(number: int, spout: str = "spout0") -> int:
    return message_pair(number, partition_seed("x", spout, "", ""))[0]


def arrived(number: int, at_ms: float, identity: int | None = None) -> Arrival:
    return Arrival("sink", origin(number), identity if identity is not None else number, START + round(at_ms * MS))


def made_of(folder: Path, *arrivals: Arrival, **more: object) -> MeasuredRound:
    trial = MeasuredRound([*arrivals], released=30, start_ns=START)
    for name, value in more.items():
        setattr(trial, name, value)
    return trial


def test_latency_counts_from_when_a_message_was_due_whatever_came_before(tmp_path: Path) -> None:
    script = script_of(tmp_path)
    trial = made_of(tmp_path, arrived(10, 3), arrived(12, 2.5), arrived(9, 1), arrived(29, 19.25))
    found = figures(ROW, trial, script, origins_of(script))
    assert found.latencies == [3, 0.5, 0.25]
    assert found.arrivals == [0, 0.002, 0.019]
    assert (found.offered, found.arrived, found.untimed) == (20, 3, 1)
    assert found.throughput_per_s == pytest.approx(20 / 0.01925)


def test_a_result_that_comes_again_counts_once_and_by_its_first_arrival(tmp_path: Path) -> None:
    script = script_of(tmp_path)
    trial = made_of(tmp_path, arrived(11, 9), arrived(11, 2), arrived(11, 2, identity=99))
    found = figures(ROW, trial, script, origins_of(script))
    assert found.latencies == [1, 1]
    assert found.repeated == 1
    assert not found.exact
    assert found.exact_in_effect


def test_the_same_tuple_at_two_sinks_is_two_results(tmp_path: Path) -> None:
    script = script_of(tmp_path)
    trial = made_of(tmp_path, arrived(11, 2), arrived(11, 3)._replace(sink="other"))
    found = figures(ROW, trial, script, origins_of(script))
    assert (found.arrived, found.repeated) == (2, 0)


def test_a_result_of_several_messages_is_counted_and_not_timed(tmp_path: Path) -> None:
    script = script_of(tmp_path)
    found = figures(ROW, made_of(tmp_path, Arrival("sink", 1, 2, START + 5)), script, origins_of(script))
    assert (found.arrived, found.untimed) == (0, 1)


def test_origins_are_those_of_each_spout_where_there_are_several(tmp_path: Path) -> None:
    origins = origins_of(script_of(tmp_path, sources=2))
    assert len(origins) == 30
    assert origins[origin(12, "spout0")] == 12
    assert origins[origin(13, "spout1")] == 13
    assert origin(13, "spout0") not in origins


def test_all_at_once_are_due_when_the_first_one_is(tmp_path: Path) -> None:
    script = script_of(tmp_path, rate=None)
    found = figures(ROW, made_of(tmp_path, arrived(10, 3), arrived(29, 10)), script, origins_of(script))
    assert found.latencies == [3, 10]
    assert found.throughput_per_s == pytest.approx(2_000)


@pytest.mark.parametrize(("lag", "limited"), [(0.09, False), (0.11, True)])
def test_a_feeder_that_was_too_late_is_told_as_the_limit(tmp_path: Path, lag: float, limited: bool) -> None:
    script = script_of(tmp_path)
    trial = made_of(tmp_path, arrived(10, 1), lag={"p50": lag, "p99": 1.0, "max": 1.0})
    assert figures(ROW, trial, script, origins_of(script)).feeder_limited is limited


def test_a_kill_costs_the_gap_beyond_what_is_usual(tmp_path: Path) -> None:
    script = script_of(tmp_path)
    before = [arrived(10 + n, n + 0.5) for n in range(5)]  # up to 4.5, a millisecond apart
    after = [arrived(15, 12), arrived(21, 13), arrived(22, 14)]
    trial = made_of(tmp_path, *before, *after, killed_ns=START + 5 * MS, victim="a worker", replayed_ms=3.0)
    kill = figures(ROW, trial, script, origins_of(script)).kill
    assert kill is not None
    assert (kill.what, kill.replayed_ms) == ("a worker", 3.0)
    assert kill.at_s == pytest.approx(0.005)
    assert kill.gap_ms == pytest.approx(6.5)  # 7.5 from 4.5 to 12, and 1 before
    assert kill.recovered_ms == pytest.approx(8)  # message 21, due at 11, came at 13


def test_without_a_result_after_a_kill_there_is_no_end_of_the_gap(tmp_path: Path) -> None:
    script = script_of(tmp_path)
    trial = made_of(tmp_path, arrived(10, 1), killed_ns=START + 5 * MS, victim="a worker")
    kill = figures(ROW, trial, script, origins_of(script)).kill
    assert kill is not None
    assert kill.gap_ms is None
    assert kill.recovered_ms is None


def test_rounds_of_a_row_are_one_sample_together(tmp_path: Path) -> None:
    script = script_of(tmp_path)
    first = figures(ROW, made_of(tmp_path, arrived(10, 1), cpu_s=1.0, memory_mb=10.0), script, origins_of(script))
    second = figures(ROW, made_of(tmp_path, arrived(10, 3), cpu_s=3.0, memory_mb=20.0), script, origins_of(script))
    third = figures(ROW, made_of(tmp_path, arrived(10, 5), problem="it fell"), script, origins_of(script))
    both = merged(merged(first, second), third)
    assert both.latencies == [1, 3, 5]
    assert (both.rounds, both.offered, both.arrived) == (3, 60, 3)
    assert both.memory_mb == 15
    assert both.cpu_seconds_per_million == pytest.approx(100_000)
    assert both.problem == "it fell"


def test_what_most_runs_have_given_is_what_each_should_have() -> None:
    runs = [frozenset({("s", 1), ("s", 2)}), frozenset({("s", 1), ("s", 2)}), frozenset({("s", 1), ("s", 3)})]
    assert agreed(runs) == {("s", 1), ("s", 2)}
    assert agreed(runs[:1]) == {("s", 1), ("s", 2)}
    origins = {origin(10): 10}
    assert names_of(MeasuredRound([arrived(10, 1), arrived(10, 2), arrived(11, 3)]), origins) == {("sink", 10)}
