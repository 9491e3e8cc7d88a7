"""Admission of connections: answer libzmq's questions (ZAP, RFC 27) for the transport's PULL, and count who is refused.

On ipc the directory's mode is the lock, and one process has a bounded number of connections. On tcp each worker of the
run is known by its CURVE key. Must not know frames.
"""

import contextlib
import struct
import threading
from collections.abc import Iterable
from typing import Final

import zmq
from zmq.utils import z85

from topology.runtime.links.crowding import CONNECTIONS_MAX, Crowd
from topology.runtime.log_counter import LogCounter

_ZAP: Final = "inproc://zeromq.zap.01"
_MONITOR: Final = "inproc://kedge.monitor"
_EVENT: Final = struct.Struct("=HI")  # what has happened, and to which descriptor, or why
_CALM_MS: Final = 1_000  # milliseconds without any event after which a crowd is over
# the domain of ZAP; with a domain, libzmq also refuses ZMTP 1 and 2, which take random bytes for frames
_DOMAIN: Final = b"kedge"


class ZapAuthenticator(threading.Thread):
    """The authenticator of one PULL. `keys` are the admitted public keys, in Z85; None on ipc, where `path` is the
    socket's.

    It is a thread because loops may be busy. Make it before the PULL is bound, and then call `start`. It ends with its
    context, or by `close` if it never started.
    """

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        pull: "zmq.Socket[bytes]",
        keys: Iterable[bytes] | None,
        path: str = "",
    ) -> None:
        super().__init__(name="kedge links doorman", daemon=True)
        self.strangers = 0
        self.tally = LogCounter("a connection to this worker was refused")
        self._allowed = None if keys is None else {z85.decode(key) for key in keys}
        self._unsettled = 0  # connections whose handshake has neither succeeded nor failed
        self._failed = False  # True if the last event was a failed handshake; its disconnection follows
        self._crowd = Crowd(path) if path else None
        self._zap = context.socket(zmq.REP)
        self._events = context.socket(zmq.PAIR)
        try:
            self._zap.set(zmq.LINGER, 0)
            self._zap.bind(_ZAP)
            if keys is not None:
                pull.set(zmq.CURVE_SERVER, 1)
            pull.set(zmq.ZAP_DOMAIN, _DOMAIN)
            pull.set(zmq.ZAP_ENFORCE_DOMAIN, 1)
            pull.monitor(_MONITOR, _WATCHED)
            self._events.set(zmq.LINGER, 0)
            self._events.set(zmq.RCVHWM, 0)  # otherwise libzmq would stand still while there is no room for an event
            self._events.connect(_MONITOR)
        except zmq.ZMQError:
            self.close()
            raise

    def run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._zap, zmq.POLLIN)
        poller.register(self._events, zmq.POLLIN)
        try:
            while True:
                ready = poller.poll(_CALM_MS if self._crowd is not None else None)
                if not ready and self._crowd is not None:
                    self._crowd.calm()
                for socket, _ in ready:
                    if socket is self._zap:
                        self._zap.send_multipart(self._answer(self._zap.recv_multipart()))
                    else:
                        self._take_notes()
        except zmq.ContextTerminated:
            self.close()

    def _answer(self, request: list[bytes]) -> list[bytes]:
        version, number, _, _, _, mechanism, *credentials = request
        if self._allowed is None:
            welcome = mechanism == b"NULL"  # ipc: the directory's mode is the lock
        else:
            welcome = mechanism == b"CURVE" and credentials[:1] != [] and credentials[0] in self._allowed
        return [version, number, b"200" if welcome else b"400", b"", b"", b""]

    def _take_notes(self) -> None:
        """Read all events: while many come at once, there is no time to look at each alone."""
        receive, take = self._events.recv_multipart, self._take_note
        with contextlib.suppress(zmq.Again):
            while True:
                take(*_EVENT.unpack(receive(zmq.NOBLOCK)[0]))

    def _take_note(self, event: int, value: int) -> None:
        """Count by libzmq's events of connections. A ZMTP that is too old raises no event: it is just disconnected."""
        failed = False
        if event == zmq.EVENT_DISCONNECTED and self._crowd is not None:
            self._crowd.gone(value)
        if event == zmq.EVENT_ACCEPTED:
            self._unsettled += 1
            if self._crowd is not None and not self._crowd.came(value):
                self.tally.count(f"a process has {CONNECTIONS_MAX} connections already")
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._unsettled -= 1
            if self._unsettled < 0:  # the end of a peer, during another handshake, was counted as a stranger's
                self._unsettled = 0
                self.strangers -= 1
        elif event in _FAILURES:
            failed = True
            self._refuse(_FAILURES[event] if value != zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH else "no CURVE key")
        elif event == zmq.EVENT_DISCONNECTED and self._unsettled and not self._failed:
            self._refuse("another protocol than ours")
        self._failed = failed

    def _refuse(self, why: str) -> None:
        self._unsettled -= 1
        self.strangers += 1
        self.tally.count(why)

    def close(self) -> None:
        self._zap.close(0)
        self._events.close(0)


_FAILURES: Final = {
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "it ended, or was silent, before it had said who it is",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "a greeting that is wrong, or made for another worker's key",
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): "its key is not one of this run's",
}
_WATCHED: Final = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | sum(_FAILURES)
