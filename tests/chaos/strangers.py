"""What strangers send to a worker: other protocols, half a greeting, and frames that are none of this run's."""

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import zmq
from numbered import Sentence, Word, text_of, topology
from zmq.utils.monitor import recv_monitor_message

from acker.roots import owner
from topology import Record
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.plan import plan
from topology.runtime.hot.remote_acks import Acks
from topology.runtime.links.codec import FRAME_BYTES_MAX, WireCodec, pack
from topology.runtime.links.protocol import FRAME_VERSION, Content, Frame, Greeting, Kind

GREETING: Final = b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL"  # of ZMTP 3.0, up to the mechanism
OPENINGS: Final = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("160301020001000001fc0303") + bytes(32),
    "half a greeting": GREETING[:7],
    "a greeting without an end": GREETING,
    "ZMTP 1": b"\x01\x00\x05\x00hello",
    "a whole greeting, then no command": (GREETING + bytes(64))[:64] + b"\x00\xff" * 64,
    "nothing": b"",
}

RUBBISH: Final = (  # messages that are no frames
    b"",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xdd\xff\xff\xff\xff",  # four billion entries, in msgpack
    b"\x91" * 100_000,  # as many levels
    b"\xe5K" + b"\xff" * 200,  # a header that begins well
)


def worker_and_incarnation(path: Path) -> tuple[int, int]:
    """What the name of a worker's socket says."""
    found = re.fullmatch(r"(\d+)-(\d+)-[0-9a-f]{8}\.sock", path.name)
    assert found, path
    return int(found[1]), int(found[2])


def open_with(path: Path, data: bytes) -> socket.socket:
    """A plain connection that says this, and stays open."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5.0)
    connection.connect(str(path))
    with contextlib.suppress(OSError):  # it may be closed at the first wrong byte
        connection.sendall(data)
    return connection


def garbage(random: Random, count: int) -> Iterator[bytes]:
    """Messages of random bytes."""
    for _ in range(count):
        yield random.randbytes(random.randint(1, 2_000))


def of_another_run(to: tuple[int, int], sender: tuple[int, int], random: Random) -> list[bytes]:
    """What this worker's real peer would send in a run of the same topology, with the same names and numbers: all but
    the run's and the session's number is right."""
    planned = plan(topology(folder="."), 2)
    greeting = Greeting(FRAME_VERSION, planned.fingerprint, "kedge 0.1.0, Python 3")
    codec = WireCodec(planned)
    bodies, failed = codec.encode(content(planned, random))
    assert not failed
    run, session = random.getrandbits(63), random.getrandbits(63)
    whole: list[tuple[Kind, int, Any]] = [(Kind.HELLO, 0, greeting), (Kind.WELCOME, 0, greeting)]
    whole += [(Kind.CONTENT, number, body) for number, body in enumerate(bodies)]
    return [pack(Frame(kind, run, owner(*sender), owner(*to), session, number, body)) for kind, number, body in whole]


def content(planned: Any, random: Random) -> Content:
    """Tuples for every task that reads something, and acks, fails and depths of all sorts."""
    records: dict[str, Record] = {"Sentence": Sentence(7, text_of(7)), "Word": Word(7, 0, "zero")}
    batches = []
    for address, (component, _) in enumerate(planned.placement):
        for one in planned.subscriptions:
            if one.subscriber == component:
                source = Source(one.emitter, one.cls.__name__, one.tag)
                origin, identity, root = (random.getrandbits(64) for _ in range(3))
                tup = Tuple(records[one.cls.__name__], origin, identity, root, (), source)
                batches.append((address, [tup]))
    acks = {random.getrandbits(64): random.getrandbits(64) for _ in range(100)}
    return Content(batches, Acks(acks), [], set(acks), {0: 1_000_000}, 3)


def fuzzed(frames: list[bytes], random: Random, count: int) -> Iterator[bytes]:
    """Copies with some bytes changed, cut off, or added."""
    for _ in range(count):
        data = bytearray(random.choice(frames))
        for _ in range(random.randint(1, 8)):
            data[random.randrange(len(data))] = random.randrange(256)
        match random.randrange(3):
            case 0:
                del data[random.randrange(len(data)) :]
            case 1:
                data += random.randbytes(random.randint(1, 100))
        yield bytes(data)


class Stranger:
    """A ZeroMQ socket that nobody has asked in. `settled()` tells what became of its handshake."""

    def __init__(self, context: "zmq.Context[Any]", address: str, kind: int = zmq.PUSH, *, curve: bool = False) -> None:
        self.socket = context.socket(kind)
        self.socket.set(zmq.LINGER, 0)
        self.socket.set(zmq.IMMEDIATE, 1)
        self.socket.set(zmq.SNDTIMEO, 3_000)
        if curve:
            public, secret = zmq.curve_keypair()
            self.socket.set(zmq.CURVE_PUBLICKEY, public)
            self.socket.set(zmq.CURVE_SECRETKEY, secret)
            self.socket.set(zmq.CURVE_SERVERKEY, zmq.curve_keypair()[0])
        self._events = self.socket.get_monitor_socket()
        self.socket.connect(address)

    def settled(self, within_ms: int) -> str:
        """ "in", "refused", or "waiting" where neither has come by then."""
        while self._events.poll(within_ms):
            event = recv_monitor_message(self._events)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                return "in"
            if event in (
                zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL,
                zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
                zmq.EVENT_HANDSHAKE_FAILED_AUTH,
                zmq.EVENT_DISCONNECTED,
            ):
                return "refused"
        return "waiting"

    def close(self) -> None:
        self.socket.disable_monitor()
        self._events.close(0)
        self.socket.close(0)


def too_big() -> bytes:
    """More than a frame may have, encrypted or not: libzmq closes the connection that brings it."""
    return bytes(FRAME_BYTES_MAX + 1_024)
