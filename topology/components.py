"""The contracts: what a spout and a bolt are, and what they are given.

Knows no graph, no executor and no concrete spout or bolt. The typing follows three facts: a typed `process` on `Bolt`
would break Liskov for every subclass, an untyped one would let every wrong stream pass, so `Bolt` declares neither
`process` nor `execute`, and the protocols `Processes`, `KeepsState` and `Executes` say which shapes there are.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Generic, Literal, Never, Protocol, TypeAlias, overload

import msgspec
from typing_extensions import TypeVar

from acker.floors import Floors
from acker.identity import MessageId
from topology.records import Record

R = TypeVar("R", bound=Record)
RC = TypeVar("RC", bound=Record, covariant=True)
IN = TypeVar("IN", bound=Record, contravariant=True)
A = TypeVar("A", bound=Record)
Out = TypeVar("Out", bound=Record, default=Never)
S = TypeVar("S")


class Message(msgspec.Struct, Generic[RC], frozen=True, eq=False, gc=False):
    """What a spout emits: a record and the id that names it within its partition, after a restart too.

    `at` is its event time, in UTC, where the source knows one.
    """

    record: RC
    id: MessageId
    partition: str = ""
    at: datetime | None = None


class Source(msgspec.Struct, frozen=True):
    """Where a tuple came from: the subscription that delivered it to this task."""

    component: str
    stream: str
    tag: int = 0  # mixed into the identity to make this delivery's edge; 0: the identity is the edge
    key: Callable[[Any], Any] | None = None  # record → the key of its state; None where it goes by its identity


class Tuple(msgspec.Struct, Generic[RC], frozen=True, eq=False, gc=False):
    """A record and where it hangs. Compared by identity of the object: one delivery is one tuple.

    `root` is the tree it belongs to, 0 where it belongs to none; `others` are further trees, after a join.
    (`origin`, `identity`) is the same for every replay: the key under which an idempotent sink knows it.
    """

    record: RC
    origin: int
    identity: int
    root: int
    others: tuple[int, ...]
    source: Source

    @property
    def roots(self) -> tuple[int, ...]:
        """All trees that it belongs to."""
        return (self.root, *self.others) if self.root else self.others


class Collector(Protocol[IN]):
    """What `execute` and `flush` emit through. Bound to one task, usable until its `close`, on the loop only.

    `emit` raises EmitError for what can't be sent, and TupleStateError on a finished tuple.
    """

    def emit(
        self,
        record: IN,
        anchors: Sequence[Tuple[Any]] | None = None,
        key: MessageId | None = None,
        task: int | None = None,
    ) -> None:
        """Sends a record. `anchors`: None for the tuple being executed, () for none (at most once, a random identity).
        `key` names the emission in place of its ordinal. `task` is the target for the readers by direct(); others have
        the record by their groupings. Raises EmitError where a task is named and nobody reads by direct(), or where
        somebody does and none is named."""

    def ack(self, tup: Tuple[Any]) -> None:
        """Says that this input is done. Raises TupleStateError the second time."""

    def fail(self, tup: Tuple[Any], reason: str) -> None:
        """Fails this input's trees: the message is replayed. Raises TupleStateError where it is finished."""

    def touch(self, tup: Tuple[Any]) -> None:
        """Says that this held input is still wanted: its deadline starts anew, and so does the hard cap of 20 timeouts.
        The runtime touches held inputs too, so `tree_timeout_s` alone ends none of them; only this call renews the cap.
        Raises TupleStateError where the input is finished."""

    async def drain(self) -> None:
        """Waits until the queues that this task feeds have room: call it now and then in an unbounded fan-out."""


