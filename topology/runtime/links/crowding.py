"""A bound on the connections of one process to an ipc socket of ours, so that none can take all descriptors (S25).

libzmq accepts every connection, and ends this process if it has no descriptor for one. So a connection over the bound
is shut as soon as it was accepted. Knows file descriptors and process ids, and nothing of ZeroMQ.
"""

import os
import socket
import struct
import sys
from collections import Counter
from typing import Final

CONNECTIONS_MAX: Final = 16  # of one process: a peer has one, and a second one while the first is being replaced
# Seconds: the longest wait for the interpreter's lock while there is a crowd, in place of 5 ms. With 5 ms, a flood of
# connections comes faster than it can be shut.
HURRY_S: Final = 0.0002
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


class Crowd:
    """The connections to one ipc socket, by their processes. Used by one thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._owners: dict[int, int] = {}  # descriptor → the process at its other end
        self._counts: Counter[int] = Counter()
        self._usual_s = 0.0  # the switch interval before there was a crowd

    def came(self, descriptor: int) -> bool:
        """Note an accepted connection. Return False if it was shut."""
        self.gone(descriptor)
        try:
            # the number may be another file's by now; a copy stays the same file
            with socket.socket(fileno=os.dup(descriptor)) as copy:
                owner = _owner(copy) if copy.family == socket.AF_UNIX and copy.getsockname() == self._path else 0
                if not owner:
                    return True
                self._owners[descriptor] = owner
                self._counts[owner] += 1
                if self._counts[owner] <= CONNECTIONS_MAX:
                    return True
                copy.shutdown(socket.SHUT_RDWR)
        except OSError:  # it is gone, or there is no descriptor for a copy
            return True
        if (usual_s := sys.getswitchinterval()) > HURRY_S * 2:
            self._usual_s = usual_s
            sys.setswitchinterval(HURRY_S)
        return False

    def gone(self, descriptor: int) -> None:
        """Forget a connection that has ended."""
        owner = self._owners.pop(descriptor, 0)
        if owner:
            self._counts[owner] -= 1
            if not self._counts[owner]:
                del self._counts[owner]

    def calm(self) -> None:
        """End the hurry, after nothing has come for a while."""
        if self._usual_s:
            sys.setswitchinterval(self._usual_s)
            self._usual_s = 0.0


def _owner(connection: socket.socket) -> int:
    """Return the process at the other end; 0 if the system does not report it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[0])
