"""The benchmarks' commands, run short: what they print, under which names. Speed is not judged here: while tests run,
the machine is not quiet."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import latency as latency_command
from benchmarks import workers
from benchmarks.alerts import alerts_topology, percentile_ms
from benchmarks.feeder import FAILURES, attempt, due_alerts, lines
from benchmarks.rounds import MeasurementError, Name, in_fresh_process
from topology.plan import plan

ROOT = Path(__file__).resolve().parents[2]
THROUGHPUT = {
    "baseline-asyncio": "roots/s",
    "identity-embedded-acked": "roots/s",
    "identity-embedded-python": "roots/s",
    "identity-2w-acked": "roots/s",
    "baseline-asyncio-wordcount": "sentences/s",
    "wordcount-embedded-acked": "sentences/s",
    "wordcount-embedded-python": "sentences/s",
    "wordcount-2w-acked": "sentences/s",
    "pending-tree-bytes": "bytes",
    "idle-cpu": "% of a core",
}
PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
LATENCY = {"alert-embedded-1k": "ms", "alert-embedded-10k": "ms", "alert-2w-1k": "ms", "alert-2w-10k": "ms"}


def run(*command: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=110)


def short(benchmark: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return run("-m", f"benchmarks.{benchmark}", "--seconds", "0.2", "--rounds", "1", *options)


def results_of(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """Checks that stdout is one object of the right form, and returns its results by name."""
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["benchmark", "machine", "versions", "results"]
    assert found["machine"]["cores"] >= 1
    assert set(found["versions"]) == {"python", "kedge", "core", "msgspec", "xxhash"}
    assert all(isinstance(one["value"], int | float) and one["value"] > 0 for one in found["results"])
    return {one["name"]: one for one in found["results"]}


@pytest.fixture(scope="module")
def latency() -> dict[str, Any]:
    return results_of(short("latency", "--json"))


def units(results: dict[str, Any]) -> dict[str, str]:
    return {name: one["unit"] for name, one in results.items()}


@pytest.mark.slow
def test_throughput_gives_one_object_with_its_eight_figures() -> None:
    done = short("throughput", "--json")
    results = results_of(done)
    assert units(results) == THROUGHPUT
    assert all(set(one) == {"name", "value", "unit"} for one in results.values())
    assert all(f"round 1/1: {name} " in done.stderr for name in THROUGHPUT)


@pytest.mark.slow
def test_latency_gives_percentiles_and_cores_of_both_rates_embedded_and_on_two_workers(latency: dict[str, Any]) -> None:
    assert units(latency) == LATENCY
    for one in latency.values():
        assert one["value"] == one["p50"] <= one["p99"] <= one["p999"]
        assert 0 < one["cores"] < 2


@pytest.mark.slow
def test_latency_counts_every_alert_after_the_warm_up(latency: dict[str, Any]) -> None:
    for where in ("embedded", "2w"):
        assert latency[f"alert-{where}-1k"]["alerts"] == pytest.approx(20, abs=2)
        assert latency[f"alert-{where}-10k"]["alerts"] == pytest.approx(200, abs=2)


@pytest.mark.slow
def test_latency_tells_how_late_its_feeder_was(latency: dict[str, Any]) -> None:
    assert all(0 <= one["feeder_lag_p99"] <= one["feeder_lag_max"] for one in latency.values())


def test_a_pending_tree_costs_less_than_400_bytes() -> None:
    """Memory does not depend on how busy the machine is, so this figure's bar is a test."""
    results = results_of(short("throughput", "--json", "pending-tree-bytes"))
    assert 100 < results["pending-tree-bytes"]["value"] < 400


