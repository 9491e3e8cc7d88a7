"""Links between workers: what they promise, whatever carries them. Frames, and the receiving end of a session.

Promises: frames of one session arrive once and in order, or the session is lost and both ends are told; nothing is sent
again (A11). A lost session fails every tree, and replays do the rest. Pure: carriers (`memory` so far) bring time in.
"""

from typing import Any, Final, Protocol

import msgspec

from acker.progress import Progress
from topology.components import Tuple
from topology.runtime.failures import Failure

EARLY_MAX: Final = 256  # frames that may wait for one that is missing
EARLY_S: Final = 1.0  # how long they may; then what is missing is lost


class Frame(msgspec.Struct, frozen=True, eq=False):
    """What leaves a worker for another at the end of a turn of its loop. Tasks go by their address in the plan."""

    sender: int  # owners: (worker, incarnation), so that a superseded one is recognised (A15)
    receiver: int
    session: int  # counts the sessions of these two
    number: int  # from 0
    tuples: list[tuple[int, Tuple[Any]]]
    acks: dict[int, int]  # root → value, merged: one pair a root
    fails: list[tuple[int, Failure]]
    touches: set[int]
    progress: Progress | None  # which of the sender's messages are done; None: as before
    depths: dict[int, int]  # address → how many tuples wait there, where that has changed what a spout should do


class Carrier(Protocol):
    """What moves frames. `send` never blocks and never raises; a frame that can't arrive ends its session."""

    def send(self, frame: Frame) -> None: ...


class Session:
    """The receiving end of one session. `duplicates` and `foreign` count the frames that were dropped."""

    def __init__(self, sender: int, receiver: int, session: int) -> None:
        self.sender = sender
        self.receiver = receiver
        self.session = session
        self.lost = False
        self.duplicates = 0
        self.foreign = 0
        self._expected = 0
        self._early: dict[int, Frame] = {}
        self._since = 0.0

    def accept(self, frame: Frame, now: float) -> list[Frame]:
        """The frames that may be read now, in order; none for a repeated one, one of another session, or an early one.

        Sets `lost` where too many have come early; from then on nothing is accepted.
        """
        if self.lost or (frame.sender, frame.receiver, frame.session) != (self.sender, self.receiver, self.session):
            self.foreign += 1
            return []
        if frame.number < self._expected or frame.number in self._early:
            self.duplicates += 1
            return []
        if not self._early:
            self._since = now
        self._early[frame.number] = frame
        ready = []
        while (following := self._early.pop(self._expected, None)) is not None:
            self._expected += 1
            self._since = now
            ready.append(following)
        self.lost = len(self._early) > EARLY_MAX
        return ready

    def overdue(self, now: float) -> bool:
        """Whether a missing frame has been waited for long enough: it is lost, and with it the session."""
        self.lost = self.lost or (bool(self._early) and now - self._since >= EARLY_S)
        return self.lost
