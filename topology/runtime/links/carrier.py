"""Frames between processes: joins `wire`, which knows what the bytes mean, and `transport`, which moves them.

What arrives and is no frame of this run is counted, logged and dropped. Must not know sessions, nor what frames hold.
"""

from collections.abc import Callable

from topology.runtime.links.codec import FRAME_BYTES_MAX, pack, unpack
from topology.runtime.links.protocol import Dropped, Frame, FrameError
from topology.runtime.links.zeromq import CurveKeys, Transport
from topology.runtime.log_counter import LogCounter

WORKER_SHIFT = 12  # of an owner: what is above it is its worker


class WireCarrier:
    """`links.Carrier` over ZeroMQ. To be made, used and closed on the loop of its worker.

    `received` is called with each frame of this run, `writable` with a worker when there is room again, and as soon as
    a new connection stands. `peers`: how many will be connected to. Raises StartError, as `Transport` does.
    """

    def __init__(
        self,
        run: int,
        received: Callable[[Frame], None],
        writable: Callable[[int], None],
        *,
        peers: int,
        keys: CurveKeys | None = None,
    ) -> None:
        self.malformed = 0  # frames that were none of ours
        self.foreign = 0  # frames of other runs
        self._run = run
        self._received = received
        self._tally = LogCounter("a frame was dropped")
        self.transport = Transport(self._arrived, writable, bytes_max=FRAME_BYTES_MAX, peers=peers, keys=keys)

    @property
    def at_hand(self) -> bool:
        """Whether another frame is there, and comes within this turn of the loop."""
        return self.transport.at_hand

    def bind(self, address: str) -> str:
        """As `Transport.bind`."""
        return self.transport.bind(address)

    def connect(self, worker: int, address: str) -> None:
        self.transport.connect(worker, address)

    def disconnect(self, worker: int) -> None:
        self.transport.disconnect(worker)

    def send(self, frame: Frame) -> bool:
        worker = frame.receiver >> WORKER_SHIFT
        transport = self.transport
        return transport.has_room(worker) and transport.send(worker, pack(frame))

    def dropped(self) -> Dropped:
        return Dropped(self.transport.strangers, self.malformed, self.foreign, self.transport.rescues)

    def check(self, now: float) -> None:
        """As `Transport.check`; logs what was dropped, too. `now` in seconds of the loop."""
        self.transport.check(now)
        self._tally.tell(now)

    def close(self) -> None:
        """As `Transport.close`."""
        self.transport.close()

    def _arrived(self, data: bytes) -> None:
        try:
            frame = unpack(data)
        except FrameError as error:
            self.malformed += 1
            self._tally.count(str(error))
            return
        if frame.run != self._run:
            self.foreign += 1
            self._tally.count("it is of another run")
            return
        self._received(frame)
