"""The benchmark of what is kept, run short: its rows, and what belongs to each. Speed is not judged here."""

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from test_benchmarks import results_of, short

from benchmarks import alerts, counts, restart
from benchmarks import state as state_command
from benchmarks.measure import MEASUREMENTS
from benchmarks.rounds import Figures, MeasurementError, Name, in_fresh_process
from topology.filesystem.files import DiskFiles
from topology.storage.directory.state_dir import StateDir
from topology.storage.sqlite.store import SqliteStore
from topology.storage.worker_store import WorkerStore

KINDS = ["none", "checkpoint", "process", "disk"]
FILES = [f"{work}-file-{kind}" for work in ("wordcount", "alerts") for kind in KINDS]
COUNTS = [f"state-{kind}" for kind in KINDS]
ALERTS = [f"alert-2w-{kind}-{rate}" for rate in ("1k", "10k") for kind in KINDS]


def shown(name: str, figures: Figures, results: dict[str, Figures] | None = None) -> str:
    """Its bar, as people see it."""
    return state_command.row(Name(name, "inputs/s"), figures, results or {})[-1]


STORES = ["sqlite-sink", "jsonlines-sink", "sqlite-run", "jsonlines-run"]

# -- bars


@pytest.mark.parametrize(
    ("name", "value", "none", "said"),
    [
        ("wordcount-file-checkpoint", 80.0, 100.0, ">= 0.8 ×: ok"),
        ("wordcount-file-checkpoint", 79.0, 100.0, ">= 0.8 ×: MISSED"),
        ("wordcount-file-disk", 35.0, 100.0, ">= 0.35 ×: ok"),
        ("wordcount-file-disk", 34.0, 100.0, ">= 0.35 ×: MISSED"),
        ("alerts-file-checkpoint", 249_999.0, 1.0, ">= 250,000: MISSED"),
        ("alerts-file-disk", 180_000.0, 1.0, ">= 180,000: ok"),
        ("state-disk", 119_999.0, 1.0, ">= 120,000: MISSED"),
        ("state-disk", 120_000.0, 900_000.0, ">= 120,000: ok"),
        ("state-process", 1.0, 900_000.0, ""),
        ("alert-2w-checkpoint-1k", 1.1, 1.0, "<= 1.1 ×: ok"),
        ("alert-2w-checkpoint-10k", 1.11, 1.0, "<= 1.1 ×: MISSED"),
    ],
)
def test_what_is_kept_has_a_share_of_what_is_in_memory_to_reach_or_so_many(
    name: str, value: float, none: float, said: str
) -> None:
    assert shown(name, {"value": value}, {state_command.BESIDE[name]: {"value": none}}) == said


def test_a_share_is_not_judged_where_what_it_is_of_was_not_measured() -> None:
    assert shown("wordcount-file-disk", {"value": 80_000.0}) == ""


@pytest.mark.parametrize(
    ("name", "p50", "p99", "said"),
    [
        ("alert-2w-disk-1k", 0.75, 4.01, "<= 0.75: ok, p99 <= 4: MISSED"),
        ("alert-2w-disk-1k", 0.76, 4.0, "<= 0.75: MISSED, p99 <= 4: ok"),
        ("alert-2w-disk-10k", 1.5, 3.0, "<= 1.5: ok, p99 <= 4: ok"),
    ],
)
def test_alerts_that_are_synced_have_a_median_and_a_tail_to_reach(name: str, p50: float, p99: float, said: str) -> None:
    assert shown(name, {"value": p50, "p50": p50, "p99": p99}) == said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("checkpoint-hold", 4.99, "< 5: ok"),
        ("checkpoint-hold", 5.0, "< 5: MISSED"),
        ("state-restart", 3.0, "<= 3: ok"),
        ("state-restart", 3.01, "<= 3: MISSED"),
        ("recovery", 0.499, "< 0.5: ok"),
        ("recovery", 0.5, "< 0.5: MISSED"),
        ("jsonlines-sink", 399_999.0, ">= 400,000: MISSED"),
        ("sqlite-sink", 60_000.0, ">= 60,000: ok"),
        ("postgres-sink", 59_999.0, ">= 60,000: MISSED"),
    ],
)
def test_the_other_rows_have_a_limit_each(name: str, value: float, said: str) -> None:
    assert shown(name, {"value": value}) == said


@pytest.mark.parametrize("name", ["checkpoint-hold", "state-restart"])
def test_with_fewer_keys_than_a_bar_is_of_nothing_is_judged(name: str) -> None:
    assert shown(name, {"value": 9.0, "keys": 20_000}) == ""
    assert shown(name, {"value": 9.0, "keys": 1_000_000}).endswith("MISSED")


