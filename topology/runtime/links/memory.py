"""Links inside one process, with the same promises as those between processes: for several workers in one event loop.

Frames are handed over by reference at the next turn of the loop. What a network can do to them is passed in as a
function, so that tests and the simulator lose, repeat, delay and reorder frames. Must not know what a frame means.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from topology.runtime.links.protocol import Content, Dropped, Failed, Frame

Faults = Callable[[Frame], Sequence[float]]  # for each copy of the frame that arrives, how many seconds later


def faultless(frame: Frame) -> Sequence[float]:
    """Each frame arrives once, at once."""
    return (0.0,)


class ByReference:
    """`links.Codec` where nothing has to become bytes."""

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
        """Frames for this worker go to `receiver` from now on."""
        self._receivers[worker] = receiver

    def detach(self, worker: int) -> None:
        """Frames for this worker go nowhere, until another one is attached."""
        self._receivers.pop(worker, None)

    def send(self, frame: Frame) -> bool:
        """Hands the frame over later, as often as the faults say."""
        for delay in self._faults(frame):
            if delay:
                self._loop.call_later(delay, self._deliver, frame)
            else:
                self._loop.call_soon(self._deliver, frame)
        return True

    def connect(self, worker: int, address: str) -> None:
        """Everybody can be reached already."""

    def disconnect(self, worker: int) -> None:
        """What is under way still arrives, and is of a session that is over."""

    def dropped(self) -> Dropped:
        return Dropped()

    def _deliver(self, frame: Frame) -> None:
        receiver = self._receivers.get(frame.receiver >> 12)
        if receiver is not None:
            receiver(frame)
