"""The supervisor's end of the guard, which ends the workers if the supervisor is gone and they do not end by
themselves.

`orphan_guard` is the guard itself. Must not know how a worker is started, nor what its death means.
"""

import contextlib
import os
import socket
import subprocess
import sys

from topology.runtime.os_process import orphan_guard


class Orphans:
    """Make sure that no worker outlives this process by more than a few seconds, even a stopped one.

    On systems without process descriptors (all but Linux) it does nothing: there, a later run names the workers that
    are left. Call `begin` before each worker, `add` before it can be reaped, `reaped` after that, and `close` when all
    are reaped.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._workers: dict[int, int] = {}  # pid → descriptor, of workers that are not reaped: for a new guard

    def begin(self, directory: str) -> None:
        """Start the guard, unless it runs. It removes this directory of sockets after workers that it had to kill.
        Raises OSError if it can't be started."""
        if sys.platform != "linux" or (self._process is not None and self._process.poll() is None):
            return
        self._end()
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        # first, so that the guard knows them even if we are killed during its start
        for descriptor in self._workers.values():
            self._tell(descriptor)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", orphan_guard.__file__, str(theirs.fileno()), directory],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a signal to our process group does not reach it
            )
        except BaseException:
            self._end()
            raise
        finally:
            theirs.close()

    def add(self, pid: int) -> None:
        """Have this worker end with us. Call it before the worker is reaped."""
        if sys.platform == "linux" and self._control is not None:
            with contextlib.suppress(OSError):  # no descriptor is left: the worker still ends by itself, if it can
                self._workers[pid] = os.pidfd_open(pid)
                self._tell(self._workers[pid])

    def reaped(self, pid: int) -> None:
        """Forget a worker that is gone."""
        descriptor = self._workers.pop(pid, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """End the guard. May be called twice."""
        for pid in list(self._workers):
            self.reaped(pid)
        self._end()

    def _tell(self, worker: int) -> None:
        assert self._control is not None, "it was begun"
        with contextlib.suppress(OSError):  # it is gone: the next guard gets all workers
            socket.send_fds(self._control, [b"w"], [worker])

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()  # it is not needed any more
            self._process.wait()
            self._process = None
