"""Workers with transports in one loop, for the tests of links by real sockets."""

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path

from topology.runtime.links import zeromq
from topology.runtime.links.zeromq import CurveKeys, Transport, new_keys

BYTES_MAX = 1 << 20
WAIT_S = 20.0


class Net:
    """Workers of one run in this loop, each with what it got; closed at the end."""

    def __init__(self, kind: str, directory: Path, frames_max: int = zeromq.FRAMES_MAX) -> None:
        self.kind, self.directory, self.frames_max = kind, directory, frames_max
        pairs = new_keys(range(4))
        self.public = {worker: pair[0] for worker, pair in pairs.items()}
        self.keys = {worker: CurveKeys(*pair, self.public) for worker, pair in pairs.items()}
        self.got: dict[int, list[bytes]] = {}
        self.room: dict[int, list[int]] = {}
        self.ends: dict[int, Transport] = {}
        self.addresses: dict[int, str] = {}
        self.made = 0

    def add(self, worker: int) -> Transport:
        """A worker that is bound; one that is there already goes first."""
        if worker in self.ends:
            self.ends[worker].close()
        self.made += 1
        got = self.got[worker] = []
        room = self.room[worker] = []
        keys = self.keys[worker] if self.kind == "tcp" else None
        end = self.ends[worker] = Transport(
            got.append, room.append, bytes_max=BYTES_MAX, peers=3, keys=keys, frames_max=self.frames_max
        )
        where = "tcp://127.0.0.1" if self.kind == "tcp" else str(self.directory / f"{worker}-{self.made}")
        self.addresses[worker] = end.bind(where)
        return end

    def close(self) -> None:
        for end in self.ends.values():
            end.close()

    def raw(self, worker: int) -> socket.socket:
        """A connection of a stranger."""
        address = self.addresses[worker]
        if self.kind == "ipc":
            stranger = socket.socket(socket.AF_UNIX)
            stranger.connect(address.removeprefix("ipc://"))
        else:
            host, _, port = address.removeprefix("tcp://").rpartition(":")
            stranger = socket.create_connection((host, int(port)))
        return stranger


async def until(condition: Callable[[], bool], what: str = "it") -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {WAIT_S:.0f} s"
        await asyncio.sleep(0.001)


async def send_all(net: Net, sender: int, receiver: int, frames: list[bytes]) -> None:
    """Sends as `Peers` does: what is refused waits until `writable` says that there is room."""
    end, room = net.ends[sender], net.room[sender]
    for frame in frames:
        while not end.send(receiver, frame):
            seen = len(room)
            deadline = time.monotonic() + WAIT_S
            while len(room) == seen and not end.has_room(receiver):
                assert time.monotonic() < deadline, "there is no room again"
                await asyncio.sleep(0)


def checked(net: Net) -> None:
    for end in net.ends.values():
        end.check(time.monotonic())
    assert [end.rescues for end in net.ends.values()] == [0] * len(net.ends)
