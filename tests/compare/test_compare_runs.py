"""Whole comparisons of real runs: Kedge's own modes here; Spark's once, and in `make test-all` the others."""

import re
import signal
import tempfile
import threading
from pathlib import Path

import psutil
import pytest
from measured_kit import Told, apart, auth_log, counting, job_of, until

from bridge.compare import folder as folders
from bridge.compare import measure
from bridge.compare.job import ComparisonRow
from bridge.compare.measure import compare
from bridge.compare.modes import ways_of
from bridge.compare.rounds import kedge
from topology.errors import ConfigurationError

ALERTS = Path(__file__).resolve().parents[2] / "examples" / "ssh_alerts.py"
KEDGE = ("record", "embedded")
dear = pytest.mark.slow


@pytest.mark.slow
def test_both_modes_of_kedge_give_the_same_results_each_in_time(tmp_path: Path) -> None:
    told = Told()
    trace = tmp_path / "trace"
    made = compare(job_of(counting(tmp_path), f"trace={trace}", modes=KEDGE, rounds=2), told)
    assert told.turns == [("record", 1), ("embedded", 1), ("record", 2), ("embedded", 2)]
    assert told.phases == ["starting", "warm-up", "measuring", "ending"]
    assert not made.interrupted
    for one in made.modes:
        assert one.problem == ""
        assert one.exact, one
        assert one.rounds == 2
        assert one.offered == 2 * 400
        assert one.arrived == 2 * 80  # a result of every five messages
        assert min(one.latencies) > 0
        assert sorted(one.latencies)[80] < 500
        assert max(one.arrivals) < 2
        assert one.cpu_seconds_per_million
        assert one.memory_mb
        assert one.start_s
        assert one.throughput_per_s
        assert "p50" in one.feeder_lag
    assert not trace.exists(), "the user's own sink has run"


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["process", "checkpoint"])
def test_results_of_keys_are_timed_and_judged_with_each_durability(tmp_path: Path, durability: str) -> None:
    made = compare(job_of(counting(tmp_path), modes=KEDGE, config=(f"durability={durability}",)), Told())
    for one in made.modes:
        assert one.problem == ""
        assert one.exact, one
        assert one.arrived == 80


@pytest.mark.slow
def test_alerts_of_the_ssh_example_are_timed_from_their_last_line(tmp_path: Path) -> None:
    values = (f"path={auth_log(tmp_path)}", f"store={tmp_path / 'alerts.db'}", "reference=2025-12-31T00:00:00")
    made = compare(job_of(ALERTS, *values, modes=KEDGE), Told())
    for one in made.modes:
        assert one.problem == ""
        assert one.exact, one
        assert one.arrived == 40  # of every ten lines
    assert not (tmp_path / "alerts.db").exists()


def test_all_at_once_gives_the_throughput(tmp_path: Path) -> None:
    job = job_of(counting(tmp_path), modes=("embedded",), rate=None, seconds=0.5, warm_up_s=0.1)
    (one,) = compare(job, Told()).modes
    assert one.problem == ""
    assert one.arrived == 1_000  # of 5,000 messages
    assert one.throughput_per_s
    assert one.throughput_per_s > 1_000


def test_a_source_with_too_few_messages_is_offered_again_and_the_comparison_says_so(tmp_path: Path) -> None:
    made = compare(job_of(counting(tmp_path), "count=100", modes=("embedded",)), Told())
    assert made.modes[0].arrived == 80
    assert made.modes[0].exact
    assert any("100 messages and ended; these were offered 5.0 times over" in note for note in made.notes), made.notes


def test_a_feeder_that_is_held_up_in_the_measured_part_is_told_as_the_limit(tmp_path: Path) -> None:
    held: list[psutil.Process] = []

    def stopped(row: ComparisonRow, phase: str) -> None:
        if phase == "measuring" and not held:
            held.extend(one for one in psutil.Process().children() if "bridge.compare.workload.feeder" in one.cmdline())
            held[0].suspend()
            threading.Timer(1.8, held[0].resume).start()

    (one,) = compare(job_of(counting(tmp_path), modes=("embedded",)), Told(stopped)).modes
    assert one.problem == ""
    assert one.arrived == 80
    assert one.feeder_limited
    assert one.feeder_lag["p50"] > 500