@pytest.mark.parametrize(("p50", "verdict"), [(1.501, "MISSED"), (1.5, "ok")])
def test_a_count_may_take_two_fsyncs_of_its_own_rounds_and_a_millisecond(p50: float, verdict: str) -> None:
    figures = {"value": p50, "p50": p50, "p99": 9.0, "fsync": 0.25, "late_p99": 1.0}
    assert shown("state-disk-latency", figures) == f"<= 2 fsyncs + 1 = 1.500: {verdict}"


def test_alerts_with_state_that_is_kept_stand_beside_those_of_the_same_rate_in_memory() -> None:
    results = {"alert-2w-none-1k": {"value": 0.4}, "alert-2w-none-10k": {"value": 0.5}}
    rows = [state_command.row(Name(name, "ms"), {"value": 1.0, "p99": 9.0}, results) for name in ALERTS]
    shares = {name: share for name, *_, share, _ in rows if share}
    assert shares == {
        name: f"{times} × alert-2w-none-{rate}"
        for rate, times in (("1k", "2.50"), ("10k", "2.00"))
        for name in ALERTS
        if name.endswith(f"-{rate}") and "none" not in name
    }


# -- figures


def test_the_names_are_in_the_order_of_what_they_are_of() -> None:
    names = [name.name for name in state_command.BENCHMARK.names]
    assert names[: len(FILES) + len(COUNTS)] == [*FILES, *COUNTS]
    assert [name for name in names if name.startswith("alert-2w")] == ALERTS
    assert {"checkpoint-hold", "state-restart", "recovery", "postgres-sink", *STORES} <= {*names}
    assert MEASUREMENTS.keys() >= {*names}


@pytest.mark.slow
def test_files_are_read_to_their_end_by_each_durability() -> None:
    chosen = ["wordcount-file-none", "wordcount-file-checkpoint", "wordcount-file-process", "alerts-file-disk"]
    results = results_of(short("state", "--json", *chosen))
    assert list(results) == chosen
    assert [one["unit"] for one in results.values()] == ["sentences/s"] * 3 + ["lines/s"]
    assert [one["lines"] for one in results.values()] == [4_000] * 3 + [26_667]
    assert all(one["cores"] > 0 for one in results.values())


@pytest.mark.slow
def test_counts_are_told_with_their_cores_and_judged_in_the_object_and_on_stderr() -> None:
    done = short("state", "--json", *COUNTS)
    results = results_of(done)
    assert list(results) == COUNTS
    for name, one in results.items():
        assert one["unit"] == "inputs/s"
        assert one["cores"] > 0
        assert ("bar" in one) is (name == "state-disk")
    assert results["state-disk"]["bar"].startswith(">= 120,000: ")
    assert results["state-disk"]["bar"] in done.stderr
    assert "× state-none" in done.stderr


def test_rows_may_be_chosen_by_an_option_too() -> None:
    results = results_of(short("state", "--json", "--only", "sqlite-sink", "--only", "jsonlines-sink"))
    assert list(results) == ["sqlite-sink", "jsonlines-sink"]
    unknown = short("state", "--only", "sqlite")
    assert (unknown.returncode, "there is no 'sqlite'; the names are " in unknown.stderr) == (2, True)


@pytest.mark.slow
def test_a_checkpoint_holds_the_loop_for_a_time_that_is_told_with_its_keys() -> None:
    one = results_of(short("state", "--json", "checkpoint-hold"))["checkpoint-hold"]
    assert (one["unit"], one["keys"]) == ("ms", 20_000)
    assert 0 < one["p50"] <= one["value"]
    assert "bar" not in one


@pytest.mark.slow
def test_a_recovery_is_from_the_kill_to_the_first_replayed_ack() -> None:
    one = results_of(short("state", "--json", "recovery"))["recovery"]
    assert one["unit"] == "s"
    assert 0 < one["value"] <= one["all"] < 60
    assert one["failed"] > 0


def test_the_way_of_a_count_is_told_beside_an_fsync_of_the_same_rounds() -> None:
    one = results_of(short("state", "--json", "state-disk-latency"))["state-disk-latency"]
    assert one["unit"] == "ms"
    assert one["value"] == one["p50"] <= one["p99"]
    assert 0 < one["fsync"] < 1_000
    assert one["late_p99"] >= 0


