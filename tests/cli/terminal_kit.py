"""A command on a pseudo-terminal, and what stands on its screen at each moment: a person's view of it."""

import contextlib
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte
from cli_kit import KEDGE, PATIENCE_S, environment

if sys.platform != "win32":
    import fcntl
    import termios

HISTORY = 5_000  # lines that have scrolled away


class OnTerminal:
    """A running command. Nothing is read but in `until` and `end`: the command's writes may wait for it."""

    def __init__(self, process: "subprocess.Popen[bytes]", ours: int, columns: int, rows: int) -> None:
        self.process = process
        self.written = ""
        self._ours = ours
        self._open = True
        self._screen = pyte.HistoryScreen(columns, rows, history=HISTORY)
        self._stream = pyte.ByteStream(self._screen)

    def lines(self) -> list[str]:
        """What stands on the screen."""
        return [line.rstrip() for line in self._screen.display]

    def everything(self) -> list[str]:
        """What has scrolled away, and what stands there."""
        width = range(self._screen.columns)
        gone = ["".join(line[x].data for x in width).rstrip() for line in self._screen.history.top]
        return [*gone, *self.lines()]

    @property
    def job(self) -> int:
        """The process id of the command itself."""
        return os.tcgetpgrp(self._ours)

    @property
    def cursor_shown(self) -> bool:
        return not self._screen.cursor.hidden

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Reads until this holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self._open, f"it ended before {what}: {self.everything()}"
            assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s for {what}: {self.lines()}"
            self._read()

    def until_shown(self, text: str) -> None:
        """Reads until this stands on the screen."""
        self.until(lambda: any(text in line for line in self.lines()), repr(text))

    def end(self) -> int:
        """Reads to its end; returns the exit status."""
        deadline = time.monotonic() + PATIENCE_S
        while self._open and time.monotonic() < deadline:
            self._read()
        return self.process.wait(PATIENCE_S)

    def type(self, keys: bytes) -> None:
        """As if it were typed."""
        os.write(self._ours, keys)

    def resize(self, columns: int, rows: int) -> None:
        """As if somebody drew at the window's corner."""
        self._screen.resize(rows, columns)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        if not select.select([self._ours], [], [], 0.1)[0]:
            return
        try:
            read = os.read(self._ours, 65536)
        except OSError:  # Linux: the other end is closed
            read = b""
        self._open = bool(read)
        self._stream.feed(read)
        self.written += read.decode(errors="replace")


@contextmanager
def terminal(folder: Path, *arguments: str, columns: int = 100, rows: int = 24, **changes: str) -> Iterator[OnTerminal]:
    """Starts the command as the only one on a terminal, which Ctrl-C and Ctrl-Z reach it by."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    modes = termios.tcgetattr(theirs)
    modes[3] |= termios.NOFLSH  # else Ctrl-C and Ctrl-Z drop what was written and is not read yet, and we read slowly
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER, KEDGE, *arguments],
        cwd=folder,
        env=environment({"TERM": "xterm-256color", **changes}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield OnTerminal(process, ours, columns, rows)
    finally:
        if process.poll() is None:
            with contextlib.suppress(OSError):
                if (job := os.tcgetpgrp(ours)) > 0:  # 0: none has come to be yet, and 0 would be ourselves
                    os.killpg(job, signal.SIGKILL)
            process.kill()
            process.wait()
        os.close(ours)


# What a shell does for a job in the foreground. It stays: a job whose shell is gone can't be stopped.
STARTER = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if not pid:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGHUP, signal.SIG_IGN)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
