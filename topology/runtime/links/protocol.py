"""The promises of links between workers, for every carrier. Frames, and the receiving end of a session.

Frames of one session arrive once and in order, or the session is lost and both ends learn of it. Nothing is sent again
(A11). A lost session fails every tree, and replays do the rest. A session begins with a hello, which names versions,
owners and the plan, and a welcome; only then does content leave. All sessions of a generation of the run have its
number, and a worker takes frames of its own generation only. Pure: carriers (`memory`, `carrier`) bring bytes and time
in. Must not know what a frame's content does to a worker.
"""

import enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from topology.core.tuples import Tuple
from topology.runtime.failures import Failure
from topology.runtime.hot.remote_acks import Acks

FRAME_VERSION: Final = 2  # version of frames, their bytes and meaning; both ends must have the same
EARLY_MAX: Final = 256  # frames that may wait for a missing one
EARLY_BYTES_MAX: Final = 64 * 1024 * 1024  # bytes of the frames that wait
EARLY_S: Final = 1.0  # seconds that they may wait; then the missing frame is lost


class FrameError(Exception):
    """Bytes that are no frame of ours: malformed, of another version, or of another run. One sentence, for the log."""


class Kind(enum.IntEnum):
    """The purpose of a frame."""

    HELLO = 1  # the sender begins a session; body: a Greeting
    WELCOME = 2  # the receiver accepts a hello; body: a Greeting
    CONTENT = 3  # numbered from 0 within its session; body: a Content, encoded by a Codec


class Greeting(msgspec.Struct, frozen=True):
    """The facts that both ends must agree on before anything else is read."""

    version: int  # of frames
    plan: str  # `Plan.fingerprint`
    program: str  # versions of Kedge and Python, for people


class Frame(msgspec.Struct, frozen=True, eq=False):
    """One unit that leaves a worker for another. Owners are (worker, incarnation) packed, so that a superseded one is
    recognised (A15). `session` is the sender's generation: between two owners there is one session per generation."""

    kind: int
    run: int  # number of this run, known to all of its workers
    sender: int
    receiver: int
    session: int
    number: int
    body: Any


class Content(msgspec.Struct, eq=False):
    """Everything that leaves for one peer at the end of a turn of the loop.

    Tasks are named by their address: their index in the plan's placement.
    """

    batches: list[tuple[int, list[Tuple[Any]]]]  # address → tuples, in order
    acks: Acks  # merged: one for each root
    fails: list[tuple[int, Failure]]
    touches: set[int]
    depths: dict[int, int]  # address → how many tuples wait there, if a spout should react to the change
    checkpoint: int  # the newest one that the sender has gathered: what is in here may have its cause behind that cut
    queued: set[int] = msgspec.field(default_factory=set)  # touches of trees that wait in a queue which moves (A9)


Failed = list[tuple[int, Failure]]  # roots of trees that must fail, and why


class Codec(Protocol):
    """Convert content to the bodies of frames, and back. Pure."""

    def encode(self, content: Content) -> tuple[list[Any], Failed]:
        """Return the bodies of one or more frames, each within the bounds, and the trees of tuples that no frame can
        carry."""
        ...

    def decode(self, body: Any) -> tuple[Content, Failed]:
        """Return the content of one body, and the trees of its unreadable records (A12). Raises FrameError."""
        ...


class Dropped(NamedTuple):
    """Numbers of frames and connections that a carrier has rejected or overlooked so far."""

    strangers: int = 0  # connections that did not become a peer's
    malformed: int = 0  # malformed frames
    foreign: int = 0  # frames of other runs
    overlooked: int = 0  # frames that were found late: more than 0 is an error in Kedge


class Carrier(Protocol):
    """Moves frames to other workers. No method blocks or raises; a frame that can't arrive ends its session."""

    def send(self, frame: Frame) -> bool:
        """Take the frame. Return False if there is no room for it now; then `Peers.writable(worker)` is called
        later."""
        ...

    def connect(self, worker: int, address: str) -> None:
        """Send frames for this worker to that address from now on."""

    def disconnect(self, worker: int) -> None:
        """Drop what is in flight to this worker, and take no more for it."""

    def dropped(self) -> Dropped:
        """Return what was rejected so far. It only grows."""
        ...


T = TypeVar("T")


class Session(Generic[T]):
    """The receiving end of one session. `duplicates` and `foreign` count the frames that were dropped."""

    def __init__(self, sender: int, receiver: int, session: int) -> None:
        self.sender = sender
        self.receiver = receiver
        self.session = session
        self.lost = False
        self.duplicates = 0
        self.foreign = 0
        self._expected = 0
        self._early: dict[int, T] = {}
        self._early_bytes = 0
        self._since = 0.0

    @property
    def read(self) -> int:
        """Return how many frames of the session were read: all below this number."""
        return self._expected

    def takes(self, frame: Frame) -> bool:
        """Return True if this frame belongs to the session and was not read yet. Call it before the body is parsed."""
        if self.lost or (frame.sender, frame.receiver, frame.session) != (self.sender, self.receiver, self.session):
            self.foreign += 1
            return False
        if frame.number < self._expected or frame.number in self._early:
            self.duplicates += 1
            return False
        return True

    def accept(self, number: int, content: T, now: float, size: int = 0) -> list[T]:
        """Return what may be read now, in order; nothing for a frame that came early. Call `takes` first. `size` is in
        bytes.

        Sets `lost` if too much has come early; from then on nothing is accepted.
        """
        if not self._early:
            self._since = now
        self._early[number] = content
        self._early_bytes += size
        ready = []
        while (following := self._early.pop(self._expected, None)) is not None:
            self._expected += 1
            self._since = now
            ready.append(following)
        if not self._early:
            self._early_bytes = 0
        self.lost = len(self._early) > EARLY_MAX or self._early_bytes > EARLY_BYTES_MAX
        return ready

    def shift(self, seconds: float, now: float) -> None:
        """Exclude the time for which this receiver was stalled from the wait for a missing frame (A10). A wait that has
        begun since then has none of it."""
        self._since = min(self._since + seconds, now)

    def overdue(self, now: float) -> bool:
        """Return True if a missing frame has been waited for long enough. Then it is lost, and the session with it."""
        self.lost = self.lost or (bool(self._early) and now - self._since >= EARLY_S)
        return self.lost
