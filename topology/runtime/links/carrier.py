"""Frames between processes: joins `codec`, which knows what the bytes mean, and `zeromq`, which moves them.

Anything that arrives and is no frame of this run is counted, logged and dropped. Must not know sessions, nor what
frames hold.
"""

from collections.abc import Callable

from acker.roots import worker_of_owner
from topology.runtime.links.codec import FRAME_BYTES_MAX, pack, unpack
from topology.runtime.links.protocol import Dropped, Frame, FrameError
from topology.runtime.links.zeromq import CurveKeys, Transport
from topology.runtime.log_counter import LogCounter


class WireCarrier:
    """`links.Carrier` over ZeroMQ. Make, use and close it on the loop of its worker.

    `received` is called with each frame of this run. `writable` is called with a worker when there is room again, and
    as soon as a new connection stands. `peers` is the number of workers to connect to. Raises StartError, as
    `Transport` does.
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
        self.malformed = 0  # frames that were malformed
        self.foreign = 0  # frames of other runs
        self._run = run
        self._received = received
        self._tally = LogCounter("a frame was dropped")
        self.transport = Transport(self._arrived, writable, bytes_max=FRAME_BYTES_MAX, peers=peers, keys=keys)

    @property
    def at_hand(self) -> bool:
        """Return True if another frame is there, and comes within this turn of the loop."""
        return self.transport.at_hand

    def bind(self, address: str) -> str:
        """Bind as `Transport.bind` does."""
        return self.transport.bind(address)

    def connect(self, worker: int, address: str) -> None:
        self.transport.connect(worker, address)

    def disconnect(self, worker: int) -> None:
        self.transport.disconnect(worker)

    def send(self, frame: Frame) -> bool:
        worker = worker_of_owner(frame.receiver)
        transport = self.transport
        return transport.has_room(worker) and transport.send(worker, pack(frame))

    def dropped(self) -> Dropped:
        return Dropped(self.transport.strangers, self.malformed, self.foreign, self.transport.rescues)

    def check(self, now: float) -> None:
        """Check as `Transport.check` does, and log what was dropped. `now` is in seconds of the loop."""
        self.transport.check(now)
        self._tally.tell(now)

    def close(self) -> None:
        """Close as `Transport.close` does."""
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
