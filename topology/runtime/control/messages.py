"""What a supervisor and its workers say to each other, over one socket pair a worker: small messages, never tuples.

Values and their byte form; who says what when is written in `supervisor` and `process`. Each message is one msgpack
object behind its length. The socket's end of file says that the other process is gone.
"""

from typing import Final, TypeAlias

import msgspec

from topology.runtime.telemetry.log_entries import LogEntry
from topology.runtime.telemetry.stall import RunFacts
from topology.storage.dead_questions import DeadAnswer, DeadAsk

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024  # of one message; a longer one is a mistake of ours
BEAT_S: Final = 0.25  # between two beats of a worker's heartbeat thread
METRICS_S: Final = 1.0  # between two snapshots of a worker
OUTSIDE: Final = 74  # exit status of a worker whose disk, or a sink's, is broken: no message of its is to blame (E6)


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


# -- the supervisor says


class Begin(_Message, frozen=True):
    """The first message: everything that a worker needs. Never in argv or the environment: it has keys (S15)."""

    worker: int
    incarnations: tuple[int, ...]  # the worker's own, then spare ones for when its message numbers are spent
    run: int
    workers: int  # of the plan
    loader: str  # "module:function" that makes the topology anew
    arguments: dict[str, object]  # its keyword arguments
    sys_path: list[str]
    directory: str  # the run's
    links: str  # "ipc", or "tcp://host" or "tcp://host:port": where to bind
    key: bytes  # of the state directory
    notes: dict[str, str]
    seed: int
    public: bytes = b""  # CURVE keys, of tcp links only: this worker's pair,
    secret: bytes = b""
    keys: dict[int, bytes] = {}  # and the public ones of all workers
    log_level: int = 20  # as in logging: entries from this level on are sent
    topology_id: str = ""  # what messages' identities begin with (C3); empty: the topology's name
    store: str = ""  # the path of this worker's store; empty: nothing is kept
    folder: str = ""  # for files of components, made by who asks for it first


class PeerAt(_Message, frozen=True):
    """Where another worker can be reached now."""

    worker: int
    owner: int
    address: str


class Join(_Message, frozen=True):
    """Begin sessions with these."""

    peers: tuple[PeerAt, ...]


class Gone(_Message, frozen=True):
    """This owner is dead, and reaped: close its link, so that what is for it waits for its successor. Answered by
    Parted. No tree fails by this: its replay could be lost by one who has not read this yet (A14)."""

    owner: int


class Fail(_Message, frozen=True):
    """This owner is dead, and nobody sends to it any more: fail every open tree (A14). `why` is for people. Comes again
    where somebody has parted late. Answered by Failing."""

    owner: int
    why: str
    killed: bool = True  # by SIGKILL, whoever sent it; False: it has ended by itself, a segmentation fault included
    ran: bool = True  # False: its tasks were not started, so nothing that was under way has anything to do with it


class Start(_Message, frozen=True):
    """Start the tasks. `killed`: as of Fail, how the process before this one ended, where there was one."""

    killed: bool = True


class TrialTurn(_Message, frozen=True):
    """Answer to TrialWanted: no other worker tries a message until TrialOver is said, and all run."""


class Probe(_Message, frozen=True):
    """Say how things are; answered by Status with the same number."""

    number: int


class Look(_Message, frozen=True):
    """Say what holds things up; answered by Looked with the same number. `root`: whose holders are looked for, as in
    `facts.facts_of`: 0 at first, then the oldest of all workers'."""

    number: int
    root: int = 0


class Flush(_Message, frozen=True):
    """Tell this component's tasks that all inputs have ended; '' for all that have had inputs since their flush.
    Answered by Done with the same number."""

    number: int
    component: str


class Drain(_Message, frozen=True):
    """Stop the sources; replay at once what waits for it."""


class Close(_Message, frozen=True):
    """Close everything and end; what is under way is left. Answered by Closed, then the process ends with status 0."""


class Incarnations(_Message, frozen=True):
    """Further spare ones."""

    spare: tuple[int, ...]


class Noted(_Message, frozen=True):
    """The note with this number is durable, or why it is not; `away`: it may be one day."""

    number: int
    problem: str = ""
    away: bool = False


# -- a worker says


class Ready(_Message, frozen=True):
    """All components are built and open, and the link's socket is bound."""

    address: str
    plan: str  # the fingerprint of the plan that this worker has made


class CannotStart(_Message, frozen=True):
    """Something that `Begin` or `open` asks for can't be had. The process ends."""

    kind: str  # the name of a class in topology.errors
    text: str
    code: str = ""  # of the catalogue; '' for a user's own error
    next: str = ""
    trace: str = ""  # the user's traceback


class Linked(_Message, frozen=True):
    """All peers that were named so far have welcomed this worker. Said again after each Join."""

    peers: int


class SourcesEnded(_Message, frozen=True):
    """All spout tasks of this worker have ended; said once it is started, at once where it has none."""


class Beat(_Message, frozen=True):
    """The process lives. `blocked_s`: for how long its loop has not turned, 0.0 while it does; `where`: in what."""

    blocked_s: float = 0.0
    where: str = ""


