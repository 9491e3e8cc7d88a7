"""Byte strings between workers, over ZeroMQ, inside the running loop: one PULL that is bound, one PUSH to each peer.

Only this file and `zap_authenticator` import zmq. Frames arrive whole, and in order while a connection lasts; a
connection that breaks loses what was in it, in silence, and nothing is sent again: who numbers the frames notices
(A11). Strangers are turned away by libzmq and `zap_authenticator`, before a byte of theirs is read as a frame. Must not
know what the bytes mean."""

import asyncio
import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import zmq

from topology.codes.runtime import WORKER_SOCKET_DELETED, WORKER_UNREACHABLE
from topology.codes.startup import ADDRESS_BIND_FAILED, INCOMPATIBLE_LIBZMQ, TCP_WITHOUT_KEYS
from topology.errors import StartError
from topology.runtime.links.addresses import check_path, check_room, numeric, why_not
from topology.runtime.links.zap import ZapAuthenticator
from topology.runtime.run.run_dir import is_private
from topology.text import printable

LIBZMQ_MIN: Final = (4, 3, 5)  # before, strangers could exhaust a CURVE server (GLSA 202009-12)
TURN_FRAMES: Final = 64  # that are read before the loop has its turn: 64 frames of 1 MiB are about 50 ms
FRAMES_MAX: Final = 32  # that wait at each end of a link. Frames have up to 1 MiB, so this bounds a link to 64 MiB; and
# where more than 32 wait, those that follow may as well be one: what finds no room is merged into the next frame
CLOSE_S: Final = 1.0  # how long `close` may wait for libzmq; its threads go with the process if that is not enough
CURVE_BYTES: Final = 64  # what CURVE adds to a frame, 33 in fact: MAXMSGSIZE counts that, too
HANDSHAKE_MS: Final = 5_000  # then a connection that has not said who it is is closed
HEARTBEAT_MS: Final = 1_000  # on tcp: between two pings,
SILENT_MS: Final = 4_000  # and how long the other end may be silent. A peer that is gone without a FIN looks so
RECONNECT_MS: Final = 10  # doubled up to the next: a peer's socket may be there a little later than its address
RECONNECT_MAX_MS: Final = 500
PATH_S: Final = 1.0  # between two looks at whether the ipc socket's path is there
REBINDS_MAX: Final = 64  # times that it is made again without a link being cut

# As plain numbers: an IntFlag costs half a microsecond more a call.
_NOBLOCK: Final = int(zmq.NOBLOCK)
_FD: Final = int(zmq.FD)
_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)
_POLLOUT: Final = int(zmq.POLLOUT)

logger = logging.getLogger("kedge")


@dataclass(frozen=True, repr=False)
class CurveKeys:
    """CURVE keys of one worker, as text in Z85: its own pair, and the public ones of all workers of this run."""

    public: bytes
    secret: bytes
    workers: Mapping[int, bytes]


def new_keys(workers: Iterable[int]) -> dict[int, tuple[bytes, bytes]]:
    """worker → (public, secret), new ones for each run. Raises StartError where this libzmq has no CURVE."""
    check_library(tcp=True)
    return {worker: zmq.curve_keypair() for worker in workers}


def check_library(*, tcp: bool) -> None:
    """Raises StartError where libzmq is too old, or built without what is needed."""
    if zmq.zmq_version_info() < LIBZMQ_MIN:
        wanted = ".".join(map(str, LIBZMQ_MIN))
        raise StartError(
            f"libzmq {zmq.zmq_version()} is too old for Kedge, which needs {wanted}", code=INCOMPATIBLE_LIBZMQ
        )
    missing = "curve" if tcp else "ipc"
    if not zmq.has(missing):
        raise StartError(f"this libzmq was built without {missing}", code=INCOMPATIBLE_LIBZMQ)


