"""One process beside a run, as the run sees it: start it with its guard, feed its stdin, read its output, end and reap
it.

Nothing here waits for it. Must not know what its output means, nor what is done about a death.
"""

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from topology.companions import Launch
from topology.runtime.clock import LoopClock
from topology.runtime.companions import guard
from topology.runtime.os_process.output import OutputLines
from topology.runtime.os_process.reap import UNKNOWN, how_it_ended, until_dead

LAST_S: Final = 2.0  # seconds that its last lines may take: its children may still have its stdout
_WRITE_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024


class CompanionProcess:
    """One process. Make it in a running loop; raises OSError if it can't be started.

    said    Called with each line of its stdout, on the loop, and before `ended`.
    ended   Called once it and all of its process group are gone. Then `status` is its exit status as `subprocess`
            counts it, `why` says that in words, and `last` has the last lines of its stderr.
    """

    def __init__(self, launch: Launch, log: Path, *, said: Callable[[str], None], ended: Callable[[], None]) -> None:
        self.why = ""
        self.status = UNKNOWN
        self.last: list[str] = []
        self.log = log
        self.reaped = asyncio.Event()
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._is_reaped = False
        # held while it is reaped or killed: until then no other process has its number
        self._reaping = threading.Lock()
        self._control, theirs = socket.socketpair()
        try:
            self._control.setblocking(False)
            self._process = _spawned(theirs.fileno())
            self.pid = self._process.pid
            self._start_reaper()
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        title = f"--- {LoopClock(self._loop).utc():%Y-%m-%dT%H:%M:%SZ} pid {self.pid}"
        header = {"command": launch.command, "environment": dict(launch.environment), "log": str(log), "title": title}
        self._orders = _Feed(self._control.fileno(), json.dumps(header).encode() + b"\n", lambda: None)
        self._given = _Feed(self._process.stdin.fileno(), launch.given, self._process.stdin.close)
        self._lines = OutputLines(self._process.stdout, said)

    def terminate(self) -> None:
        """Ask it to end, by SIGTERM; at once, or when it has begun."""
        self._orders.add(b"t")

    def kill(self) -> None:
        """Kill it and all of its process group at once."""
        with self._reaping:
            if not self._is_reaped:
                _kill_group(self.pid)

    # -- its end

    def _start_reaper(self) -> None:
        try:
            threading.Thread(target=self._reap, name=f"kedge companion {self.pid}", daemon=True).start()
        except RuntimeError as error:  # no more threads
            _kill_group(self.pid)
            self._process.wait()
            raise OSError(errno.EAGAIN, str(error)) from error

    def _reap(self) -> None:
        """Wait for the end of the guard, in a thread of its own. Kill what the guard could not kill before another
        group may get the number."""
        try:
            until_dead(self.pid)
            _kill_group(self.pid)
            with self._reaping:
                self._is_reaped = True
                _, status = os.waitpid(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:  # we were started with SIGCHLD ignored, so the system has reaped it
            code = UNKNOWN
        self._is_reaped = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is left to notify
            self._loop.call_soon_threadsafe(self._over, code)

    def _over(self, status: int) -> None:
        self._process.returncode = status
        self.status = status
        with contextlib.suppress(OSError, ValueError, KeyError):  # the guard reports nothing if it was killed itself
            report = json.loads(_all_of(self._control))
            self.status, self.last = report["status"], report["last"]
        self.why = how_it_ended(self.status)
        self._orders.close()
        self._given.close()
        self._control.close()
        self._lines.end_soon(LAST_S)
        self._telling = self._loop.create_task(self._tell())

    async def _tell(self) -> None:
        await self._lines.ended.wait()
        self.reaped.set()
        self._ended()


class _Feed:
    """Write bytes to a descriptor as fast as it accepts them, and then call `done`. A descriptor that is closed at the
    other end counts as one that accepts all."""

    def __init__(self, descriptor: int, data: bytes, done: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._left = bytearray(data)
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._closed = False
        os.set_blocking(descriptor, False)
        self._write()

    def add(self, data: bytes) -> None:
        """Write further bytes; after `close` they are dropped."""
        if not self._closed:
            self._left += data
            self._write()

    def _write(self) -> None:
        while self._left:
            try:
                written = os.write(self._descriptor, self._left[:_WRITE_BYTES])
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._descriptor, self._write)
                return
            except OSError:
                self._left.clear()
                break
            del self._left[:written]
        self._loop.remove_writer(self._descriptor)
        self._done()

    def close(self) -> None:
        """Drop what is left."""
        if not self._closed:
            self._closed = True
            if self._left:
                self._left.clear()
                self._write()


def _spawned(fd: int) -> "subprocess.Popen[bytes]":
    """Start the guard in a session of its own. -I and -S keep all but the interpreter's own modules away."""
    command = [sys.executable, "-I", "-S", guard.__file__, str(fd)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[fd], start_new_session=True
    )


def _kill_group(pid: int) -> None:
    # no process is left; macOS raises PermissionError for dead ones
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _all_of(control: socket.socket) -> bytes:
    """Return what is left to read from a socket whose other end is gone."""
    found = bytearray()
    while data := control.recv(_READ_BYTES):
        found += data
    return bytes(found)
