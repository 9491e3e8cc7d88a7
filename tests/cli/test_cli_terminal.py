"""On a terminal, a real one as far as the command can tell: live progress, and nothing garbled by what data holds."""

import os
import pty
import re
import select
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_kit import KEDGE, PATIENCE_S, environment

if sys.platform != "win32":
    import fcntl
    import termios

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FIGURES = re.compile(r"0:00:0\d  [\d,]+ records/s  acked [\d,]+  failed \d+  pending \d+")


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


def test_a_terminal_shows_live_progress_several_times_a_second(folder: Path) -> None:
    status, written = on_a_terminal(folder, "run", "endless.py", "--for", "2")
    assert status == 0, written
    assert 5 <= len(FIGURES.findall(written)) <= 12, written
    assert "\x1b[?25l" in written, "the cursor is hidden meanwhile"
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l"), "and shown again"
    assert "endless was stopped and has drained" in written


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
    assert FIGURES.search(plain)


def test_a_dumb_terminal_gets_plain_lines(folder: Path) -> None:
    _, written = on_a_terminal(folder, "run", "endless.py", "--for", "1.5", TERM="dumb")
    assert "\x1b" not in written
    assert len(FIGURES.findall(written)) == 2


@pytest.mark.parametrize("columns", [20, 60])
def test_a_narrow_terminal_keeps_the_progress_in_one_line(folder: Path, columns: int) -> None:
    _, written = on_a_terminal(folder, "run", "endless.py", "--for", "1", columns=columns)
    live = written[written.index("\x1b[?25l") : written.rindex("\x1b[?25h")]
    drawn = [
        line
        for part in live.split("\r")
        for line in COLOUR.sub("", part).split("\n")
        if "records" in line or "…" in line
    ]
    assert drawn
    assert all(len(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)) <= columns for line in drawn), drawn
