"""On a terminal, a real one as far as the command can tell: the live view, and nothing garbled by what data holds."""

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_kit import KEDGE, PATIENCE_S, environment, wait_for
from terminal_kit import terminal

if sys.platform != "win32":
    import fcntl
    import termios

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FIGURES = re.compile(r"0:00:0\d  [\d.,]+ records/s  acked [\d,]+")
TITLES = "in/s   busy  queued"

PRINTS = """
import sys
from spouts import Tick, Ticker
from topology import Bolt, Topology


class Says(Bolt):
    said = 0

    def process(self, tick: Tick) -> None:
        Says.said += 1
        print("line", Says.said, "\\x1b[77A\\x1b[2J\\x1b]0;pwn\\x07 \\u202e 漢字 \\x9b3A")
        print("wide", "e\\u0301 \\U0001f468\\u200d\\U0001f469 \\u05d0" * 9)
        print("err", "\\r\\x1b[1;1H" * 3, "end", Says.said, file=sys.stderr)


def topology() -> Topology:
    topology = Topology("prints")
    topology.bolt("says", Says(), topology.spout("ticks", Ticker(0.005)).shuffle())
    return topology
"""

WRITES = """
from spouts import Tick, Ticker
from topology import Bolt, Topology


class Writes(Bolt):
    def process(self, tick: Tick) -> None:
        with open("written", "a") as file:
            file.write("x")


def topology() -> Topology:
    topology = Topology("writes")
    topology.bolt("writer", Writes(), topology.spout("ticks", Ticker(0.005)).shuffle())
    return topology
"""


