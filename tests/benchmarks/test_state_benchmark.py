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
from benchmarks.rounds import Figures, MeasurementError, Name, in_fresh_process
from topology.filesystem.files import DiskFiles
from topology.storage.directory.state_dir import StateDir
from topology.storage.sqlite.store import SqliteStore

COUNTS = ["state-none", "state-process", "state-disk"]
ALERTS = [f"alert-2w{kept}-{rate}" for rate in ("1k", "10k") for kept in ("", "-process", "-disk")]


def shown(name: str, figures: Figures, results: dict[str, Figures] | None = None) -> str:
    """Its bar, as people see it."""
    return state_command.row(Name(name, "inputs/s"), figures, results or {})[-1]


STORES = ["sqlite-sink", "jsonlines-sink", "sqlite-run", "jsonlines-run", "store-commit"]

# -- bars


@pytest.mark.parametrize(
    ("name", "value", "none", "said"),
    [
        ("state-process", 79_999.0, 159_000.0, ">= 0.5 ×: ok, >= 80,000: MISSED"),
        ("state-process", 80_000.0, 161_000.0, ">= 0.5 ×: MISSED, >= 80,000: ok"),
        ("state-disk", 49_999.0, 60_000.0, ">= 50,000: MISSED"),
        ("state-disk", 50_000.0, 900_000.0, ">= 50,000: ok"),
        ("state-none", 1.0, 1.0, ""),
    ],
)
def test_counts_that_are_kept_have_a_share_of_those_in_memory_to_reach_and_so_many(
    name: str, value: float, none: float, said: str
) -> None:
    assert shown(name, {"value": value}, {"state-none": {"value": none}}) == said


def test_a_share_is_not_judged_where_what_it_is_of_was_not_measured() -> None:
    assert shown("state-process", {"value": 80_000.0}) == ">= 80,000: ok"


@pytest.mark.parametrize(("p50", "verdict"), [(1.501, "MISSED"), (1.5, "ok")])
def test_a_count_may_take_two_fsyncs_of_its_own_rounds_and_a_millisecond(p50: float, verdict: str) -> None:
    figures = {"value": p50, "p50": p50, "p99": 9.0, "fsync": 0.25, "late_p99": 1.0}
    assert shown("state-disk-latency", figures) == f"<= 2 fsyncs + 1 = 1.500: {verdict}"


@pytest.mark.parametrize(("seconds", "verdict"), [(5.0, "MISSED"), (4.9, "ok")])
def test_a_restart_has_to_take_less_than_5_s(seconds: float, verdict: str) -> None:
    assert shown("state-restart", {"value": seconds}) == f"< 5: {verdict}"


def test_alerts_with_state_that_is_kept_stand_beside_those_of_the_same_rate_in_memory() -> None:
    results = {"alert-2w-1k": {"value": 0.4}, "alert-2w-10k": {"value": 0.5}}
    rows = [state_command.row(Name(name, "ms"), {"value": 1.0}, results) for name in ALERTS]
    shares = {name: share for name, *_, share, _ in rows if share}
    assert shares == {
        "alert-2w-process-1k": "2.50 × alert-2w-1k",
        "alert-2w-disk-1k": "2.50 × alert-2w-1k",
        "alert-2w-process-10k": "2.00 × alert-2w-10k",
        "alert-2w-disk-10k": "2.00 × alert-2w-10k",
    }


# -- figures


def test_counts_are_kept_in_commits_and_those_in_memory_in_none() -> None:
    results = results_of(short("state", "--json", *COUNTS))
    assert list(results) == COUNTS
    for name, one in results.items():
        assert one["unit"] == "inputs/s"
        assert one["cores"] > 0
        assert ("commits" in one) is (name != "state-none")
    for one in (results["state-process"], results["state-disk"]):
        assert one["value"] == pytest.approx(one["batch"] * one["commits"], abs=rounding(one))
        assert one["batch"] > 1


def test_the_way_of_a_count_is_told_beside_an_fsync_of_the_same_rounds() -> None:
    one = results_of(short("state", "--json", "state-disk-latency"))["state-disk-latency"]
    assert one["unit"] == "ms"
    assert one["value"] == one["p50"] <= one["p99"]
    assert 0 < one["fsync"] < 1_000
    assert one["late_p99"] >= 0


def test_a_count_leaves_for_the_bolt_behind_only_once_it_is_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is the commit too: where each takes 20 ms longer, so does the way of a count."""
    commit = SqliteStore.commit

    def slow(store: SqliteStore, changes: Any) -> None:
        commit(store, changes)
        time.sleep(0.02)

    monkeypatch.setattr(SqliteStore, "commit", slow)
    monkeypatch.setattr(counts, "settle_heap", lambda: None)  # this process goes on to do other things
    assert counts.count_latency("disk", 0.3)["p50"] > 20


def test_what_is_synced_is_a_file_of_the_directory_that_is_gone_afterwards(tmp_path: Path) -> None:
    took = counts.fsyncs(tmp_path)
    assert len(took) == counts.SYNCS
    assert min(took) > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_alerts_are_the_same_with_state_that_is_kept() -> None:
    results = results_of(short("state", "--json", *ALERTS[1:3]))
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
        with closing(SqliteStore(DiskFiles(), tmp_path / "state" / name, lives=False, checked=True)) as store:
            rows = store.states().rows["count"]
    assert len(rows) == 251  # one of the first run
    assert len({row.key for row in rows}) == 251


# -- sinks and stores


def rounding(one: dict[str, Any]) -> float:
    """The most that rounding changes the product: both figures are whole numbers, of a slow disk as few as 15."""
    return float(one["batch"] + one["commits"]) / 2 + 1


def test_state_gives_rows_and_commits_a_second_of_each_store() -> None:
    results = results_of(short("state", "--json", *STORES))
    assert list(results) == STORES
    for name in ("sqlite-sink", "jsonlines-sink"):
        one = results[name]
        assert one["unit"] == "rows/s"
        assert 1 <= one["batch"] <= 1_100
        assert one["value"] == pytest.approx(one["batch"] * one["commits"], abs=rounding(one))
    for name in ("sqlite-run", "jsonlines-run"):
        assert results[name]["unit"] == "rows/s"
        assert results[name]["value"] > 0
    assert results["store-commit"]["unit"] == "commits/s"


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