class Metrics(_Message, frozen=True):
    """A snapshot, as `metrics.packed` makes it; and how many commits the worker's store has seen, 0 without one."""

    snapshot: bytes
    commits: int = 0


class Log(_Message, frozen=True):
    """One entry for the log; see `topology.runtime.telemetry.log_entries.LogEntry`. `at` is 0.0 if the supervisor's
    time will do."""

    level: int
    text: str
    trace: str = ""
    logger: str = "kedge"
    component: str = ""
    task: int | None = None
    fields: dict[str, str | int | float | bool | None] = {}
    at: float = 0.0


class Broke(_Message, frozen=True):
    """A source raised, or on_dead='stop' met a dead message (`text` is empty then): the run should drain and end."""

    text: str
    code: str = ""  # of an error of ours


class Lost(_Message, frozen=True):
    """A session from this owner is lost: a frame never came."""

    owner: int
    why: str


class Refused(_Message, frozen=True):
    """A hello that can't be welcomed: another version or plan. Both are in the text."""

    owner: int
    text: str


class Parted(_Message, frozen=True):
    """Answer to Gone: this worker sends nothing to that owner any more."""

    owner: int


class Failing(_Message, frozen=True):
    """Answer to Fail: so many open trees have failed, and are replayed."""

    owner: int
    trees: int


class TrialWanted(_Message, frozen=True):
    """This worker has messages to try, one at a time (E7); answered by TrialTurn, each time anew."""


class TrialOver(_Message, frozen=True):
    """Its turn is over."""


class Recovered(_Message, frozen=True):
    """Of the messages that Fail has failed the first is done, and then the last: so many are left."""

    owner: int
    left: int


class Status(_Message, frozen=True):
    """Answer to Probe; see `topology.runtime.control.completion.Status`, which it is read into."""

    number: int
    status: bytes


class Looked(_Message, frozen=True):
    """Answer to Look."""

    number: int
    facts: RunFacts


class Done(_Message, frozen=True):
    """Answer to Flush."""

    number: int


class Note(_Message, frozen=True):
    """Keep this note, durably; the worker waits for Noted."""

    number: int
    name: str
    text: str


class NeedIncarnation(_Message, frozen=True):
    """One of the spare ones is used; more are wanted."""


class Closed(_Message, frozen=True):
    """The last message: the final snapshot, what was not done, what the components say, whether all that was done is
    kept, and nothing known to be missing of what a life that has died had read; and whether the sources have caught up
    with what an earlier run may have read."""

    snapshot: bytes
    aborted: int
    summaries: dict[str, list[str]]
    kept: bool = True
    caught_up: bool = True


Order: TypeAlias = (
    Begin
    | Join
    | Gone
    | Fail
    | Start
    | TrialTurn
    | Probe
    | Look
    | Flush
    | DeadAsk
    | Drain
    | Close
    | Incarnations
    | Noted
)
Word: TypeAlias = (
    Ready
    | CannotStart
    | Linked
    | SourcesEnded
    | Beat
    | Metrics
    | Log
    | Broke
    | Lost
    | Refused
    | Parted
    | Failing
    | TrialWanted
    | TrialOver
    | Recovered
    | Status
    | Looked
    | Done
    | DeadAnswer
    | Note
    | NeedIncarnation
    | Closed
)


def packed_entry(entry: LogEntry) -> Log:
    """As a worker tells it. The worker's number is left out: its supervisor knows."""
    return Log(
        entry.level,
        entry.text,
        entry.trace,
        entry.logger,
        entry.component,
        entry.task,
        dict(entry.fields),
        entry.at,
    )


def unpacked_entry(log: Log, worker: int) -> LogEntry:
    """As its supervisor hears it."""
    return LogEntry(log.text, log.trace, log.component, log.task, worker, log.fields, log.level, log.logger, log.at)


_encoder: Final = msgspec.msgpack.Encoder()
_orders: Final = msgspec.msgpack.Decoder(Order)
_words: Final = msgspec.msgpack.Decoder(Word)


def packed(message: Order | Word) -> bytes:
    """The byte form, its length in front. Raises ValueError where it would be too long."""
    data = _encoder.encode(message)
    if len(data) > MESSAGE_BYTES_MAX:
        raise ValueError(f"a {type(message).__name__} of {len(data):,} bytes is too long for the control socket")
    return len(data).to_bytes(4, "little") + data


class Unpacker:
    """Bytes as they come → whole messages. `kind` is `orders` (what a worker reads) or `words` (the supervisor)."""

    def __init__(self, *, orders: bool) -> None:
        self._decoder = _orders if orders else _words
        self._bytes = bytearray()

    def fed(self, data: bytes) -> list[Order | Word]:
        """The messages that are whole now. Raises msgspec.DecodeError or ValueError for what is none of ours."""
        self._bytes += data
        messages: list[Order | Word] = []
        while len(self._bytes) >= 4:
            length = int.from_bytes(self._bytes[:4], "little")
            if length > MESSAGE_BYTES_MAX:
                raise ValueError(f"a control message of {length:,} bytes")
            if len(self._bytes) < 4 + length:
                break
            messages.append(self._decoder.decode(bytes(self._bytes[4 : 4 + length])))
            del self._bytes[: 4 + length]
        return messages