class State(Protocol[S]):
    """One value for the key of the record being processed; immutable, of the types that a record's field may have.

    Changes take effect when `process` returns, and not at all when it raises (D9). They are kept in the state directory
    before anything that `process` has returned leaves; `Bolt.recovery` says otherwise.
    """

    @overload
    def get(self) -> S | None: ...
    @overload
    def get(self, default: S) -> S: ...
    def get(self, default: Any = None) -> Any:
        """The value, or `default` where the key has none."""

    def set(self, value: S) -> None:
        """Sets the whole value."""

    def clear(self) -> None:
        """Forgets the key's value. Its timers stay."""

    def timer(self, at: datetime | None, name: str = "") -> None:
        """Has `on_timer` called for this key at `at`, by the wall clock, or at once where that is past. A key has one
        timer of each name: setting it again moves it, and None takes it away. A timer is a part of the state: it is
        kept with it, and fires once, after a crash too (B10). Raises EmitError for a time without a zone, for more than
        100 timers of a key, and in a bolt without `on_timer`."""


class Positions(dict[str, MessageId]):
    """Where to resume: partition → the id of the oldest message that was emitted and is not done, or of the newest
    where all are done; empty for a new run. `epochs` says of each partition which epoch that id belongs to (C2): in
    another one it means nothing, and `of` gives None."""

    def __init__(
        self, positions: Mapping[str, MessageId] | None = None, epochs: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(positions or {})
        self.epochs: Mapping[str, str] = dict(epochs or {})

    def of(self, partition: str, epoch: str) -> MessageId | None:
        """Where to resume in this epoch of the partition; None where it was never read, or only in another epoch."""
        return self.get(partition) if self.epochs.get(partition, epoch) == epoch else None


class Clock(Protocol):
    """Both times that a component may ask for. Virtual in tests."""

    def monotonic(self) -> float:
        """Seconds that never step back; its zero means nothing."""
        ...

    def utc(self) -> datetime:
        """The wall clock, in UTC."""
        ...


class Notes(Protocol):
    """Small texts that survive a restart: a source's generations, a time decided once. Kept in the state directory,
    or in memory where the run has none. At most 64 KiB in all; for configuration-sized facts, not for data."""

    def get(self, name: str) -> str | None:
        """The text noted under this name by any run, or None."""

    def set(self, name: str, text: str) -> None:
        """Notes a text. Blocks for one fsync; durable when it returns. Raises NotesAway where it can't be written
        now, and may be later, and StartError where it can't at all."""


class MakesFolder(Protocol):
    """Gives the run's folder for files of components; makes it, where it is not there."""

    def __call__(self) -> Path: ...


def no_folder() -> Path:
    """`Task.folder` of a task that was made outside of a run."""
    raise RuntimeError("this task was made without a folder: Task(…, folder_of=lambda: path)")


@dataclass(frozen=True)
class Task:
    """What `open` is given: which task this is, and all that it may take from its surroundings.

    `floors` say which messages are done: a bolt that `remembers` its inputs asks them what it may forget.
    """

    topology: str
    component: str
    index: int  # 0 … tasks - 1
    tasks: int
    clock: Clock
    random: Random  # seeded for this task
    notes: Notes
    known_as: str = ""  # the name to file notes under, where the component has had another one (`renamed_from`)
    floors: Floors = field(default_factory=lambda: Floors(()))
    folder_of: MakesFolder = field(default_factory=lambda: no_folder)  # `folder`, which is made when it is asked for

    @property
    def folder(self) -> Path:
        """A folder that is there, for files that components keep: one for all of the run, on all workers, so each
        component uses a folder of its own name in it. It is kept in the state directory, and emptied by --fresh and by
        another --run-id; without a state directory it is a temporary one, which goes when the run has ended. What is
        in it is the components' own matter: durable is what they have synced. Raises StartError where it can't be
        made."""
        return self.folder_of()


Outputs: TypeAlias = Iterable[RC] | AsyncIterable[RC] | Awaitable[Iterable[RC] | None] | None


class Component:
    """What spouts and bolts share. The object given to the topology is a prototype: each task gets its own copy."""

    def close(self) -> Awaitable[None] | None:
        """Gives back what `open` took. Called once, after the last input, also when `open` raised."""
        return None

    def summary(self) -> Iterable[str]:
        """What people should know of this task at the end of a run: where things are stored, say. Lines of text, told
        by `kedge run` and kept in the Report. Called once, on the loop, after the last input and before `close`: it
        may look at what `open` took, and should be quick. What it raises is logged, and changes nothing."""
        return ()


class Bolt(Component):
    """A step: subclasses define `process(record)`, `process(record, state)` or `execute(tup, out)`.

    `process` returns or yields records, or None; it may be async. What it returns leaves when it has returned, anchored
    to its input, which is then acked; if it raises, nothing leaves and the input fails. `execute` controls all of it.
    `tick(now)`, where defined, is called every `every` with the time, in UTC. It returns or yields records as `process`
    does, and may be async; the classes that its annotation names are streams of the bolt, too. What it raises is told,
    and changes nothing. `flush(out)` is called once when all inputs of a bounded run have ended, and again only if a
    replay has brought the bolt inputs after that; not when a run drains. What they emit without an anchor, as all of a
    `tick`, has a random identity, at most once.

    A bolt with state may have timers, which `state.timer` sets: `on_timer(key, name, state)` is called once for each
    that is due, with the key as a tuple of the values of its grouping's fields. It returns or yields records as
    `process` does, and is no coroutine. Where it raises, it is called again after a while. What it emits belongs to no
    message: it is kept, and sent until it is processed.

    deterministic  False: what `process` gives is not a function of its input (and state) alone. What it has given is
            then kept until the message is done, and a replay sends the same again (B2).
    recovery  what becomes of a bolt's state when its worker dies. 'checkpoint': it is kept in the state directory, with
            what it has put out, and has changed once for each input. 'replay': it is in memory alone; inputs stay
            unacked until their key is cleared, so they are given again and it is rebuilt (A19); refused for a bolt
            with timers, which no input sets again. 'none': it begins empty.
    holds_max  with 'replay': inputs that a task may hold unacked; the sources wait there. Of all tasks less than
            max_pending.
    remembers  True: a bolt with `execute` knows by itself which inputs it has had, in files or elsewhere, until
            `task.floors.are_over(messages, origin)` says of one that none of its messages can come again (messages: of
            `tup.roots`, by `acker.roots.message_of`). What is stale is then not given to it any more, so that it does
            not take what it has forgotten for new (D5); and what `shuffle` deals to it goes by identity, so that a
            replay meets the task that it has met before.
    fires_at_end  whether the timers that are left fire, in their order, when all inputs of a bounded run have ended.
            Else they stay, and the next run has them, as it has those whose `on_timer` raises too often
            (max_replays; five times unless set).
    may_be_split  True: what it keeps in its attributes is a matter of each copy of it alone, such as a table that was
            loaded, so there may be any number of copies, begun anew at any time: what an engine asks that deals them to
            processes of its own (`kedge run --engine`).
    blocking  True: `process` computes or waits for long, so it is called in a thread, one input at a time in each task,
            or as many as the topology's `concurrency` says; the event loop goes on. What it uses has to bear that: its
            attributes are changed in another thread than the loop's, and of several where concurrency is more than 1.
            What it returns leaves, and what it raises fails its input, as ever. An input over `process_timeout_s`
            fails, and its thread is free when `process` has returned, which nothing can force; at the end of a run
            such a thread is left behind. For `process(record)` without state, and not async.
    away    Set by the bolt while something that it depends on is away: why, for people. As long as it is not empty, the
            inputs that the bolt has, or that wait for it, have no deadline and no time limit (F43), and whoever asks
            what holds the run up is told. The bolt has to ask again by itself, and to set it to "" once it can go on.
    broken  Set by the bolt where this process can't go on: the runtime ends the process without another ack (F18).
    """

    deterministic: ClassVar[bool] = True
    recovery: ClassVar[Literal["checkpoint", "replay", "none"]] = "checkpoint"
    holds_max: ClassVar[int] = 250
    remembers: ClassVar[bool] = False
    fires_at_end: ClassVar[bool] = False
    may_be_split: ClassVar[bool] = False
    blocking: ClassVar[bool] = False
    away: str = ""
    broken: BaseException | None = None

    def open(self, task: Task) -> Awaitable[None] | None:
        """Takes resources; may be async. Raises ConfigurationError for what the user has to mend, and NotYet for what
        may well come: it is called again then."""
        return None


class Spout(Component):
    """A source: subclasses define `records()`, an async generator of messages, or `poll(limit)`.

    `poll` waits until there is at least one message and returns up to `limit`; an empty list says that the source has
    ended, and it is not asked again. A cancelled `poll` has lost nothing: the next one returns what it would have.

    What it emits is read from the annotation, `-> list[Message[Line]]`; a union of classes is as many streams. A
    generic spout, whose annotation has a type variable, is made as `Lines[Line]()`, is the base of a `class
    Mine(Lines[Line])`, or defines `emits(self)`, which returns the record classes, and is called when it is declared.

    given_again  what becomes of messages that it has given and that are not done when its worker dies or the run ends.
            'same': it gives them again, under the ids that they had. 'other ids': it gives them again, and nobody can
            tell that they are the same, so what they have caused may be stored twice (C2). 'never': they are lost, as
            those of a clock are. Saying so changes nothing but what `kedge check --guarantees` tells.
    ends_last  True: what it reads is made of what bolts of this run have put elsewhere, as a query's results are. All
            other sources end first; bolts that are not below this one are then flushed, and what they put out in that
            may be what it has waited for. It ends by itself, as any source does: `poll` returns an empty list.
    shared_ids  whether an id (of a partition) names one message whichever task gives it: True for tasks that divide
            one set of messages, as where each takes every n-th row of a table. Else each task has ids of its own: an id
            that two tasks give names two messages (B14).
    reads_ahead  how many messages `records` may have yielded that are not emitted yet, at least 1; of each task. A run
            that drains emits them before it ends, and asks the generator for no more.
    """

    handle_repeated: ClassVar[Literal["same", "other ids", "never"]] = "same"
    ends_last: ClassVar[bool] = False
    shared_ids: ClassVar[bool] = False
    reads_ahead: ClassVar[int] = 128
    outside_ids: ClassVar[bool] = False  # True: strangers choose the message ids, so they are hashed with a key (S19)

    def open(self, task: Task, positions: Positions) -> Awaitable[None] | None:
        """Takes resources; may be async. `positions`: where to resume, see `Positions`. What a source gives again from
        there on the runtime passes over where it is done already. Raises as that of a bolt."""
        return None

    def partitions(self) -> Mapping[str, str]:
        """Partition → epoch. An epoch changes when the partition's ids start again (C2): a file's generation, a topic's
        id. Asked after every poll, so that all messages of one poll are of one epoch of their partition; the same
        object says that nothing has changed."""
        return ONE_PARTITION

    def ack(self, id: MessageId) -> None:
        """The message with this id has been processed, its whole tree."""

    def fail(self, id: MessageId) -> None:
        """The message with this id is dead: it will not be replayed again."""


ONE_PARTITION: Mapping[str, str] = {"": ""}


class Processes(Protocol[IN, RC]):
    def process(self, record: IN, /) -> Outputs[RC]: ...


class KeepsState(Protocol[IN, RC]):
    def process(self, record: IN, state: State[Any], /) -> Outputs[RC]: ...


class Executes(Protocol[IN, RC]):
    def execute(self, tup: Tuple[IN], out: Collector[RC], /) -> Awaitable[None] | None: ...


Runs: TypeAlias = Processes[A, Out] | KeepsState[A, Out] | Executes[A, Out]


class Records(Protocol[RC]):
    def records(self) -> AsyncIterator[Message[RC]]: ...


class Polls(Protocol[RC]):
    async def poll(self, limit: int, /) -> Sequence[Message[RC]]: ...