def test_a_count_leaves_for_the_bolt_behind_only_once_it_is_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is the log's sync too: where each takes 20 ms longer, so does the way of a count."""
    sync = WorkerStore.sync

    def slow(store: WorkerStore) -> int:
        position = sync(store)
        time.sleep(0.02)
        return position

    monkeypatch.setattr(WorkerStore, "sync", slow)
    monkeypatch.setattr(counts, "settle_heap", lambda: None)  # this process goes on to do other things
    assert counts.count_latency("disk", 0.3)["p50"] > 20


def test_what_is_synced_is_a_file_of_the_directory_that_is_gone_afterwards(tmp_path: Path) -> None:
    took = counts.fsyncs(tmp_path)
    assert len(took) == counts.SYNCS
    assert min(took) > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_alerts_are_the_same_with_state_that_is_kept() -> None:
    results = results_of(short("state", "--json", *ALERTS[1:4]))
    for one in results.values():
        assert one["alerts"] == pytest.approx(20, abs=2)
        assert one["value"] == one["p50"] <= one["p99"] <= one["p999"]


def test_alerts_are_kept_as_they_are_asked_to_be() -> None:
    assert alerts.alerts_topology("pipe", durability="process").config.durability == "process"
    assert alerts.alerts_topology("pipe").config.durability == "disk"


# -- the restart


def test_a_restart_goes_on_with_what_was_kept_of_each_key() -> None:
    one = restart.restarted(keys=20_000)
    assert one["empty"] > 0
    assert 0 < one["value"] < restart.TIMEOUT_S
    assert 30 < one["bytes"] < 2_000
    assert one["file"] > 20_000 * 20 / 1e6


def test_a_restart_with_state_of_another_count_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "written", lambda state_dir, keys: 0)
    with pytest.raises(RuntimeError, match="the first count is 1, and 41 was kept"):
        restart.restarted(keys=10)


def test_a_restart_without_psutil_names_it_and_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "psutil.py").write_text("raise ModuleNotFoundError(\"No module named 'psutil'\", name='psutil')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MeasurementError, match=r"(?s)state-restart needs psutil, .*next: .* -m pip install"):
        in_fresh_process("state-restart", 0.1)


def test_a_run_that_fails_is_told_of_with_what_it_has_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no directory")
    with pytest.raises(RuntimeError, match=r"(?s)ended with status .*state directory"):
        restart._first_input(tmp_path / "state", first=0, keys=0)


def test_keys_are_written_as_a_worker_writes_them(tmp_path: Path) -> None:
    restart._first_input(tmp_path / "state", first=0, keys=0)
    restart.written(tmp_path / "state", 250)
    with closing(StateDir(tmp_path / "state", "restart")) as directory:
        assert not directory.check_files(), "nothing is missing, and all of it is sound"
        (name,) = directory.known_files
        with closing(SqliteStore(DiskFiles(), tmp_path / "state" / name, checked=True)) as store:
            rows = store.states().rows["count"]
    assert len(rows) == 251  # one of the first run
    assert len({row.key for row in rows}) == 251


# -- sinks and stores


def rounding(one: dict[str, Any]) -> float:
    """The most that rounding changes the product: both figures are whole numbers, of a slow disk as few as 15."""
    return float(one["batch"] + one["commits"]) / 2 + 1


@pytest.mark.slow
def test_state_gives_rows_a_second_of_each_sink_and_its_batches() -> None:
    results = results_of(short("state", "--json", *STORES))
    assert list(results) == STORES
    for name in ("sqlite-sink", "jsonlines-sink"):
        one = results[name]
        assert one["unit"] == "rows/s"
        assert 1 <= one["batch"] <= 2_000, "a batch, and the ack of one that was written before the first"
        assert one["value"] == pytest.approx(one["batch"] * one["commits"], abs=rounding(one))
    for name in ("sqlite-run", "jsonlines-run"):
        assert results[name]["unit"] == "rows/s"
        assert results[name]["value"] > 0


@pytest.mark.service("postgres")
def test_state_measures_the_server_that_tests_use() -> None:
    psycopg = pytest.importorskip("psycopg", reason="needs pip install 'kedge-streams[postgres]'")
    dsn = os.environ.get("KEDGE_TEST_POSTGRES") or "postgresql://postgres@127.0.0.1:5432/test"
    try:
        psycopg.connect(dsn, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL to test with: {error}")
    results = results_of(short("state", "--json", "postgres-sink", "postgres-run"))
    assert results["postgres-sink"]["batch"] > 1
    assert results["postgres-run"]["value"] > 0
