"""What `kedge compare` shows of real runs: on a terminal, in a pipe, as JSON and in files, whatever comes of these."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from cli_kit import KEDGE, PATIENCE_S, environment, kedge, one_sentence, started, told
from measured_kit import until
from terminal_kit import terminal

SHORT = ("--rate", "200", "--for", "1", "--warm-up", "0.2", "--rounds", "1")
STYLE = re.compile(r"\x1b\[[\d;]+m")
HIDING = """
from counting import topology as counting
from topology import Secret, Topology

def topology(password: Secret) -> Topology:
    return counting(100)
"""


def left_behind(folder: Path) -> list[str]:
    """Processes that a comparison in this folder has begun, and that go on."""
    found = []
    for one in psutil.process_iter(["cmdline", "environ"]):
        if (one.info["environ"] or {}).get("COMPARED_IN") == str(folder):
            found.append(" ".join(one.info["cmdline"] or []))
    return found


@pytest.mark.slow
def test_in_a_pipe_it_tells_each_turn_and_ends_in_a_table_and_the_files_that_were_asked_for(folder: Path) -> None:
    env = {"KEDGE_MODES": "record,embedded", "KEDGE_FOR": "1", "COLUMNS": "80"}
    options = ("--rate", "200", "--warm-up", "0.2", "--rounds", "1", "--report", "a.html", "--png", "a.png")
    result = kedge("compare", "counting.py", *options, cwd=folder, env=env)
    assert result.returncode == 0, result.stderr
    assert "round 1 of 1  Kedge, one process: p50 " in result.stderr
    assert result.stderr.splitlines()[-2:] == ["written: a.html", "written: a.png"]
    titles, first, figures, *_ = result.stdout.splitlines()
    assert titles.split()[:5] == ["p50", "p90", "p99", "p99.9", "max"]
    assert first.startswith("Kedge, 2 workers")
    assert figures.startswith("  ")
    assert max(map(len, result.stdout.splitlines())) <= 80
    page = (folder / "a.html").read_text()
    assert "kedge compare counting.py --rate 200 --for 1 --warm-up 0.2 --rounds 1 --modes record,embedded" in page
    assert "Latency by percentile of each mode" in page
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(one.name for one in folder.iterdir() if one.name[0] not in "._") == [
        *("a.html", "a.png", "counting.py", "endless.py")
    ]


def test_with_json_stdout_is_one_object_and_the_table_goes_to_stderr(folder: Path) -> None:
    result = kedge("compare", "counting.py", *SHORT, "--modes", "embedded", "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert {"machine", "versions", "settings", "modes", "notes", "interrupted"} <= found.keys()
    (mode,) = found["modes"]
    assert mode["latency_ms"].keys() == {"p50", "p90", "p99", "p999", "max"}
    assert sum(count for _, count in mode["histogram"]) == mode["arrived"] > 50
    assert min(mode["throughput_per_s"], mode["cpu_seconds_per_million"], mode["memory_mb"], mode["start_s"]) > 0
    assert "exactly once" in mode["guarantee"]
    assert "    p50      p90" in result.stderr


@pytest.mark.slow
def test_on_a_terminal_each_mode_has_a_bar_and_ctrl_c_shows_and_keeps_what_was_measured(folder: Path) -> None:
    options = ("--rate", "200", "--for", "1", "--warm-up", "0.2", "--rounds", "50", "--modes", "record,embedded")
    given = {"COMPARED_IN": str(folder)}
    with terminal(folder, "compare", "counting.py", *options, "--report", "a.html", columns=80, **given) as run:
        run.until_shown("Kedge, one process ━")
        run.until_shown("round 2 of 50")
        assert any("Ctrl-C ends it early" in line for line in run.lines())
        assert not run.cursor_shown
        assert STYLE.search(run.written)
        until(lambda: any("bridge.compare" in one for one in left_behind(folder)), "its processes can be found")
        run.type(b"\x03")
        assert run.end() == 130
        shown = "\n".join(run.everything())
        assert "━" not in shown, "bars are gone"
        assert run.cursor_shown
    assert "interrupted: the figures are of the part measured before" in shown
    assert "exactly once" in shown
    assert "interrupted" in (folder / "a.html").read_text().lower()
    assert left_behind(folder) == []


def test_without_colours_bars_have_none(folder: Path) -> None:
    options = (*SHORT, "--modes", "embedded")
    with terminal(folder, "compare", "counting.py", *options, NO_COLOR="1") as run:
        run.until_shown("Kedge, one process ━")
        assert run.end() == 0
    assert STYLE.findall(run.written) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_a_signal_before_anything_was_measured_leaves_no_process(folder: Path, number: signal.Signals) -> None:
    with started("compare", "endless.py", "--modes", "embedded", cwd=folder) as run:
        run.until_said("compares modes of endless.py")
        compares = psutil.Process(run.process.pid)
        until(lambda: bool(compares.children(recursive=True)), "the process that reads messages")
        children = compares.children(recursive=True)
        run.process.send_signal(number)
        assert run.ended() in (1, 130)
    assert "Traceback" not in run.said()
    assert psutil.wait_procs(children, timeout=PATIENCE_S)[1] == []


def test_a_mode_that_there_is_none_of_is_told_before_anything_is_measured(folder: Path) -> None:
    result = kedge("compare", "counting.py", "--modes", "record,embeded", cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert "there is no mode 'embeded'; did you mean 'embedded'?" in one_sentence(result)


def test_a_stdout_that_takes_nothing_costs_the_table_and_not_the_report(folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    command = [KEDGE, "compare", "counting.py", *SHORT, "--modes", "embedded", "--report", "a.html"]
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            command, cwd=folder, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S
        )
    assert ran.returncode == 1
    assert "kedge: the output can't be written: No space left on device" in ran.stderr
    assert "Latency by percentile" in (folder / "a.html").read_text()


def test_a_folder_that_goes_in_the_meantime_costs_the_report_and_not_the_table(folder: Path) -> None:
    (folder / "out").mkdir()
    options = (*SHORT, "--modes", "embedded", "--report", "out/a.html")
    with started("compare", "counting.py", *options, cwd=folder) as run:
        run.until_said("round 1 of 1")
        shutil.rmtree(folder / "out")
        assert run.ended() == 2
    found = told("\n".join(run.said().splitlines()[-2:]))
    assert found.sentence == "--report 'out/a.html' is not writable: No such file or directory"
    assert found.code == "K702"
    assert "exactly once" in (folder / "stdout.txt").read_text()


def without_room(blocks: int) -> tuple[str, ...]:
    """The command, none of whose processes may write a file of more than so many blocks of 512 bytes."""
    return ("sh", "-c", f'ulimit -f {blocks}; exec "$0" "$@"', KEDGE)


def test_where_nothing_can_be_written_it_says_so_before_anything_is_measured_k708(folder: Path) -> None:
    result = kedge("compare", "counting.py", *SHORT, "--modes", "embedded", cwd=folder, command=without_room(0))
    assert (result.returncode, result.stdout) == (3, "")
    assert one_sentence(result).startswith("the comparison could not create its files and processes: ")
    assert told(result.stderr).code == "K708"


def test_where_a_mode_can_not_write_its_row_says_so_and_there_is_a_report(folder: Path) -> None:
    options = (*SHORT, "--modes", "embedded,record", "--report", "a.html")
    env = {"COLUMNS": "200"}
    result = kedge("compare", "counting.py", *options, cwd=folder, command=without_room(480), env=env)
    assert "Traceback" not in result.stderr
    assert result.returncode == 1
    assert result.stdout.count("File too large") == 2, result.stdout
    assert "did not run: " in (folder / "a.html").read_text()


def test_a_secret_of_the_command_line_is_in_nothing_that_is_shown_s12(folder: Path) -> None:
    (folder / "hiding.py").write_text(HIDING)
    options = (*SHORT, "--modes", "embedded", "--report", "a.html", "--json")
    result = kedge("compare", "hiding.py", "--set", "password=hunter2", *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "--set password=… is a secret" in result.stderr
    for said in (result.stdout, result.stderr, (folder / "a.html").read_text()):
        assert "hunter2" not in said
    assert "password=…" in (folder / "a.html").read_text()


def test_a_variable_of_a_run_does_not_change_what_is_measured(folder: Path) -> None:
    result = kedge("compare", "counting.py", *SHORT, "--modes", "embedded", cwd=folder, env={"KEDGE_JSON": "1"})
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["modes"][0]["problem"] == ""
    assert os.listdir(folder).count(".kedge") == 0