class _Link:
    """The PUSH to one peer. `waits`: there was no room, and `writable` was not called since."""

    def __init__(self, worker: int, socket: "zmq.Socket[bytes]") -> None:
        self.worker = worker
        self.socket = socket
        self.send: Callable[[bytes, int], Any] = socket.send
        self.get: Callable[[int], Any] = socket.get
        self.fd = int(socket.get(_FD))
        self.waits = False
        self.waitings = self.waitings_seen = 0  # how often it had to wait, now and at the last check


class _SocketPath:
    """The path of the PULL's ipc socket. Made again if it was deleted, as by a program that removes temporary files."""

    def __init__(self, pull: "zmq.Socket[bytes]", path: str) -> None:
        self._pull, self._path = pull, path
        self._file = _file_at(path)
        self._rebinds = 0  # how often it was bound again since its links were cut
        self._seen_at = 0.0  # loop time of the last look
        self._reported = False  # it was logged that it can't be made again

    def check(self, now: float) -> None:
        """Look whether the path is there, once in PATH_S; bind the socket again if it is not.

        Peers that are connected stay so, and peers that come later find it. If it can't be bound, that is logged once,
        and tried again (F70).
        """
        if now - self._seen_at >= PATH_S:
            self._seen_at = now
            if _file_at(self._path) != self._file:
                self._bind_again()

    def _bind_again(self) -> None:
        endpoint = f"ipc://{self._path}"
        if not is_private(os.path.dirname(self._path)):  # the supervisor makes it again, unless a stranger has
            return
        try:
            if self._rebinds >= REBINDS_MAX:  # each bind leaves a descriptor, until they are all given back
                self._pull.unbind(endpoint)  # cuts links, and has their senders replaced
                self._rebinds = 0
            self._pull.bind(endpoint)
        except zmq.ZMQError as error:
            if not self._reported:
                self._reported = True
                logger.warning(
                    "this worker's socket %s is gone, and can't be made again: %s; it is tried again (%s)",
                    *(printable(self._path), error, WORKER_SOCKET_DELETED),
                )
            return
        self._rebinds += 1
        self._file = _file_at(self._path)
        self._reported = False
        logger.warning(
            "this worker's socket %s was gone, and is made again (%s)", printable(self._path), WORKER_SOCKET_DELETED
        )

    def remove(self) -> None:
        """Remove the path, which libzmq leaves."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)


class Transport:
    """The links of one worker. To be made, used and closed on its loop, where the callbacks are called, too.

    `received` is called with each frame, `writable` with a worker when there is room for it: once after `connect`, as
    soon as the connection stands, and once after each `send` that was False. `bytes_max` of one frame; `peers` that
    will be connected to. Raises StartError where libzmq or the number of file descriptors won't do.
    """

    def __init__(
        self,
        received: Callable[[bytes], None],
        writable: Callable[[int], None],
        *,
        bytes_max: int,
        peers: int,
        keys: CurveKeys | None = None,
        frames_max: int = FRAMES_MAX,
    ) -> None:
        check_library(tcp=keys is not None)
        check_room(peers)
        self.rescues = 0  # times that a check found what no edge had announced; more than 0 is a mistake in here
        self.oversized = 0  # frames over the bound that were not sent; the receiver misses a number
        self._received, self._writable = received, writable
        self._bytes_max, self._frames_max = bytes_max, frames_max
        self._keys = keys
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._links: dict[int, _Link] = {}
        self._unconnected: dict[int, str] = {}  # worker → its address, of those that could not be connected to yet
        self._pull: zmq.Socket[bytes] | None = None
        self._socket_path: _SocketPath | None = None  # of the PULL, if it is an ipc socket
        self._authenticator: ZapAuthenticator | None = None
        self.at_hand = False  # whether `received` is called again within this turn
        self._more: asyncio.Handle | None = None  # the turn that continues reading
        self._turns = self._turns_seen = 0
        self._closed = False

    @property
    def strangers(self) -> int:
        """Connections that did not become a peer's: another protocol, another key, or nothing at all."""
        return self._authenticator.strangers if self._authenticator else 0

    # -- addresses

    def bind(self, address: str) -> str:
        """Binds the PULL to the path of a socket to be made, or to tcp://host[:port]; to be called once. Returns the
        address that peers connect to. Blocks while the host's name is looked up. Raises StartError, one sentence."""
        tcp = address.startswith("tcp://")
        if tcp and self._keys is None:
            raise StartError(
                f"{address!r} can't be bound without CURVE keys: anybody could connect", code=TCP_WITHOUT_KEYS
            )
        check_library(tcp=tcp)
        endpoint = numeric(address) if tcp else f"ipc://{check_path(address)}"
        pull = self._new_socket(zmq.PULL, endpoint)
        try:
            keys = self._keys.workers.values() if self._keys and tcp else None
            self._authenticator = ZapAuthenticator(self._context, pull, keys, "" if tcp else address)
            pull.set(zmq.RCVHWM, self._frames_max)
            pull.set(zmq.MAXMSGSIZE, self._bytes_max + CURVE_BYTES)
            pull.bind(endpoint)
        except zmq.ZMQError as error:
            pull.close(0)
            if self._authenticator is not None:
                self._authenticator.close()
            why, instead = why_not(address, error.errno or 0)
            raise StartError(why, code=ADDRESS_BIND_FAILED, next=instead) from error
        self._socket_path = None if tcp else _SocketPath(pull, address)
        self._authenticator.start()
        self._pull, self._recv = pull, pull.recv
        self._get: Callable[[int], Any] = pull.get
        self._fd = int(pull.get(_FD))
        self._loop.add_reader(self._fd, self._read)
        self._read()  # binding has used up edges
        return str(pull.get_string(zmq.LAST_ENDPOINT).rstrip("\0"))

    def connect(self, worker: int, address: str) -> None:
        """Send what is for this worker to that address from now on. If that fails, for example for want of descriptors,
        the reason is logged once, and `check` tries again."""
        self.disconnect(worker)
        if self._closed:
            return
        problem = self._connected(worker, address)
        if problem:
            self._unconnected[worker] = address
            logger.error(
                "worker %d can't be connected to at %s: %s; it is tried again (%s)",
                *(worker, printable(address), problem, WORKER_UNREACHABLE),
            )

    def _connected(self, worker: int, address: str) -> str:
        """Makes the PUSH. Returns why it can't, or nothing."""
        push = None
        try:
            push = self._new_socket(zmq.PUSH, address)
            push.set(zmq.SNDHWM, self._frames_max)
            push.set(zmq.IMMEDIATE, 1)  # frames go to a connection, never to where one may come to be
            push.set(zmq.RECONNECT_IVL, RECONNECT_MS)
            push.set(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
            if address.startswith("tcp://"):  # without a key that is one, this raises: nothing leaves in the clear
                push.set(zmq.CURVE_SERVERKEY, self._keys.workers.get(worker, b"") if self._keys is not None else b"")
            push.connect(address)
            link = _Link(worker, push)
        except (zmq.ZMQError, ValueError) as error:
            if push is not None:
                push.close(0)
            return str(error)
        self._links[worker] = link
        self._wait(link)
        return ""

    def disconnect(self, worker: int) -> None:
        """Drops what is under way to this worker; there is no room for it from now on."""
        self._unconnected.pop(worker, None)
        link = self._links.pop(worker, None)
        if link is not None:
            if link.waits:
                self._loop.remove_reader(link.fd)
                link.waits = False
            link.socket.close(0)

    def _new_socket(self, kind: int, address: str) -> "zmq.Socket[bytes]":
        tcp = address.startswith("tcp://")
        socket = self._context.socket(kind)
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        if tcp:
            socket.set(zmq.IPV6, int("[" in address))
            socket.set(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
            socket.set(zmq.HEARTBEAT_TIMEOUT, SILENT_MS)
            socket.set(zmq.HEARTBEAT_TTL, SILENT_MS)
            if self._keys is not None:
                socket.set(zmq.CURVE_PUBLICKEY, self._keys.public)
                socket.set(zmq.CURVE_SECRETKEY, self._keys.secret)
        return socket

    # -- sending

    def has_room(self, worker: int) -> bool:
        link = self._links.get(worker)
        return link is not None and not link.waits

    def send(self, worker: int, data: bytes) -> bool:
        """Takes the frame; False where there is no room for it now. Neither blocks nor raises."""
        link = self._links.get(worker)
        if link is None or link.waits:
            return False
        if len(data) > self._bytes_max:  # the other end would close the connection, and others be lost with it
            self.oversized += 1
            return True
        try:
            link.send(data, _NOBLOCK)
        except zmq.ZMQError as error:
            if isinstance(error, zmq.Again) and link.get(_EVENTS) & _POLLOUT:
                return self.send(worker, data)  # `send` of libzmq takes note of new room once in a millisecond only
            self._wait(link)
            return False
        return True

    def _wait(self, link: _Link) -> None:
        link.waits = True
        link.waitings += 1
        self._loop.add_reader(link.fd, self._look, link)
        self._loop.call_soon(self._look, link)  # the edge of room that came by now is used up

    def _look(self, link: _Link) -> None:
        if link.waits and link.get(_EVENTS) & _POLLOUT:
            self._loop.remove_reader(link.fd)
            link.waits = False
            self._writable(link.worker)

    # -- reading

    def _read(self) -> None:
        """Reads until there is nothing, since the edge won't come again; or for a turn, and goes on in the next."""
        self._turns += 1
        if self._more is not None:
            self._more.cancel()
            self._more = None
        get, recv, received = self._get, self._recv, self._received
        some_left = True
        try:
            for _ in range(TURN_FRAMES):
                if self._closed or not get(_EVENTS) & _POLLIN:
                    some_left = False
                    break
                frame = recv(_NOBLOCK)
                self.at_hand = bool(get(_EVENTS) & _POLLIN)
                received(frame)
        finally:  # where `received` has raised, too: what is left would have no edge any more
            if some_left and not self._closed:
                self._more = self._loop.call_soon(self._read)
            self.at_hand = False

    # -- now and then

    def check(self, now: float) -> None:
        """Reads what no edge has announced, and counts that in `rescues`; logs strangers; makes what could not be made
        yet, or was taken away. Call it some times a second.

        `now` in seconds of the loop. Looks only where nothing has moved since the last check: what comes within this
        very call would else look as if it had not been announced."""
        if self._closed:
            return
        for worker, address in [*self._unconnected.items()]:
            if not self._connected(worker, address):
                del self._unconnected[worker]
        if self._socket_path is not None:
            self._socket_path.check(now)
        if self._pull is not None:
            if (
                self._turns == self._turns_seen
                and self._more is None
                and self._overlooked(self._fd, self._get, _POLLIN)
            ):
                self._read()
            self._turns_seen = self._turns
        for link in [*self._links.values()]:
            if link.waits and link.waitings == link.waitings_seen and self._overlooked(link.fd, link.get, _POLLOUT):
                self._look(link)
            link.waitings_seen = link.waitings
        if self._authenticator is not None:
            self._authenticator.tally.tell(now)

    def _overlooked(self, fd: int, get: Callable[[int], Any], event: int) -> bool:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        found = not poller.poll(0) and bool(get(_EVENTS) & event)
        self.rescues += found
        return found

    def close(self) -> None:
        """Drops what is under way, and closes everything. Blocks for CLOSE_S at most. May be called twice."""
        if self._closed:
            return
        self._closed = True
        for worker in [*self._links]:
            self.disconnect(worker)
        if self._pull is not None:
            self._loop.remove_reader(self._fd)
            if self._more is not None:
                self._more.cancel()
            self._pull.monitor(None, 0)
            self._pull.close(0)
        ending = threading.Thread(target=self._context.term, name="kedge links ending", daemon=True)
        ending.start()  # ends the doorman, too
        ending.join(CLOSE_S)
        if self._socket_path is not None:
            self._socket_path.remove()


def _file_at(path: str) -> tuple[int, int]:
    """Return which file is there; (0, 0) for none."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return 0, 0
    return found.st_dev, found.st_ino
