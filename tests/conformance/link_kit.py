"""Two workers joined by links, memory's or ZeroMQ's, whose ends a test drives by hand. What both promise is one suite.

The workers are the real ones, built and not started: what arrives stays in its queue, where it can be looked at.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from topology import Bolt, Config, Message, Record, Spout, Topology, Tuple
from topology.core.source import Source
from topology.plan import Plan, plan
from topology.runtime.clock import LoopClock
from topology.runtime.links.carrier import WireCarrier
from topology.runtime.links.codec import WireCodec
from topology.runtime.links.memory import ByReference, MemoryNetwork
from topology.runtime.links.peers import Peers, Wiring
from topology.runtime.links.protocol import Carrier, Codec, Frame
from topology.runtime.run.run_dir import socket_path
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.worker.context import RunContext
from topology.runtime.worker.worker import Worker
from topology.storage.directory.state_dir import MemoryNotes

RUN = 77
SINK = ("sink", 1)  # the task on worker 1
PATIENCE_S = 10.0


class Number(Record):
    n: int


class Numbers(Spout):
    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        return []


class Sink(Bolt):
    def process(self, number: Number) -> None:
        """Takes it."""


def spread(name: str = "linked") -> Topology:
    topology = Topology(name, Config())
    numbers = topology.spout("numbers", Numbers(), tasks=2)
    topology.bolt("sink", Sink(), numbers.shuffle(), tasks=2)
    return topology


def numbered(n: int) -> Tuple[Number]:
    """A tuple that belongs to no tree."""
    return Tuple(Number(n), n + 1, n + 1, 0, (), Source("numbers", "Number"))


class End:
    """One life of a worker, and its end of the links."""

    def __init__(self, net: "Net", number: int, incarnation: int, planned: Plan, generation: int) -> None:
        self.lost: list[int] = []
        self.refused: list[str] = []
        self.carrier, codec = net.carrier(number, self._received, lambda worker: self.peers.writable(worker), planned)
        self.worker = Worker(
            planned,
            worker=number,
            incarnation=incarnation,
            context=RunContext(
                topology_id=planned.topology,
                key=b"k" * 32,
                renew=lambda: incarnation + 1,
                clock=LoopClock(asyncio.get_running_loop()),
                notes=MemoryNotes(),
            ),
            random=Random(f"{number} {incarnation}"),
            reporter=Reporter(),
            wiring=Wiring(
                RUN,
                self.carrier,
                codec,
                lost=lambda owner, why: self.lost.append(owner),
                refused=lambda owner, text: self.refused.append(text),
                generation=generation,
            ),
        )
        self.address = net.bind(number, incarnation, self.carrier)

    @property
    def peers(self) -> Peers:
        return self.worker.peers

    @property
    def owner(self) -> int:
        return self.worker.owner

    def _received(self, frame: Frame) -> None:
        self.peers.received(frame)

    def join(self, other: "End") -> None:
        self.peers.join(other.worker.worker, other.owner, other.address)

    def emit(self, *numbers: int) -> None:
        """Sends tuples to the sink's task on worker 1."""
        queue = self.peers.queue(1, SINK)
        queue.queue.extend(map(numbered, numbers))
        queue.handed()

    @property
    def arrived(self) -> list[int]:
        return [tup.record.n for tup in self.worker.executors[SINK].queue]


class Net:
    """Makes ends. `frames` has each frame that was sent; `faults` says how often one arrives, memory only."""

    def carrier(
        self, number: int, received: Callable[[Frame], None], writable: Callable[[int], None], planned: Plan
    ) -> tuple[Any, Codec]:
        raise NotImplementedError

    def bind(self, number: int, incarnation: int, carrier: Carrier) -> str:
        return ""

    def end(self, number: int, incarnation: int = 1, topology: Topology | None = None, generation: int = 1) -> End:
        return End(self, number, incarnation, plan(topology or spread(), 2), generation)

    async def close(self) -> None:
        """Closes every end."""


class MemoryNet(Net):
    def __init__(self) -> None:
        self._network = MemoryNetwork()

    def carrier(
        self, number: int, received: Callable[[Frame], None], writable: Callable[[int], None], planned: Plan
    ) -> tuple[Any, Codec]:
        self._network.attach(number, received)
        return self._network, ByReference()


class ZmqNet(Net):
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._carriers: list[WireCarrier] = []

    def carrier(
        self, number: int, received: Callable[[Frame], None], writable: Callable[[int], None], planned: Plan
    ) -> tuple[Any, Codec]:
        carrier = WireCarrier(RUN, received, writable, peers=1)
        self._carriers.append(carrier)
        return carrier, WireCodec(planned)

    def bind(self, number: int, incarnation: int, carrier: Any) -> str:
        address: str = carrier.bind(socket_path(str(self._directory), number, incarnation, Random(incarnation)))
        return address

    async def close(self) -> None:
        for carrier in self._carriers:
            assert carrier.transport.rescues == 0, "every frame was announced by an edge"
            carrier.close()


@contextlib.asynccontextmanager
async def net_of(kind: str, directory: Path) -> AsyncIterator[Net]:
    net = MemoryNet() if kind == "memory" else ZmqNet(directory)
    try:
        yield net
    finally:
        await net.close()


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition; fails where it does not come true."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 – nothing tells
            await asyncio.sleep(0.001)


async def a_while(seconds: float = 0.1) -> None:
    """Gives something that must not happen the time to happen."""
    await asyncio.sleep(seconds)
