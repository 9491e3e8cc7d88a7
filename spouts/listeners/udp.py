"""A UDP socket whose datagrams are messages. Knows sockets and the loop; must not know what a datagram means."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from spouts.incoming.cutter import LineCut
from spouts.listeners.addresses import host_of

DATAGRAM_MAX: Final = 1 << 16  # bytes; no datagram has more
AT_ONCE: Final = 64  # datagrams that are received before the loop goes on
RECEIVE_BUFFER_BYTES: Final = 4 << 20  # that the system is asked for, if the user does not say

log = logging.getLogger("kedge.spouts")

Came = Callable[[Sequence[LineCut], str, int], None]  # messages, and the host and port that sent them


class UdpServer:
    """The sockets of one task. `came` is called with the datagrams of one sender. Use it on one loop.

    longest  Bytes of a message; a longer datagram has a problem.
    """

    def __init__(self, source: str, came: Came, longest: int) -> None:
        self._source, self._came, self._longest = source, came, longest
        self._sockets: list[socket.socket] = []
        self._buffer = bytearray(DATAGRAM_MAX)
        self._view = memoryview(self._buffer)
        self._reads = self._stopped = False

    def open(self, sockets: Sequence[socket.socket], buffer_bytes: int | None) -> None:
        """Receive on these sockets, which it owns from now on."""
        self._sockets = [*sockets]
        for each in sockets:
            _enlarge(self._source, each, buffer_bytes)
        self.hold(False)

    def hold(self, held: bool) -> None:
        """Receive nothing while this holds: the system drops what its buffer has no room for."""
        loop = asyncio.get_running_loop()
        reads = not held and not self._stopped
        if reads != self._reads:
            self._reads = reads
            for each in self._sockets:
                if reads:
                    loop.add_reader(each, self._readable, each)
                else:
                    loop.remove_reader(each)

    def stop(self) -> None:
        """Receive nothing more."""
        self._stopped = True
        self.hold(True)

    def close(self) -> None:
        """Close the sockets: the port is free when this returns."""
        self.stop()
        for each in self._sockets:
            each.close()
        self._sockets = []

    def dropped(self) -> int | None:
        """Return how many datagrams the system has dropped for lack of room, as Linux counts them. None: it is not
        known."""
        inodes = {os.fstat(each.fileno()).st_ino for each in self._sockets}
        counts: list[int] = []
        for table in ("udp", "udp6"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                for line in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
                    fields = line.split()
                    if int(fields[9]) in inodes:
                        counts.append(int(fields[12]))
        return sum(counts) if counts else None

    def _readable(self, each: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                size, peer = each.recvfrom_into(self._buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:  # a report on something that was sent, which is nothing here
                log.debug("%s: %s", self._source, error)
                return
            data = bytes(self._view[:size])
            problem = ""
            if size > self._longest:
                problem = f"the message has more than {self._longest:,} bytes (max_message_bytes)"
            self._came((LineCut(0, data, problem),), host_of(peer), peer[1])
            if not self._reads:
                return


def _enlarge(source: str, each: socket.socket, wanted: int | None) -> None:
    """Ask for a larger receive buffer. Warn if the user has asked for more than the system gives."""
    size = RECEIVE_BUFFER_BYTES if wanted is None else wanted
    with contextlib.suppress(OSError):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    given = each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    given //= 2 if _system_doubles() else 1
    if wanted is not None and given < wanted:
        text = (
            "%s: the system gives a receive buffer of %d bytes, not the %d of receive_buffer_bytes; on Linux, raise %s"
        )
        log.warning(text, source, given, wanted, "net.core.rmem_max")


def _system_doubles() -> bool:
    """Return True on Linux, which counts its own overhead: it tells twice the size that was set."""
    return os.uname().sysname == "Linux"
