"""`make figures`: one benchmark after the other on a quiet machine; what fails is told, and what is done is kept."""

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it has no stubs
import pytest

from benchmarks import figures
from benchmarks.figures import Places, taken
from benchmarks.kept import load
from benchmarks.page import PAGE, pages
from benchmarks.quiet import BUSY, LOOK_S, quiet

ROOT = Path(__file__).resolve().parents[2]
FOUND = {
    "benchmark": "latency",
    "machine": {"cpu": "Some CPU", "cores": 2, "load": [0.1, 0.2, 0.3]},
    "versions": {"python": "3.11.7"},
    "results": [{"name": "alert-embedded-1k", "value": 0.06, "unit": "ms"}],
}
LIMIT_S = 60.0


def giving(found: dict[str, Any]) -> list[str]:
    return [sys.executable, "-c", f"print({json.dumps(found)!r})"]


# -- a quiet machine


class Machine:
    """Its load as these looks find it, the last one for ever; time goes by as somebody sleeps."""

    def __init__(self, *loads: float | None) -> None:
        self.loads = list(loads)
        self.now = 100.0
        self.told: list[str] = []

    def load(self) -> float | None:
        return self.loads.pop(0) if len(self.loads) > 1 else self.loads[0]

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def waits(self, limit_s: float) -> float | None:
        return quiet(limit_s, self.told.append, self.load, lambda: self.now, self.sleep)


def test_what_is_begun_waits_until_the_load_of_the_one_before_has_gone() -> None:
    machine = Machine(2.7, 1.3, BUSY, BUSY - 0.01)
    assert machine.waits(180) == BUSY - 0.01
    assert machine.now == 100 + 3 * LOOK_S
    assert machine.told == ["waiting until the machine's load, 2.70, is below 0.5: for 180 s at most"]


def test_a_machine_that_does_not_come_to_rest_is_not_waited_for_for_ever() -> None:
    machine = Machine(2.7, 0.9)
    assert machine.waits(12) == 0.9
    assert machine.now == 112
    assert machine.told[1:] == ["the machine is not quiet, its load is 0.90: the figures will say so"]


@pytest.mark.parametrize("load_then", [0.1, None])
def test_on_a_quiet_machine_nothing_is_waited_for(load_then: float | None) -> None:
    machine = Machine(load_then)
    assert machine.waits(180) == load_then
    assert (machine.now, machine.told) == (100, [])


def test_that_the_machine_was_not_quiet_is_kept_and_stands_on_the_page(tmp_path: Path) -> None:
    for before in (BUSY, BUSY - 0.01):
        assert taken("latency", giving(FOUND), LIMIT_S, tmp_path, before) == ""
        (kept,) = load([tmp_path / "latency.json"])
        assert kept.found["machine"] == {**FOUND["machine"], "load_before": before, "quiet_before": before < BUSY}
        assert ("before, when the machine was not quiet" in pages([kept])[PAGE]) is (before >= BUSY)
        assert f"load {before:g} before" in pages([kept])[PAGE]


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ({"topology": "a.py", "modes": []}, (0.49, True)),  # whose own start is in the load that it finds
        ({"benchmark": "peers", "results": []}, (0.52, False)),  # who has installed something before it began
    ],
)
def test_the_load_before_is_that_of_the_machine_at_rest_unless_a_benchmark_has_prepared_something(
    tmp_path: Path, found: dict[str, Any], kept: tuple[float, bool]
) -> None:
    found = {**found, "machine": {"load_before": 0.52}}
    assert taken("some", giving(found), LIMIT_S, tmp_path, 0.49) == ""
    (one,) = load([tmp_path / "some.json"])
    assert (one.found["machine"]["load_before"], one.found["machine"]["quiet_before"]) == kept


def test_each_benchmark_waits_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`quiet` is asked once for each, and its answer is kept with what the benchmark has given."""
    asked: list[float] = []

    def waited(limit_s: float, tell: Any) -> float:
        asked.append(limit_s)
        return BUSY if len(asked) == 1 else 0.0

    monkeypatch.setattr(figures, "quiet", waited)
    monkeypatch.setattr(figures, "FIGURES", {"a": giving(FOUND), "b": giving(FOUND)})
    places = Places(tmp_path / "results", tmp_path / "docs")
    assert places.problem() == ""
    assert figures._take(["a", "b"], LIMIT_S, 7.0, places) == 0
    assert asked == [7.0, 7.0]
    assert [kept.found["machine"]["quiet_before"] for kept in load([*places.results.iterdir()])] == [False, True]
    assert "How soon an alert comes" in (places.docs / PAGE).read_text("utf-8")
    assert "2/2 b ..." in capsys.readouterr().err


# -- what each gives


def test_a_benchmark_that_fails_leaves_the_last_figures_and_is_told(tmp_path: Path) -> None:
    assert taken("latency", giving(FOUND), LIMIT_S, tmp_path, 0.1) == ""
    kept_before = (tmp_path / "latency.json").read_text()
    noted = json.loads(kept_before)
    assert noted["machine"].pop("load_before") == 0.1
    assert noted["machine"].pop("quiet_before") is True
    assert noted == FOUND
    failing = [sys.executable, "-c", "exit(3)"]
    assert "status 3, and has given no object" in taken("latency", failing, LIMIT_S, tmp_path, 0.1)
    told = taken("latency", giving({**FOUND, "machine": {"cpu": "/etc/x"}}), LIMIT_S, tmp_path, 0.1)
    assert "it is not kept: " in told
    assert [path.name for path in tmp_path.iterdir()] == ["latency.json"]
    assert (tmp_path / "latency.json").read_text() == kept_before


def test_figures_that_can_not_be_written_are_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "latency.json").mkdir()
    assert taken("latency", giving(FOUND), LIMIT_S, tmp_path, 0.1) == "it is not kept: Is a directory"
    assert [path.name for path in tmp_path.iterdir()] == ["latency.json"]


def all_taken(names: Sequence[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit status; nothing is waited for."""
    monkeypatch.setattr(figures, "FIGURES", dict.fromkeys(names, giving(FOUND)))
    return figures._take(names, LIMIT_S, 0.0, Places(folder / "results", folder / "docs"))


