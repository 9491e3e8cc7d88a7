"""Messages between a supervisor and its workers, over one socket pair per worker: small messages, never tuples.

This module has values and their byte form; `supervisor` and `process` say who sends what when. Each message is one
msgpack object after its length. The socket's end of file means that the other process is gone.
"""

from typing import Final, TypeAlias

import msgspec

from topology.runtime.control.frontiers import PackedNote
from topology.runtime.telemetry.log_entries import LogEntry
from topology.runtime.telemetry.stall import RunFacts
from topology.storage.dead_questions import DeadAnswer, DeadAsk

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024  # of one message; a longer message is an error in Kedge
BEAT_S: Final = 0.5  # seconds between two beats of a worker's heartbeat thread
METRICS_S: Final = 1.0  # seconds between two snapshots of a worker
OUTSIDE: Final = 74  # exit status of a worker whose disk, or a sink's, is broken: none of its messages is to blame (E6)


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


# -- from the supervisor


class Begin(_Message, frozen=True):
    """The first message: everything that a worker needs. It has keys, so it is never in argv or the environment
    (S15)."""

    worker: int
    incarnations: tuple[int, ...]  # the worker's own, then spare ones for when its message numbers are used up
    run: int
    workers: int  # of the plan
    loader: str  # "module:function" that builds the topology again
    arguments: dict[str, object]  # its keyword arguments
    sys_path: list[str]
    directory: str  # the run's
    links: str  # "ipc", or "tcp://host" or "tcp://host:port": the address to bind
    key: bytes  # of the state directory
    notes: dict[str, str]
    seed: int
    public: bytes = b""  # CURVE keys, for tcp links only: this worker's pair
    secret: bytes = b""
    keys: dict[int, bytes] = {}  # CURVE keys, for tcp links only: the public keys of all workers
    log_level: int = 20  # as in logging: entries from this level on are sent
    topology_id: str = ""  # the beginning of messages' identities (C3); empty means the topology's name
    store: str = ""  # the path of this worker's store; empty means that nothing is stored
    folder: str = ""  # for files of components, made on the first request
    generation: int = 1  # of the run, at present
    decided: int = 0  # the last decided checkpoint: what the worker's store has to be as of
    logged: bool = True  # True if outputs wait for a log of what was done since


class PeerAt(_Message, frozen=True):
    """The present address of another worker."""

    worker: int
    owner: int
    address: str


class Resume(_Message, frozen=True):
    """For a worker that begins while the run goes on, before Join: the last decided checkpoint with the notes of all
    workers, and the owners whose lives are over."""

    checkpoint: int
    notes: dict[int, PackedNote]
    over: tuple[int, ...]


class Join(_Message, frozen=True):
    """Begin sessions with these workers. The generation may have become newer since Begin."""

    peers: tuple[PeerAt, ...]
    generation: int = 1


class Generation(_Message, frozen=True):
    """This owner is dead and reaped. Close its link, fail every open tree, and begin this generation: nothing that was
    sent before has an effect from now on (A14). `why` is for people. Answered by Failing."""

    number: int
    owner: int
    why: str
    # True for SIGKILL from any sender; False if it ended by itself, including by a segmentation fault
    killed: bool = True
    ran: bool = True  # False if its tasks were not started, so that nothing in flight can be the cause


class TakeNote(_Message, frozen=True):
    """Note which messages are done, for this checkpoint. Answered by HomeNote."""

    checkpoint: int


class Barrier(_Message, frozen=True):
    """All workers have noted: gather what this checkpoint has, and keep it durably. `notes` are those of all workers.
    `alone`: there is no other worker, and what this one keeps is the decision. Answered by Prepared or Unprepared."""

    checkpoint: int
    notes: dict[int, PackedNote]
    alone: bool = False


class CheckpointDecided(_Message, frozen=True):
    """The checkpoint is decided, durably. Its frontier is that of the Barrier. Answered by CheckpointSettled."""

    checkpoint: int


class CheckpointGivenUp(_Message, frozen=True):
    """The checkpoint is not decided, and never will be."""

    checkpoint: int


class CopyStore(_Message, frozen=True):
    """Copy the store to this path, as of the last decided checkpoint. Answered by StoreCopied with the same number."""

    checkpoint: int
    path: str


