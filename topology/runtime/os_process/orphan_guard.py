"""The guard of a run's workers: a small process that outlives the supervisor, and ends what would outlive it otherwise.

A worker whose supervisor is gone reads that and ends by itself; one that is stopped, or hangs in C with the
interpreter's lock, reads nothing, and would keep its store from every later run. A script of its own, in a session of
its own, which imports nothing of ours. PR_SET_PDEATHSIG alone would not do: it leaves a worker no time to close, and
each end of a supervisor would count as a death of its workers. Must not know what a worker is for.

    the supervisor → guard     one byte a worker, with the descriptor of its process (pidfd_open), which names no other
                               one, however often its number is used again; the end of file when the run is over
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

GRACE_S: Final = 2.5  # for workers to end by themselves, once their supervisor is gone
LOOK_S: Final = 1.0  # between two looks at who the parent is: what the supervisor has forked may have the socket still
END_S: Final = 2.0  # how long killed ones may take; one in the kernel's hands can take for ever
SOCKETS_MAX: Final = 1_000  # that are removed
AT_ONCE: Final = 64  # workers that one message may name


def main(control: socket.socket, directory: str, clock: Callable[[], float]) -> NoReturn:
    """Waits for the end of the supervisor, then for that of its workers, and ends the process. `directory` is where
    their sockets are: the last one to leave it removes it."""
    parent = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # as long as a worker lives, it has to be there
    control.set_inheritable(False)
    workers: set[int] = set()
    while _listened(control, workers, parent):
        pass
    control.close()
    if not _ended(workers, GRACE_S, clock):
        for worker in workers:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(worker, signal.SIGKILL)  # reaches those that are stopped, too
        if _ended(workers, END_S, clock):
            _remove(directory)
    sys.exit(0)


def _listened(control: socket.socket, workers: set[int], parent: int) -> bool:
    """Takes what is said and forgets who has ended; False once the supervisor is gone and all that it said is taken."""
    ready = _readable({control.fileno(), *workers}, LOOK_S)
    for worker in workers & ready:
        workers.discard(worker)
        os.close(worker)
    if control.fileno() in ready:
        try:
            said, descriptors, _, _ = socket.recv_fds(control, AT_ONCE, AT_ONCE)
        except OSError:
            return False
        workers.update(descriptors)
        return bool(said)
    return os.getppid() == parent


def _ended(workers: set[int], within_s: float, clock: Callable[[], float]) -> bool:
    """Waits for all of them; whether they have ended."""
    until = clock() + within_s
    while workers:
        ready = _readable(workers, max(0.0, until - clock()))
        workers.difference_update(ready)
        if not ready:
            return False
    return True


def _remove(directory: str) -> None:
    """What killed workers could not take away. The directory is of this run alone, and for its user only."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory)[:SOCKETS_MAX]:
            if name.endswith(".sock"):
                os.unlink(os.path.join(directory, name))
        os.rmdir(directory)


def _readable(descriptors: set[int], within_s: float) -> set[int]:
    """Of these; the descriptor of a process is readable once that has ended."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(math.ceil(within_s * 1000))}


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], time.monotonic)
