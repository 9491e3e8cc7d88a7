"""Links inside one process, with the same promises as between processes: for several workers in one event loop.

Frames are passed by reference at the next turn of the loop. A function determines the network's faults, so that tests
and the simulator lose, repeat, delay and reorder frames. Must not know what a frame means.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from acker.roots import worker_of_owner
from topology.runtime.links.protocol import Content, Dropped, Failed, Frame

Faults = Callable[[Frame], Sequence[float]]  # the delay in seconds of each copy of the frame that arrives


def faultless(frame: Frame) -> Sequence[float]:
    """Deliver each frame once, at once."""
    return (0.0,)


class ByReference:
    """`links.Codec` for workers in one process, which need no bytes."""

    def encode(self, content: Content) -> tuple[list[Any], Failed]:
        return [content], []

    def decode(self, body: Any) -> tuple[Content, Failed]:
        content: Content = body
        return content, []


class MemoryNetwork:
    """`links.Carrier` of all the workers of one event loop."""

    def __init__(self, faults: Faults = faultless) -> None:
        self._faults = faults
        self._receivers: dict[int, Callable[[Frame], None]] = {}
        self._loop = asyncio.get_running_loop()

    def attach(self, worker: int, receiver: Callable[[Frame], None]) -> None:
        """Deliver frames for this worker to `receiver` from now on."""
        self._receivers[worker] = receiver

    def detach(self, worker: int) -> None:
        """Drop frames for this worker until a receiver is attached again."""
        self._receivers.pop(worker, None)

    def send(self, frame: Frame) -> bool:
        """Deliver the frame later, as often as the faults say."""
        for delay in self._faults(frame):
            if delay:
                self._loop.call_later(delay, self._deliver, frame)
            else:
                self._loop.call_soon(self._deliver, frame)
        return True

    def connect(self, worker: int, address: str) -> None:
        """Do nothing: all workers can be reached already."""

    def disconnect(self, worker: int) -> None:
        """Do nothing: frames in flight still arrive, and belong to a session that is over."""

    def dropped(self) -> Dropped:
        return Dropped()

    def _deliver(self, frame: Frame) -> None:
        receiver = self._receivers.get(worker_of_owner(frame.receiver))
        if receiver is not None:
            receiver(frame)