def test_without_room_for_what_one_gives_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Places(tmp_path / "results", tmp_path / "docs").problem() == ""
    made = tempfile.TemporaryFile
    full = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some/where")]
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: raised(full.pop()) if full else made())
    assert all_taken(["a", "b"], tmp_path, monkeypatch) == 1
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["b.json"]
    assert (tmp_path / "docs" / PAGE).exists()
    assert "a: the run failed: some/where: No space left on device\n" in capsys.readouterr().err


def raised(error: OSError) -> Any:
    raise error


def test_without_room_for_the_log_comparisons_are_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What there was room for is removed, so that others have it."""
    assert Places(tmp_path / "results", tmp_path / "docs").problem() == ""

    def made(lines: int, rate: int) -> Iterator[bytes]:
        yield b"a line\n"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(figures, "made", made)
    monkeypatch.setattr(figures, "LOG", tmp_path / "log" / "auth.log")
    assert all_taken(["compare-1k", "latency"], tmp_path, monkeypatch) == 1
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["latency.json"]
    assert list((tmp_path / "log").iterdir()) == []
    assert "compare-1k: the run failed: No space left on device\n" in capsys.readouterr().err


def test_paths_of_this_machine_are_taken_out_of_what_is_kept(tmp_path: Path) -> None:
    found = {**FOUND, "settings": {"log": f"{ROOT}/build/x.log", "place": "in /tmp/kedge-1/x, and /home/me/y"}}
    assert taken("latency", giving(found), LIMIT_S, tmp_path, 0.1) == ""
    noted = json.loads((tmp_path / "latency.json").read_text())["settings"]
    assert noted == {"log": "build/x.log", "place": "in …, and …"}


def test_a_benchmark_past_its_limit_is_ended_as_by_ctrl_c_and_what_it_has_given_is_kept(tmp_path: Path) -> None:
    code = f"import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print({json.dumps(FOUND)!r})"
    told = taken("latency", [sys.executable, "-c", code], 3, tmp_path, 0.1)
    assert told == "it was ended after 3 s; what it has given is kept"
    assert (tmp_path / "latency.json").exists()


# -- the command


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks.figures", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)


def test_the_command_lists_what_it_would_run() -> None:
    done = run("--list")
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [*figures.FIGURES]
    again = "-m kedge compare examples/ssh_alerts.py --json --set path=build/figures/auth.log --rate 10000"
    assert again in done.stdout


def test_a_name_that_is_given_twice_is_run_once() -> None:
    assert run("--list", "latency", "fraud", "latency").stdout.count("latency:") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["latencies"], f"there is no 'latencies'; the names are {', '.join(figures.FIGURES)}"),
        (["--minutes", "0"], "--minutes has to be above 0"),
        (["--minutes", "nan"], "--minutes has to be above 0"),
        (["--wait", "-1"], "--wait not below"),
        (["--results", "Makefile"], "figures: Makefile is no folder"),
        (["--docs", "/dev/null/docs"], "nothing can be written into /dev/null/docs/images: Not a directory"),
        (["--results", "/proc/results"], "nothing can be written into /proc/results: "),
    ],
)
def test_what_can_not_be_begun_ends_with_status_2_and_a_sentence(options: Sequence[str], said: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def running(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """The command, at its only benchmark, whose processes have begun."""
    options = ["--wait", "0", "--results", str(tmp_path / "results"), "--docs", str(tmp_path / "docs"), "throughput"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "benchmarks.figures", *options], cwd=ROOT, **pipes) as process:
        try:
            assert process.stderr is not None
            while "round 1/" not in process.stderr.readline():  # a measurement is done, the next one begins
                assert process.poll() is None
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_with_a_sentence_and_leaves_no_process(
    running: "subprocess.Popen[str]", number: signal.Signals, tmp_path: Path
) -> None:
    started = psutil.Process(running.pid).children(recursive=True)
    assert started
    begun = time.monotonic()
    os.kill(running.pid, number)  # to this process alone: its own have to hear of it from there
    _, told = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 130, told
    assert "interrupted: what was done by then is kept, and on the page" in told
    assert "Traceback" not in told
    assert time.monotonic() - begun < figures.STOP_S
    psutil.wait_procs(started, timeout=30)
    assert [one for one in started if one.is_running()] == []
    assert list((tmp_path / "results").iterdir()) == []