class Start(_Message, frozen=True):
    """Start the tasks. `killed` says, as in Generation, how the process before this one ended, if there was one."""

    killed: bool = True


class TrialTurn(_Message, frozen=True):
    """Answer to TrialWanted: until TrialOver, no other worker tries a message, and all workers run."""


class Probe(_Message, frozen=True):
    """Report the status. Answered by Status with the same number."""

    number: int


class Look(_Message, frozen=True):
    """Report what holds things up. Answered by Looked with the same number. `root` is the message whose holders are
    wanted, as in `facts.facts_of`: 0 at first, then the oldest message of all workers."""

    number: int
    root: int = 0


class Flush(_Message, frozen=True):
    """Tell this component's tasks that all inputs have ended; '' means all that have had inputs since their flush.
    Answered by Done with the same number."""

    number: int
    component: str


class Drain(_Message, frozen=True):
    """Stop the sources, and replay at once what waits for a replay."""


class StopWork(_Message, frozen=True):
    """Stop all tasks, and close all components; what is in flight is left. Checkpoints go on. Answered by
    WorkStopped."""


class Close(_Message, frozen=True):
    """Stop, close everything, and end. `kept`: a checkpoint was decided after all workers had stopped. Answered by
    Closed; then the process ends with status 0."""

    kept: bool = False


class Incarnations(_Message, frozen=True):
    """Further spare incarnations."""

    spare: tuple[int, ...]


class Noted(_Message, frozen=True):
    """The note with this number is durable, or `problem` says why not. `away` is True if it may succeed later."""

    number: int
    problem: str = ""
    away: bool = False


# -- from a worker


class Ready(_Message, frozen=True):
    """All components are built and open, and the link's socket is bound."""

    address: str
    plan: str  # the fingerprint of this worker's plan


class CannotStart(_Message, frozen=True):
    """Something that `Begin` or `open` needs is not available. The process ends."""

    kind: str  # the name of a class in topology.errors
    text: str
    code: str = ""  # of the catalogue; '' for a user's own error
    next: str = ""
    trace: str = ""  # the user's traceback


class Linked(_Message, frozen=True):
    """All peers that were named so far have welcomed this worker. Sent again after each Join."""

    peers: int


class SourcesEnded(_Message, frozen=True):
    """All spout tasks of this worker have ended. Sent after the start, and at once if it has none."""


class Beat(_Message, frozen=True):
    """The process lives. `blocked_s` is for how long its loop has not turned, 0.0 while it turns; `where` is the
    place."""

    blocked_s: float = 0.0
    where: str = ""


class Metrics(_Message, frozen=True):
    """A snapshot from `metrics.packed`, and how many commits the worker's store has seen; 0 without a store."""

    snapshot: bytes
    commits: int = 0


class Log(_Message, frozen=True):
    """One entry for the log; see `topology.runtime.telemetry.log_entries.LogEntry`. `at` is 0.0 if the supervisor's
    time is good enough."""

    level: int
    text: str
    trace: str = ""
    logger: str = "kedge"
    component: str = ""
    task: int | None = None
    fields: dict[str, str | int | float | bool | None] = {}
    at: float = 0.0


class Broke(_Message, frozen=True):
    """A source raised, or on_dead='stop' met a dead message (then `text` is empty). The run should drain and end."""

    text: str
    code: str = ""  # of an error of ours


class Lost(_Message, frozen=True):
    """A session from this owner is lost: a frame never arrived."""

    owner: int
    why: str


class Refused(_Message, frozen=True):
    """A hello is refused: another version or plan. The text has both."""

    owner: int
    text: str


class Failing(_Message, frozen=True):
    """Answer to Generation: so many open trees have failed because of this death, and are replayed."""

    owner: int
    trees: int


class HomeNote(_Message, frozen=True):
    """Answer to TakeNote: the messages of this worker that are done. `quiet`: nothing has changed here since the last
    decided checkpoint."""

    checkpoint: int
    note: PackedNote
    quiet: bool = False


class Prepared(_Message, frozen=True):
    """Answer to Barrier: this worker's part of the checkpoint is durable: so many bytes, 0 if nothing had to be kept,
    in so many seconds."""

    checkpoint: int
    size: int
    seconds: float