def on_a_terminal(folder: Path, *arguments: str, columns: int = 200, **changes: str) -> tuple[int, str]:
    """Runs the command with stdout and stderr on a pseudo-terminal; returns the status and all that was written."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [KEDGE, *arguments],
        cwd=folder,
        env=environment({"TERM": "xterm-256color", **changes}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                read = os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not read:
                break
            written += read
    os.close(ours)
    return process.wait(PATIENCE_S), written.decode(errors="replace").replace("\r\n", "\n")


def test_a_terminal_shows_a_row_for_each_component_and_leaves_only_the_summary(folder: Path) -> None:
    with terminal(folder, "run", "endless.py", "--for", "1.2") as run:
        run.until_shown("is the limit")
        top = next(number for number, line in enumerate(run.lines()) if TITLES in line)
        figures, _, ticks, hold, kept, limit = run.lines()[top - 1 : top + 5]
        assert re.match(r"endless  0:00:0\d  [\d.,]+ records/s  acked [\d,]+  pending \d+  p50 ", figures)
        assert ticks.startswith("ticks ")
        assert hold.startswith("hold ")
        assert re.fullmatch(r"checkpoint \d+\.\d s ago  [\d.]+ k?B in [\d.]+ [mµ]?s", kept)
        assert limit.startswith("the source 'ticks' is the limit")
        assert not run.cursor_shown
        assert run.end() == 0
        assert 3 <= len(FIGURES.findall(run.written)) <= 10, "several times a second"
        assert run.cursor_shown
        assert not [line for line in run.everything() if FIGURES.search(line) or line.startswith("──")]
        assert "endless was stopped and has drained" in "\n".join(run.lines())


def test_ctrl_c_drains_and_the_view_says_what_is_left(folder: Path) -> None:
    with terminal(folder, "run", "endless.py", "--set", "seconds=1.5") as run:
        run.until(lambda: re.search(r"  pending [1-9]", "\n".join(run.lines())), "something to do")
        run.type(b"\x03")
        run.until(
            lambda: any(re.match(r"draining: [\d,]+ messages? left, at most 2\d s", line) for line in run.lines()), "it"
        )
        assert any("SIGINT: draining; once more ends it now" in line for line in run.lines())
        run.type(b"\x03")
        assert run.end() == 1
        assert run.cursor_shown
        assert not [line for line in run.everything() if FIGURES.search(line)]
        assert any("endless was ended by force" in line for line in run.lines())


@pytest.mark.skipif(not hasattr(signal, "SIGTSTP"), reason="this system has no job control")
def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(folder: Path) -> None:
    with terminal(folder, "run", "endless.py") as run:
        run.until_shown(TITLES)
        run.type(b"\x1a")
        run.until(lambda: run.cursor_shown, "the cursor")
        assert not [line for line in run.lines() if TITLES in line or FIGURES.search(line)]
        stat = Path(f"/proc/{run.job}/stat")
        if stat.exists():
            wait_for(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "it to stop")
        os.kill(run.job, signal.SIGCONT)
        run.until_shown(TITLES)
        assert not run.cursor_shown
        run.type(b"\x03")
        assert run.end() == 0


def test_a_terminal_that_ctrl_s_has_stopped_does_not_hold_the_run_up(folder: Path) -> None:
    (folder / "writes.py").write_text(WRITES)
    written = folder / "written"
    with terminal(folder, "run", "writes.py") as run:
        run.until_shown("is the limit")
        run.type(b"\x13")
        size = written.stat().st_size
        wait_for(lambda: written.stat().st_size > size + 200, "200 records, with several looks meanwhile")
        run.type(b"\x11")
        before = run.written.count("records/s")
        run.until(lambda: run.written.count("records/s") > before + 1, "frames")
        run.type(b"\x03")
        assert run.end() == 0
        assert run.cursor_shown


def test_what_a_bolt_prints_stands_above_the_view_and_tears_nothing(folder: Path) -> None:
    """Also on a terminal that is slower than it, where Ctrl-C comes amid a write, and streams have no buffer."""
    (folder / "prints.py").write_text(PRINTS)
    with terminal(folder, "run", "prints.py", rows=16, PYTHONUNBUFFERED="1") as run:
        run.until(lambda: run.written.count("line ") > 60, "lines")
        for _ in range(10):
            seen = run.written.count("line ")
            run.until(lambda seen=seen: run.written.count("line ") > seen, "another line")  # type: ignore[misc]
            assert len([line for line in run.everything() if TITLES in line]) <= 1
        run.type(b"\x03")
        assert run.end() == 0
        said = [line for line in run.everything() if line.startswith(("line ", "err "))]
    numbers = [int(line.split()[1]) for line in said if line.startswith("line ")]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert len(numbers) > 60
    assert not re.search(r"\x1b\[77A|\x1b\]0|\x9b", run.written), "S11"


def test_a_terminal_that_is_resized_keeps_one_view_and_a_whole_one(folder: Path) -> None:
    with terminal(folder, "run", "endless.py", columns=120, rows=30) as run:
        run.until_shown(TITLES)
        for columns, rows in ((60, 20), (40, 10), (100, 24), (30, 6), (80, 24)):
            run.resize(columns, rows)
            before = run.written.count("endless")
            run.until(lambda before=before: run.written.count("endless") > before + 1, "frames")  # type: ignore[misc]
            assert len([line for line in run.lines() if re.match(r"endless( +0:|$)", line)]) == 1, run.lines()
        run.type(b"\x03")
        assert run.end() == 0
        assert run.cursor_shown


def test_a_worker_that_dies_is_told_above_and_its_row_remembers(folder: Path) -> None:
    (folder / "apart.py").write_text(
        (folder / "endless.py").read_text().replace("ticks.shuffle()", "ticks.shuffle(), tasks=2")
    )
    with terminal(folder, "run", "apart.py", "--workers", "2", columns=160) as run:
        run.until(lambda: "starting" in run.lines(), "the view, before a worker has said anything")
        row = re.compile(r"worker 1  pid (\d+)")
        run.until(lambda: any(map(row.match, run.lines())), "a row for each worker")
        pid = next(int(found[1]) for found in map(row.match, run.lines()) if found)
        os.kill(pid, signal.SIGKILL)
        run.until(
            lambda: any(line.startswith("worker 1 ") and line.endswith("died once") for line in run.lines()), "it"
        )
        run.until(lambda: any(found and int(found[1]) != pid for found in map(row.match, run.lines())), "its return")
        assert any("1 death" in line for line in run.lines())
        run.type(b"\x03")
        assert run.end() == 0
        said = "\n".join(run.everything())
        assert f"worker 1 (pid {pid}) was killed by SIGKILL" in said
        assert "worker 1 is back as pid" in said


def test_a_line_that_is_logged_stands_above_the_progress_and_its_data_are_taken_as_text(folder: Path) -> None:
    arguments = ("--set", "fail_at=3", "--config", "max_replays=1")
    status, written = on_a_terminal(folder, "run", "counting.py", *arguments)
    assert status == 1, written
    shown = COLOUR.sub("", written)
    assert "[red]please[/red] \\x1b]0;pwn\\x07" in shown
    assert "\x1b]0;pwn" not in written
    assert any(line.lstrip().startswith("ValueError: no 3, [red]please") for line in shown.splitlines()), shown


def test_no_color_takes_the_colours_and_leaves_the_progress(folder: Path) -> None:
    arguments = ("run", "counting.py", "--set", "fail_at=3", "--config", "max_replays=1")
    _, coloured = on_a_terminal(folder, *arguments)
    _, plain = on_a_terminal(folder, *arguments, NO_COLOR="1")
    assert COLOUR.search(coloured)
    assert not COLOUR.search(plain)
    assert "counting was" in plain or "counting has" in plain


def test_no_color_leaves_the_view_in_place(folder: Path) -> None:
    with terminal(folder, "run", "endless.py", NO_COLOR="1") as run:
        run.until_shown(TITLES)
        run.type(b"\x03")
        assert run.end() == 0
        assert not COLOUR.search(run.written)


def test_a_dumb_terminal_gets_plain_lines(folder: Path) -> None:
    _, written = on_a_terminal(folder, "run", "endless.py", "--for", "1.2", TERM="dumb")
    assert "\x1b" not in written
    assert re.search(r"0:00:0\d  [\d,]+ records/s  acked [\d,]+  failed \d+  pending \d+  latency p50 ", written)


@pytest.mark.parametrize(("columns", "rows"), [(20, 24), (40, 10), (60, 3), (80, 1)])
def test_a_small_terminal_has_a_small_view_that_does_not_scroll(folder: Path, columns: int, rows: int) -> None:
    with terminal(folder, "run", "endless.py", columns=columns, rows=rows) as run:
        for frames in range(2):
            run.until(lambda frames=frames: run.written.count("endless") > 3 + frames, "frames")  # type: ignore[misc]
            assert len([line for line in run.everything() if re.match(r"endless(  0|$|…)", line)]) <= 1, (
                run.everything()
            )
        run.type(b"\x03")
        assert run.end() == 0
        assert not [line for line in run.everything() if re.match(r"endless  0:", line)]