def test_people_get_a_table_with_ratio_and_bar_and_may_start_the_file_by_its_path(tmp_path: Path) -> None:
    script = str(ROOT / "benchmarks" / "throughput.py")
    names = ["baseline-asyncio", "identity-embedded-acked"]
    done = run(script, "--seconds", "0.2", "--rounds", "1", *names, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith(tuple(names))}
    assert list(table) == names
    assert "× baseline-asyncio" in table["identity-embedded-acked"]
    assert ">= 1.3: " in table["identity-embedded-acked"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["alert-embeded-1k"], f"there is no 'alert-embeded-1k'; the names are {', '.join(LATENCY)}"),
        (["--rounds", "0"], "at least one round"),
        (["--seconds", "-1"], "more than 0 seconds"),
    ],
)
def test_a_wrong_option_ends_with_status_2_and_a_sentence(options: Sequence[str], said: str) -> None:
    done = run("-m", "benchmarks.latency", *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert not done.stdout


def test_a_measurement_that_fails_is_named_with_what_its_process_said() -> None:
    with pytest.raises(MeasurementError, match=r"(?s)no-such-thing ended with status 1:.*KeyError"):
        in_fresh_process("no-such-thing", 0.1)


@pytest.mark.parametrize(("name", "verdict"), [("alert-embedded-1k", "MISSED"), ("alert-2w-1k", "ok")])
def test_each_latency_has_a_bar_of_its_own(name: str, verdict: str) -> None:
    figures = {"p50": 0.3, "p99": 1.1, "p999": 9.0, "cores": 0.8, "alerts": 100.0}
    figures |= {"feeder_lag_p99": 0.1, "feeder_lag_max": 0.2}
    assert latency_command.row(Name(name, "ms"), figures, {})[-1].endswith(f": {verdict}")


def test_on_two_workers_each_has_a_spout_and_half_of_the_readers() -> None:
    for topology in (workers.identity(), workers.word_count()):
        placed = plan(topology, 2)
        assert all(worker == task for (_, task), worker in placed.placement.items())
        assert {one.tasks for one in placed.components.values()} == {2}


def test_the_alerts_cross_to_the_second_worker_and_back() -> None:
    placed = plan(alerts_topology("pipe"), 2).placement
    assert [at for at, worker in placed.items() if worker == 1] == [("alerts", 1)]


def test_cpu_time_is_finer_than_ten_milliseconds_and_of_all_processes_named() -> None:
    with subprocess.Popen([sys.executable, "-c", "print(sum(range(10**7)), flush=True); input()"], **PIPES) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        other.stdout.readline()
        mine, both = workers.cpu_s([os.getpid()]), workers.cpu_s([os.getpid(), other.pid])
        other.stdin.close()
    assert both - mine > 0.02
    assert workers.cpu_s([os.getpid()]) > mine


async def one_line_of_five(pipe: str, both: int) -> None:
    async with workers.Running(alerts_topology, pipe=pipe) as running:
        os.write(both, b"\n")
        await running.acked(1)
        os.close(both)
        await running.acked(5)


async def test_a_run_that_ends_too_early_is_told_of_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lines")
    both = os.open(tmp_path / "lines", os.O_RDWR)  # so that it can be opened without waiting
    with pytest.raises(RuntimeError, match=r"the run has ended .* before 5 messages were acked"):
        await one_line_of_five(str(tmp_path / "lines"), both)


def test_every_tenth_line_raises_an_alert_evenly_spread() -> None:
    due = sorted(due_alerts(100_000).values())
    assert len(due) == pytest.approx(10_000, rel=0.01)
    steady = [number for number in due if number >= 1_000]
    assert max(after - before for before, after in itertools.pairwise(steady)) <= 32


def test_an_address_gives_up_after_its_fifth_attempt_and_no_two_alerts_share_one() -> None:
    attempts: dict[str, list[int]] = {}
    for pair in range(5_000):
        address, nth = attempt(pair)
        attempts.setdefault(address, []).append(nth)
    whole = [made for made in attempts.values() if len(made) == FAILURES]
    assert all(made == list(range(FAILURES)) for made in whole)
    assert len(whole) == len(due_alerts(10_000))


def test_lines_are_sshds_stamped_at_the_rate_they_are_fed_at() -> None:
    made = [line.decode() for line in lines(2_001, 1_000)]
    assert made[0].startswith("Dec 10 06:00:00 gate sshd[1000]: pam_unix(sshd:auth): authentication failure;")
    assert made[1_999].startswith("Dec 10 06:00:01 gate sshd[1999]: Failed password for root from 10.")
    assert made[2_000].startswith("Dec 10 06:00:02 ")
    assert all(line.endswith("\n") for line in made)


def test_a_percentile_is_the_value_that_its_share_does_not_exceed() -> None:
    durations = [n / 1000 for n in range(1, 1001)]
    assert [percentile_ms(durations, percent) for percent in (50, 99, 99.9)] == pytest.approx([500, 990, 999])
    assert percentile_ms([0.002], 99.9) == pytest.approx(2)


def test_a_benchmark_whose_library_is_not_installed_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "psutil.py").write_text("raise ModuleNotFoundError(\"No module named 'psutil'\", name='psutil')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run("-m", "benchmarks.throughput", "--seconds", "0.2", "--rounds", "1", "pending-tree-bytes")
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"throughput: pending-tracked needs psutil, which {sys.executable} does not have\n  next: "
    )
    assert "Traceback" not in done.stderr
    alone = run("-m", "benchmarks.throughput", "--seconds", "0.2", "--rounds", "1", "identity-embedded-acked")
    assert alone.returncode == 0