def test_a_feeder_that_does_not_come_to_its_end_is_the_rows_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kedge, "DRAIN_S", 0.5)

    def stopped(row: ComparisonRow, phase: str) -> None:
        if phase == "measuring":
            for one in psutil.Process().children():
                if "bridge.compare.workload.feeder" in one.cmdline():
                    one.suspend()

    job = job_of(counting(tmp_path), modes=("embedded",), seconds=1.0)
    (one,) = compare(job, Told(stopped)).modes
    assert re.match(
        r"the feeder was the limit: 1\.5 s after the last message was due it had offered \d+ of 301", one.problem
    )


def test_a_mode_has_its_time_for_what_is_left_once_all_is_offered_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kedge, "DRAIN_S", 1.0)
    (one,) = compare(job_of(counting(tmp_path), modes=("embedded",), seconds=2.5, rate=100.0), Told()).modes
    assert one.problem == ""
    assert one.arrived == 50


@pytest.mark.slow
def test_a_mode_that_crashes_has_a_row_that_says_so_and_the_others_go_on(tmp_path: Path, temporary: Path) -> None:
    job = job_of(counting(tmp_path), "crash=true", modes=KEDGE, config=("max_restarts=0",))
    told = Told()
    record, embedded = compare(job, told).modes
    assert "worker" in record.problem
    assert [record.problem.rpartition("its log: ")[2]] == [str(kept) for kept in temporary.iterdir()]
    assert not record.exact
    assert embedded.problem == ""
    assert embedded.arrived == 80
    assert embedded.exact
    assert [result.mode for result in told.results] == ["record", "embedded"]


def test_a_mode_that_there_is_none_of_is_refused_with_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'embedded'"):
        compare(job_of(counting(tmp_path), modes=("embeded",)), Told())


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured_and_leaves_no_process(tmp_path: Path) -> None:
    job = job_of(counting(tmp_path), modes=KEDGE, seconds=1.0, rounds=20)
    with apart(job, tmp_path) as one:
        one.until("embedded", "measuring")
        one.process.send_signal(signal.SIGINT)
        one.process.send_signal(signal.SIGINT)  # impatient
        made = one.made()
        until(lambda: not one.left(), f"left: {one.left()}")
    assert made["interrupted"]
    record, *rest = made["modes"]
    assert record["problem"] == ""
    assert record["arrived"] == 40
    assert record["exact"]
    assert [mode["problem"] for mode in rest] == ["interrupted"]


def test_ctrl_c_while_messages_are_read_ends_it_too(tmp_path: Path) -> None:
    with apart(job_of(counting(tmp_path), "fail=silent", modes=KEDGE), tmp_path) as one:
        until(
            lambda: any("bridge.compare.workload.read_sources" in command for command in one.left()), "nothing is read"
        )
        one.process.send_signal(signal.SIGINT)
        made = one.made()
        until(lambda: not one.left(), "processes are left")
    assert made["interrupted"]
    assert made["modes"] == []


def test_a_mode_for_which_there_is_no_room_says_so_in_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "ROOM_MIN", 2**62)  # bytes that no disk has
    for one in compare(job_of(counting(tmp_path), modes=KEDGE), Told()).modes:
        assert one.problem == f"no space is left in {tempfile.gettempdir()}"


@pytest.mark.slow
def test_after_ctrl_c_each_mode_has_a_row_that_says_how_far_it_came(tmp_path: Path) -> None:
    def pressed(row: ComparisonRow, phase: str) -> None:
        if phase == "measuring":
            raise KeyboardInterrupt

    made = compare(job_of(counting(tmp_path), modes=KEDGE, rounds=2), Told(pressed))
    assert made.interrupted
    assert [one.problem for one in made.modes] == ["interrupted", "interrupted before it was measured"]


