"""One process beside a run, as the run sees it: started with its guard, given its stdin, heard, told to end, reaped.

Nothing here waits for it. Must not know what is said, nor what is done about a death.
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

LAST_S: Final = 2.0  # how long its last lines may take: what it has started may have its stdout still
_WRITE_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024


class CompanionProcess:
    """One process. Made in a running loop; raises OSError where it can't be started.

    said    Called with each line of its stdout, on the loop, and before `ended`.
    ended   Called once it is reaped, and all that was in its process group with it. Then `status` is its exit status,
            as `subprocess` counts it, `why` says that in words, and `last` are the last lines of its stderr.
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
        self._reaping = threading.Lock()  # held while it is reaped, or killed: its number is its own till then
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
        """Asks it to end, by SIGTERM; at once, or when it has begun."""
        self._orders.add(b"t")

    def kill(self) -> None:
        """Ends it at once, with all that is in its process group."""
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
        """Waits for the end of the guard, in a thread of its own. What the guard could not kill goes now, before the
        number of the group may be another one's."""
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(self._over, code)

    def _over(self, status: int) -> None:
        self._process.returncode = status
        self.status = status
        with contextlib.suppress(OSError, ValueError, KeyError):  # it says nothing where it was killed itself
            said = json.loads(_all_of(self._control))
            self.status, self.last = said["status"], said["last"]
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
    """Writes bytes to a descriptor that takes them when it likes; then calls `done`. One that is closed at the other
    end takes them all."""

    def __init__(self, descriptor: int, data: bytes, done: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._left = bytearray(data)
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._closed = False
        os.set_blocking(descriptor, False)
        self._write()

    def add(self, data: bytes) -> None:
        """Further bytes; after `close` they go nowhere."""
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
        """Gives up what is left."""
        if not self._closed:
            self._closed = True
            if self._left:
                self._left.clear()
                self._write()


def _spawned(fd: int) -> "subprocess.Popen[bytes]":
    """The guard, in a session of its own. -I and -S keep all but the interpreter's own modules away."""
    command = [sys.executable, "-I", "-S", guard.__file__, str(fd)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[fd], start_new_session=True
    )


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # none is left; macOS says the other of the dead
        os.killpg(pid, signal.SIGKILL)


def _all_of(control: socket.socket) -> bytes:
    """What is there to be read of a socket whose other end is gone."""
    found = bytearray()
    while data := control.recv(_READ_BYTES):
        found += data
    return bytes(found)
