"""The guard of a run's workers: a small process that outlives the supervisor, and ends workers that would outlive it
too.

A worker whose supervisor is gone reads that from its socket and ends by itself. A worker that is stopped, or stuck in C
with the interpreter's lock, reads nothing, and would block its store for every later run. The guard is a script of its
own, in a session of its own, which imports nothing of ours. PR_SET_PDEATHSIG alone would not do: it leaves a worker no
time to close, and each end of a supervisor would count as a death of its workers. Must not know what a worker is for.

    the supervisor → guard     one byte per worker, with the descriptor of its process (pidfd_open); it names no other
                               process, even if its number is used again. The end of file means that the run is over.
"""

import contextlib
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Final, NoReturn

GRACE_S: Final = 2.5  # seconds for workers to end by themselves, once their supervisor is gone
LOOK_S: Final = 1.0  # seconds between two looks at the parent: a fork of the supervisor may still have the socket
END_S: Final = 2.0  # seconds that killed workers may take; one inside the kernel can take for ever
SOCKETS_MAX: Final = 1_000  # sockets that are removed
AT_ONCE: Final = 64  # workers that one message may name


def main(control: socket.socket, directory: str, clock: Callable[[], float]) -> NoReturn:
    """Wait for the end of the supervisor, then for that of its workers, and end the process. `directory` has their
    sockets: the last worker to leave removes it."""
    parent = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the guard must be there as long as a worker lives
    control.set_inheritable(False)
    workers: set[int] = set()
    while _listened(control, workers, parent):
        pass
    control.close()
    if not _ended(workers, GRACE_S, clock):
        for worker in workers:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(worker, signal.SIGKILL)  # reaches stopped processes too
        if _ended(workers, END_S, clock):
            _remove(directory)
    sys.exit(0)


def _listened(control: socket.socket, workers: set[int], parent: int) -> bool:
    """Read new workers and forget those that have ended. Return False once the supervisor is gone and all its messages
    are read."""
    ready = _readable({control.fileno(), *workers}, LOOK_S)
    for worker in workers & ready:
        workers.discard(worker)
        os.close(worker)
    if control.fileno() in ready:
        try:
            message, descriptors, _, _ = socket.recv_fds(control, AT_ONCE, AT_ONCE)
        except OSError:
            return False
        workers.update(descriptors)
        return bool(message)
    return os.getppid() == parent


def _ended(workers: set[int], within_s: float, clock: Callable[[], float]) -> bool:
    """Wait for all of them. Return True if they have ended."""
    until = clock() + within_s
    while workers:
        ready = _readable(workers, max(0.0, until - clock()))
        workers.difference_update(ready)
        if not ready:
            return False
    return True


def _remove(directory: str) -> None:
    """Remove what killed workers could not. The directory is only of this run, and for its user only."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory)[:SOCKETS_MAX]:
            if name.endswith(".sock"):
                os.unlink(os.path.join(directory, name))
        os.rmdir(directory)


def _readable(descriptors: set[int], within_s: float) -> set[int]:
    """Return those that are readable. The descriptor of a process is readable once the process has ended."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(math.ceil(within_s * 1000))}


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], time.monotonic)