class Unprepared(_Message, frozen=True):
    """Answer to Barrier: this worker can't keep its part now."""

    checkpoint: int
    why: str


class CheckpointSettled(_Message, frozen=True):
    """Answer to CheckpointDecided: this worker has taken the decision in."""

    checkpoint: int


class CheckpointWanted(_Message, frozen=True):
    """Something waits for a checkpoint: take one soon."""


class StoreCopied(_Message, frozen=True):
    """Answer to CopyStore: the copy has so many commits, or `problem` says why there is none."""

    checkpoint: int
    commits: int
    problem: str = ""


class TrialWanted(_Message, frozen=True):
    """This worker has messages to try, one at a time (E7). Each request is answered by a TrialTurn."""


class TrialOver(_Message, frozen=True):
    """The turn of this worker is over."""


class Recovered(_Message, frozen=True):
    """The first, or the last, of the messages that a death has failed is done; `left` is the number of those left."""

    owner: int
    left: int


class Status(_Message, frozen=True):
    """Answer to Probe. It is decoded to `topology.runtime.control.completion.WorkerStatus`."""

    number: int
    status: bytes


class Looked(_Message, frozen=True):
    """Answer to Look."""

    number: int
    facts: RunFacts


class Done(_Message, frozen=True):
    """Answer to Flush."""

    number: int


class KeepNote(_Message, frozen=True):
    """Store this note durably. The worker waits for Noted."""

    number: int
    name: str
    text: str


class NeedIncarnation(_Message, frozen=True):
    """A spare incarnation is used; send another."""


class WorkStopped(_Message, frozen=True):
    """Answer to StopWork: nothing changes here any more."""


class Closed(_Message, frozen=True):
    """The last message: the final snapshot, the number of unfinished messages, and the components' summaries.

    `kept` is True if all that was done is stored, and nothing is known to be missing of what a dead life had read.
    `caught_up` is True if the sources have caught up with what an earlier run may have read.
    """

    snapshot: bytes
    aborted: int
    summaries: dict[str, list[str]]
    kept: bool = True
    caught_up: bool = True


Order: TypeAlias = (
    Begin
    | Resume
    | Join
    | Generation
    | TakeNote
    | Barrier
    | CheckpointDecided
    | CheckpointGivenUp
    | CopyStore
    | Start
    | TrialTurn
    | Probe
    | Look
    | Flush
    | DeadAsk
    | Drain
    | StopWork
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
    | Failing
    | HomeNote
    | Prepared
    | Unprepared
    | CheckpointSettled
    | CheckpointWanted
    | StoreCopied
    | TrialWanted
    | TrialOver
    | Recovered
    | Status
    | Looked
    | Done
    | DeadAnswer
    | KeepNote
    | NeedIncarnation
    | WorkStopped
    | Closed
)


def packed_entry(entry: LogEntry) -> Log:
    """Return an entry as a worker sends it. The worker's number is left out, because the supervisor knows it."""
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
    """Return an entry as its supervisor receives it."""
    return LogEntry(log.text, log.trace, log.component, log.task, worker, log.fields, log.level, log.logger, log.at)


_encoder: Final = msgspec.msgpack.Encoder()
_orders: Final = msgspec.msgpack.Decoder(Order)
_words: Final = msgspec.msgpack.Decoder(Word)


def packed(message: Order | Word) -> bytes:
    """Return the byte form, with its length in front. Raises ValueError if it would be too long."""
    data = _encoder.encode(message)
    if len(data) > MESSAGE_BYTES_MAX:
        raise ValueError(f"a {type(message).__name__} of {len(data):,} bytes is too long for the control socket")
    return len(data).to_bytes(4, "little") + data


class Unpacker:
    """Convert bytes to whole messages: orders, which a worker reads, or words, which the supervisor reads."""

    def __init__(self, *, orders: bool) -> None:
        self._decoder = _orders if orders else _words
        self._bytes = bytearray()

    def fed(self, data: bytes) -> list[Order | Word]:
        """Return the messages that are complete now. Raises msgspec.DecodeError or ValueError for invalid bytes."""
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
