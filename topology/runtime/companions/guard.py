"""The guard of a companion: a small process between a run and the companion's own. It leaves nothing behind when the
run is gone, however the run ended.

It is a script of its own that imports nothing of ours, so that it starts fast and is small. It leads the session and
the process group of the companion. Its control socket says what to start. It passes stdin and stdout on, writes stderr
to a file, and reports at last how the companion has ended. Then it kills its group, itself included.

It does the same when the run is gone: at the socket's end of file, or when its parent is another process, because a
program that the run has forked may still have the socket. PR_SET_PDEATHSIG alone would not do: it reaches the companion
only, and not the companion's children. Must not know what a companion is for.

    the run → guard     one line of JSON: command, environment, log, and the line that begins it; then b"t" for SIGTERM;
                        the end of file for SIGKILL
    guard → the run     one line of JSON: status, as `subprocess` counts it, and the last lines of stderr
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
from typing import Any, Final, NoReturn

# of the file for stderr; then the file becomes NAME.1 and replaces the one before
LOG_BYTES_MAX: Final = 4 * 1024 * 1024
LAST_BYTES_MAX: Final = 4 * 1024  # of stderr, reported at the end
LEFT_BYTES_MAX: Final = 1024 * 1024  # of stderr, read after the companion has ended
LOOK_S: Final = 1.0  # seconds between two looks at the parent
CANNOT_RUN: Final = 127  # the exit status for an unknown command, as in a shell
_READ_BYTES: Final = 64 * 1024
_PR_SET_PDEATHSIG: Final = 1


class GuardLog:
    """The file for stderr. If the disk accepts nothing, the data is lost, and nothing waits."""

    def __init__(self, path: str) -> None:
        self.last = b""
        self._path = path
        self._file = -1
        self._size = 0
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with contextlib.suppress(OSError):
            self._file = os.open(self._path, flags, 0o600)
            self._size = os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        """Write data that the companion has written."""
        self.last = (self.last + data)[-LAST_BYTES_MAX:]
        self.note(data)

    def note(self, data: bytes) -> None:
        """Write data to the file only."""
        with contextlib.suppress(OSError):
            if self._size + len(data) > LOG_BYTES_MAX and self._size:
                os.replace(self._path, f"{self._path}.1")
                os.close(self._file)
                self._open()
            while data:
                written = os.write(self._file, data)
                self._size += written
                data = data[written:]


def main(control: socket.socket) -> NoReturn:
    """Start the companion, and outlive it. Ends the process."""
    parent = os.getppid()
    if sys.platform == "linux":  # a guard that was stopped, perhaps with its parent, continues when the parent is gone
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT))
    control.set_inheritable(False)
    header: dict[str, Any] = json.loads(control.makefile("rb", buffering=0).readline() or b"null") or _killed()
    log = GuardLog(header["log"])
    log.note(header["title"].encode() + b"\n")
    wake, wakes = os.pipe()
    for end in (wake, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    errors, theirs = os.pipe()
    companion = os.fork()
    if not companion:
        _become(header["command"], header["environment"], theirs)
    os.close(theirs)
    os.set_blocking(errors, False)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # they are only the companion's, which may close them
        os.dup2(nothing, stream)
    status = None
    while status is None:
        awaited: list[Any] = [control, wake, *([errors] if errors >= 0 else [])]
        ready, _, _ = select.select(awaited, [], [], LOOK_S)
        if os.getppid() != parent or (control in ready and not _end_requested(control, companion)):
            _killed()
        if wake in ready and signal.SIGTERM in os.read(wake, _READ_BYTES):
            os.kill(companion, signal.SIGTERM)
        if errors in ready and not _copied(errors, log, _READ_BYTES):
            os.close(errors)
            errors = -1
        reaped, wait_status = os.waitpid(companion, os.WNOHANG)
        status = os.waitstatus_to_exitcode(wait_status) if reaped else None
    if errors >= 0:
        _copied(errors, log, LEFT_BYTES_MAX)
    lines = log.last.decode("utf-8", "backslashreplace").splitlines()
    with contextlib.suppress(OSError):
        control.setblocking(True)
        control.sendall(json.dumps({"status": status, "last": lines}).encode() + b"\n")
    _killed()


def _become(command: list[str], environment: dict[str, str], errors: int) -> NoReturn:
    """Become the companion, in the new process. Its stderr is a pipe, and it ends with the guard."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(errors, 2)
        if sys.platform == "linux":
            guard = os.getppid()
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
            if os.getppid() != guard:
                os._exit(CANNOT_RUN)
        os.execvpe(command[0], command, environment)
    except BaseException as error:
        why = error.strerror if isinstance(error, OSError) else None
        os.write(2, f"{command[0]} can't be run: {why or error}\n".encode(errors="backslashreplace"))
    os._exit(CANNOT_RUN)


def _end_requested(control: socket.socket, companion: int) -> bool:
    """Ask the companion to end if the run says so. Return False if the run is gone."""
    try:
        data = control.recv(_READ_BYTES)
    except OSError:
        return False
    if data:
        os.kill(companion, signal.SIGTERM)
    return bool(data)


def _copied(errors: int, log: GuardLog, most: int) -> bool:
    """Copy what is there; return False at its end."""
    while most > 0:
        try:
            data = os.read(errors, min(most, _READ_BYTES))
        except BlockingIOError:
            return True
        if not data:
            return False
        log.write(data)
        most -= len(data)
    return True


def _killed() -> NoReturn:
    """Kill the whole group, and this process with it."""
    os.killpg(0, signal.SIGKILL)
    os._exit(CANNOT_RUN)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
