"""The supervisor's end of the guard that ends its workers when it is gone itself, and they do not. The guard itself is
`orphan_guard`. Must not know how a worker is started, nor what its death means.
"""

import contextlib
import os
import socket
import subprocess
import sys

from topology.runtime.os_process import orphan_guard


class Orphans:
    """Sees to it that no worker outlives this process by more than a few seconds, also one that is stopped. On systems
    without descriptors of processes (others than Linux) it does nothing: there, a later run names who is left.

    `begin` before each worker, `add` it before it can be reaped, `reaped` once it is; `close` when all are.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._workers: dict[
            int, int
        ] = {}  # pid → descriptor, of those that are not reaped: for a guard that comes anew

    def begin(self, directory: str) -> None:
        """Starts the guard, unless it is there; it removes this directory of sockets after workers that it had to kill.
        Raises OSError where it can't be started."""
        if sys.platform != "linux" or (self._process is not None and self._process.poll() is None):
            return
        self._end()
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        for descriptor in self._workers.values():  # first, so that it knows them even if we are killed during its start
            self._tell(descriptor)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", orphan_guard.__file__, str(theirs.fileno()), directory],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # what stops, ends or kills our process group leaves it alone
            )
        except BaseException:
            self._end()
            raise
        finally:
            theirs.close()

    def add(self, pid: int) -> None:
        """This worker, which is not reaped, is to end with us."""
        if sys.platform == "linux" and self._control is not None:
            with contextlib.suppress(OSError):  # no descriptor is left: it still ends by itself, if it can
                self._workers[pid] = os.pidfd_open(pid)
                self._tell(self._workers[pid])

    def reaped(self, pid: int) -> None:
        """This one is gone."""
        descriptor = self._workers.pop(pid, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Ends the guard. May be called twice."""
        for pid in list(self._workers):
            self.reaped(pid)
        self._end()

    def _tell(self, worker: int) -> None:
        assert self._control is not None, "it was begun"
        with contextlib.suppress(OSError):  # it is gone: the next one is told of all
            socket.send_fds(self._control, [b"w"], [worker])

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()  # what it was there for is over
            self._process.wait()
            self._process = None