def test_a_comparison_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    with apart(job_of(counting(tmp_path), modes=("record",), seconds=600.0), tmp_path) as one:
        one.until("record", "measuring")
        one.process.kill()
        one.process.wait()
        until(lambda: not one.left(), "processes are left")


def test_two_comparisons_at_once_do_not_meet(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    jobs = [job_of(counting(folder), modes=("embedded",), seconds=1.0) for folder in folders]
    with apart(jobs[0], folders[0]) as one, apart(jobs[1], folders[1]) as other:
        for made in (one.made(), other.made()):
            (mode,) = made["modes"]
            assert mode["problem"] == ""
            assert mode["exact"]
            assert mode["arrived"] == 40


def test_options_of_a_run_in_the_environment_change_no_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_WORKERS", "7")
    monkeypatch.setenv("KEDGE_STATE_DIR", str(tmp_path / "mine"))
    (one,) = compare(job_of(counting(tmp_path), modes=("embedded",), seconds=0.5), Told()).modes
    assert one.problem == ""
    assert not (tmp_path / "mine").exists()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("durability", ["disk", "process", "checkpoint"])
def test_a_kill_in_the_middle_tells_what_it_has_cost_and_loses_nothing_d16(tmp_path: Path, durability: str) -> None:
    config = (f"durability={durability}",)
    job = job_of(counting(tmp_path), modes=KEDGE, kill=True, seconds=3.0, rate=4_000.0, config=config)
    made = compare(job, Told())
    assert [one.kill.what for one in made.modes if one.kill] == ["a worker", "its only process"]
    for one in made.modes:
        assert one.problem == ""
        if durability == "checkpoint":  # which message is the fifth may be another one, the second time, and both count
            assert one.arrived >= 2_400
        else:
            assert one.arrived == 2_400  # of every five messages one, whatever was killed
            assert one.extra == 0
        assert one.kill is not None
        assert 1.4 <= one.kill.at_s <= 2.5
        assert one.kill.gap_ms
        assert one.kill.recovered_ms
    first, second = made.modes  # replays come in another order, so that of other messages one is the fifth: what one
    assert durability == "checkpoint" or first.missing == second.missing  # has of them, the other one lacks


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_kill_while_all_is_offered_at_once_tells_when_the_first_replay_was_acked_d16(tmp_path: Path) -> None:
    job = job_of(counting(tmp_path), modes=KEDGE, kill=True, rate=None, seconds=4.0, warm_up_s=0.1)
    for one in compare(job, Told()).modes:
        assert one.problem == ""
        assert one.extra == 0
        assert one.kill is not None
        assert one.kill.replayed_ms, "the queues are full, so that something is under way whenever it is"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_sparks_micro_batches_are_compared_with_the_same_bolts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")
    monkeypatch.setattr(
        measure, "ways_of", lambda modes, guarantee, key="": ways_of(modes, guarantee, key)[:2]
    )  # one start
    embedded, tuned = compare(job_of(counting(tmp_path), modes=("embedded", "spark:default")), Told()).modes
    for one in (embedded, tuned):
        assert one.problem == ""
        assert one.exact, one
        assert one.arrived == 80
        assert one.cpu_seconds_per_million
        assert one.memory_mb
    assert sorted(embedded.latencies)[40] < sorted(tuned.latencies)[40]


@dear
@pytest.mark.timeout(600)
def test_sparks_own_defaults_have_a_row_of_their_own_with_the_same_results(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")
    tuned, plain = compare(job_of(counting(tmp_path), modes=("spark:100ms",)), Told()).modes
    for one in (tuned, plain):
        assert one.problem == ""
        assert one.exact, one
        assert one.arrived == 80
    assert tuned.settings != plain.settings


@dear
@pytest.mark.timeout(600)
def test_a_killed_driver_of_sparks_loses_nothing_d16(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")
    job = job_of(counting(tmp_path), modes=("embedded", "spark:default"), kill=True, seconds=6.0)
    for one in compare(job, Told()).modes:
        assert one.problem == ""
        assert one.missing == one.extra == 0
        assert one.kill is not None
        assert one.kill.gap_ms
