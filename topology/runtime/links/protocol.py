"""Links between workers: what they promise, whatever carries them. Frames, and the receiving end of a session.

Promises: frames of one session arrive once and in order, or the session is lost and both ends are told; nothing is sent
again (A11). A lost session fails every tree, and replays do the rest. A session begins with a hello, which names
versions, owners and the plan, and a welcome; only then does content leave.

Pure: carriers (`memory`, `carrying`) bring bytes and time in. Must not know what a frame's content does to a worker.
"""

import enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from acker.progress import Progress
from topology.components import Tuple
from topology.runtime.failures import Failure

FRAME_VERSION: Final = 1  # of what frames look like, bytes and meaning; both ends have to speak the same
EARLY_MAX: Final = 256  # frames that may wait for one that is missing
EARLY_BYTES_MAX: Final = 64 * 1024 * 1024  # that they may have
EARLY_S: Final = 1.0  # how long they may; then what is missing is lost


class FrameError(Exception):
    """Bytes that are no frame of ours: malformed, of another version, or of another run. One sentence, for the log."""


class Kind(enum.IntEnum):
    """What a frame is for."""

    HELLO = 1  # the sender begins a session; body: a Greeting
    WELCOME = 2  # the receiver of a hello has taken it; body: a Greeting
    CONTENT = 3  # numbered from 0 within its session; body: what a Codec has made of a Content


class Greeting(msgspec.Struct, frozen=True):
    """What both ends have to agree on before anything else is read."""

    version: int  # of frames
    plan: str  # `Plan.fingerprint`
    program: str  # versions of Kedge and Python, for people


class Frame(msgspec.Struct, frozen=True, eq=False):
    """What leaves a worker for another. Owners are (worker, incarnation) packed, so that a superseded one is recognised
    (A15); `session` is drawn by the sender, and names the session that the frame belongs to."""

    kind: int
    run: int  # this run, as all of its workers know it
    sender: int
    receiver: int
    session: int
    number: int
    body: Any


class Content(msgspec.Struct, eq=False):
    """What leaves for one peer at the end of a turn of the loop. Tasks go by their address: their index in the plan's
    placement."""

    batches: list[tuple[int, list[Tuple[Any]]]]  # address → tuples, in order
    acks: dict[int, int]  # root → value, merged: one pair a root
    fails: list[tuple[int, Failure]]
    touches: set[int]
    progress: Progress | None  # which of the sender's messages are done; None: as before
    depths: dict[int, int]  # address → how many tuples wait there, where that has changed what a spout should do
    queued: set[int] = msgspec.field(default_factory=set)  # touches of trees that wait in a queue which moves (A9)


Failed = list[tuple[int, Failure]]  # roots of trees that have to fail, and why


class Codec(Protocol):
    """Content ↔ the bodies of frames. Pure."""

    def encode(self, content: Content) -> tuple[list[Any], Failed]:
        """The bodies of one or more frames, each within the bounds; and the trees of tuples that no frame can carry."""
        ...

    def decode(self, body: Any) -> tuple[Content, Failed]:
        """The content of one body; and the trees of records in it that can't be read (A12). Raises FrameError."""
        ...


class Dropped(NamedTuple):
    """What a carrier has turned away so far, and what it has overlooked."""

    strangers: int = 0  # connections that did not become a peer's
    malformed: int = 0  # frames that were none of ours
    foreign: int = 0  # frames of other runs
    overlooked: int = 0  # frames that were found late: more than 0 is a mistake of ours


class Carrier(Protocol):
    """Moves frames to other workers. Nothing of it blocks or raises; a frame that can't arrive ends its session."""

    def send(self, frame: Frame) -> bool:
        """Takes the frame; False where there is no room for it now: then `Peers.writable(worker)` is called later."""
        ...

    def connect(self, worker: int, address: str) -> None:
        """Frames for this worker go to that address from now on."""

    def disconnect(self, worker: int) -> None:
        """Drops what is under way to this worker, and takes no more for it."""

    def dropped(self) -> Dropped:
        """What was turned away so far. It only grows."""
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
        """How many frames of the session were read: all below this number."""
        return self._expected

    def takes(self, frame: Frame) -> bool:
        """Whether this frame belongs to the session and was not read yet. Called before its body is parsed."""
        if self.lost or (frame.sender, frame.receiver, frame.session) != (self.sender, self.receiver, self.session):
            self.foreign += 1
            return False
        if frame.number < self._expected or frame.number in self._early:
            self.duplicates += 1
            return False
        return True

    def accept(self, number: int, content: T, now: float, size: int = 0) -> list[T]:
        """What may be read now, in order; nothing for a frame that came early. `takes` was asked before; `size` in
        bytes.

        Sets `lost` where too much has come early; from then on nothing is taken.
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

    def shift(self, seconds: float) -> None:
        """Time in which the receiver itself stood still is none in which a frame was waited for (A10)."""
        self._since += seconds

    def overdue(self, now: float) -> bool:
        """Whether a missing frame has been waited for long enough: it is lost, and with it the session."""
        self.lost = self.lost or (bool(self._early) and now - self._since >= EARLY_S)
        return self.lost
