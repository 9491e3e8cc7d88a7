"""What a run shows, and what it leaves behind: first line, progress, summary, figures, state directory, exit status."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_kit import KEDGE, environment, kedge

ESCAPES = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
PLAIN_LINE = re.compile(
    r"^0:00:0\d  [\d,]+ records/s  acked [\d,]+  failed \d+  pending \d+  latency p50 .+, p99 .+, max .+$", re.MULTILINE
)


def test_a_run_ends_with_a_summary_on_stdout_and_everything_else_on_stderr(folder: Path) -> None:
    result = kedge("run", "counting.py", cwd=folder)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"counting has read everything and ended after \d+\.\d s", lines[0])
    assert lines[1].split() == [*("in", "out", "acked", "failed", "replays", "dead"), *lines[1].split()[6:]]
    assert lines[2].split()[:6] == ["numbers", "1,000", "1,000", "0", "0", "0"]
    assert lines[3].split()[:4] == ["odd", "1,000", "500", "0"]
    assert lines[4].split()[:4] == ["forget", "500", "0", "0"]
    assert re.match(r"  latency  p50 [\d.]+ ms, p99 [\d.]+ ms, max [\d.]+ ms", lines[5])
    assert re.fullmatch(r"  decided  \d+ checkpoints?, of up to [\d.]+ k?B and [\d.]+ [mµ]?s", lines[6])
    assert lines[7:9] == ["forget: nothing is kept \\x1b[31m[bold]", "  by design"]
    assert re.fullmatch(r"try next: \S*kedge run counting.py .*# resumes from here", lines[9]), "nothing is stored here"
    assert len(lines) == 10
    assert PLAIN_LINE.search(result.stderr)


def test_the_command_to_try_next_works_as_it_is_printed(folder: Path) -> None:
    first = kedge("run", "counting.py", "--set", "count=7", "--state-dir", "the state", cwd=folder)
    command = first.stdout.splitlines()[-1].removeprefix("try next: ")
    second = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert second.returncode == 0, second.stderr
    assert re.search(r"numbers +7 +7 +0 +0 +0", first.stdout)
    assert re.search(r"numbers +0 +0 +0 +0 +0", second.stdout), "it resumes, and there is nothing new"


def test_the_last_line_of_stdout_is_the_run_in_figures_with_json(folder: Path) -> None:
    result = kedge("run", "counting.py", "--json", "--set", "count=2000", cwd=folder)
    assert result.returncode == 0, result.stderr
    (line,) = result.stdout.splitlines()
    figures = json.loads(line)
    told = "topology seconds workers spouts bolts latency_ms dead_letters checkpoint restarts"
    assert list(figures) == told.split()
    assert (figures["topology"], figures["workers"], figures["restarts"]) == ("counting", 1, 0)
    numbers, odd, forget = figures["spouts"]["numbers"], figures["bolts"]["odd"], figures["bolts"]["forget"]
    assert list(figures["spouts"]) == ["numbers"]
    assert list(figures["bolts"]) == ["odd", "forget"]
    assert numbers.pop("latency_ms") == figures["latency_ms"], "of the only spout"
    assert numbers.pop("paused_s") >= 0
    assert numbers == {"emitted": 2000, "acked": 2000, "failed": 0, "replayed": 0, "dead": 0, "pending": 0}
    for bolt in (odd, forget):
        assert 0 < bolt.pop("busy_s") < figures["seconds"]
        assert 0 <= bolt.pop("input_ms") < 1000
    nothing = {"failed": 0, "keys": 0, "remembered": 0, "remembered_bytes": 0}
    assert odd == {"executed": 2000, "emitted": 1000, **nothing}
    assert forget == {"executed": 1000, "emitted": 0, **nothing}
    assert list(figures["latency_ms"]) == ["p50", "p99", "max"]
    assert all(isinstance(value, float) and value > 0 for value in figures["latency_ms"].values())
    assert figures["seconds"] > 0
    assert "by design" in result.stderr


@pytest.mark.parametrize("log_format", ["auto", "console", "json"])
def test_a_dead_message_is_loud_and_exit_status_1_and_its_text_can_forge_nothing_S11(
    folder: Path, log_format: str
) -> None:
    arguments = ("--set", "fail_at=3", "--config", "max_replays=1", "--json", "--log-format", log_format)
    result = kedge("run", "counting.py", *arguments, cwd=folder)
    assert result.returncode == 1
    assert json.loads(result.stdout.splitlines()[-1])["spouts"]["numbers"]["dead"] == 1
    escaped = "\\x1b]0;pwn\\x07" if log_format == "console" else "\\u001b]0;pwn\\u0007"
    assert f"[red]please[/red] {escaped}" in result.stderr
    assert not ESCAPES.search(result.stderr)
    assert "counting.py" in result.stderr, "the user's frames are shown"
    assert "executor.py" not in result.stderr, "the runtime's are not"


@pytest.mark.parametrize("given", ["option", "environment"])
def test_a_setting_is_taken_from_the_option_or_the_environment(folder: Path, given: str) -> None:
    arguments = ["run", "counting.py", "--set", "fail_at=3", "--json"]
    if given == "option":  # which is stronger
        result = kedge(*arguments, "--config", "max_replays=2", cwd=folder, env={"KEDGE_MAX_REPLAYS": "4"})
    else:
        result = kedge(*arguments, cwd=folder, env={"KEDGE_MAX_REPLAYS": "2"})
    assert json.loads(result.stdout)["spouts"]["numbers"]["replayed"] == 2


def test_the_state_directory_is_named_kept_and_given_its_place(folder: Path) -> None:
    first = kedge("run", "counting.py", cwd=folder)
    assert "counting: 1 spout, 2 bolts; state in .kedge/counting\n" in first.stderr
    assert json.loads((folder / ".kedge/counting/state.json").read_text())["incarnation"] == 1
    kedge("run", "counting.py", cwd=folder)
    assert json.loads((folder / ".kedge/counting/state.json").read_text())["incarnation"] == 2
    other = kedge("run", "counting.py", "--state-dir", "other", "--fresh", cwd=folder)
    assert "state in other (fresh)" in other.stderr
    assert (folder / "other/state.json").exists()


def test_a_dotted_module_runs_like_a_file_and_python_m_kedge_like_kedge(folder: Path) -> None:
    for command in ((KEDGE,), (sys.executable, "-m", "kedge")):
        result = kedge("run", "counting", "--set", "count=5", "--fresh", cwd=folder, command=command)
        assert result.returncode == 0, result.stderr
        assert re.search(r"numbers +5 +5 +0 +0 +0", result.stdout)


def test_a_file_may_be_called_like_a_module_of_pythons_own(folder: Path) -> None:
    (folder / "calendar.py").write_text((folder / "counting.py").read_text())
    assert kedge("run", "calendar.py", cwd=folder).returncode == 0


def test_for_seconds_drains_and_is_no_failure(folder: Path) -> None:
    begun = time.monotonic()
    result = kedge("run", "endless.py", "--for", "1", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - begun >= 1
    assert "1 s have passed: draining" in result.stderr
    assert "endless was stopped and has drained after" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("time_", ["1200ms", "1.2s", "0.02m"])
def test_for_takes_a_time_with_its_unit(folder: Path, time_: str) -> None:
    begun = time.monotonic()
    result = kedge("run", "endless.py", "--for", time_, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - begun >= 1.2
    assert "1.2 s have passed: draining" in result.stderr


def test_a_topology_that_uses_one_worker_of_two_says_so_at_the_start_and_what_would_use_both(folder: Path) -> None:
    (folder / "one.py").write_text(
        "from kedge import Items, Print, Record, Topology\nclass N(Record):\n    n: int\ntopology = Topology('one')\n"
        "topology.bolt('show', Print(), topology.spout('numbers', Items([N(1)])).shuffle())\n"
    )
    told = kedge("run", "one.py", "--workers", "2", cwd=folder, env={"KEDGE_LOG_FORMAT": "console"}).stderr
    said = "1 of 2 workers has tasks: no others are started; tasks=2, of a component, has it run on two"
    assert said in told.split("0:00:0")[0], "before the first figures"


def test_without_a_terminal_progress_is_plain_lines_now_and_then(folder: Path) -> None:
    result = kedge("run", "endless.py", "--for", "2.5", cwd=folder, env={"TERM": "xterm-256color", "FORCE_COLOR": "1"})
    assert not ESCAPES.search(result.stderr + result.stdout)
    seconds = [line[:7] for line in PLAIN_LINE.findall(result.stderr)]
    assert "0:00:01" <= seconds[0] <= "0:00:02", result.stderr  # the later where the machine is busy
    assert len(seconds) == 2, "one after a second, the next would be after six, and one at the end"


@pytest.mark.parametrize("gone", ["stdout", "stderr"])
def test_a_reader_that_goes_away_is_no_crash(folder: Path, gone: str) -> None:
    process = subprocess.Popen(
        [KEDGE, "run", "counting.py", "--set", "count=20000"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    closed, other = (process.stdout, process.stderr) if gone == "stdout" else (process.stderr, process.stdout)
    closed.close()
    rest = other.read().decode()
    assert process.wait(60) == 0, rest
    assert "Traceback" not in rest
    assert "BrokenPipe" not in rest
    other.close()


def test_head_takes_the_first_line_and_nothing_complains(folder: Path) -> None:
    result = subprocess.run(
        ["/bin/sh", "-c", f"'{KEDGE}' run counting.py | head -1"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout.startswith("counting has read everything")
    assert len(result.stdout.splitlines()) == 1
    assert "Broken pipe" not in result.stderr
    assert "Traceback" not in result.stderr


def test_version_and_help_need_no_topology(folder: Path) -> None:
    version = kedge("--version", cwd=folder)
    number = re.fullmatch(r"(kedge \d\S*) \(Python \d[^()]+, [^()]+\)\n", version.stdout)
    assert number, version.stdout
    code = "import sys, kedge; print('kedge', kedge.__version__, hasattr(kedge, 'nothing'), 'typer' in sys.modules)"
    imported = kedge("-c", code, cwd=folder, command=(sys.executable,))
    assert imported.stdout == f"{number[1]} False False\n"
    for arguments in ([], ["--help"], ["run", "--help"], ["check", "-h"]):
        result = kedge(*arguments, cwd=folder)
        assert result.returncode == 0
        assert result.stdout.startswith("Usage: kedge")


def test_what_is_slow_to_import_is_imported_late(folder: Path) -> None:
    code = (
        "import sys\n"
        "from topology.cli.main import status_of\n"
        "early = {'rich', 'structlog', 'asyncio', 'topology.runtime'} & set(sys.modules)\n"
        "status_of(['check', 'counting.py'])\n"
        "late = {'rich', 'structlog'} & set(sys.modules)\n"
        "print(sorted(early), sorted(late))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[] []", result.stdout
