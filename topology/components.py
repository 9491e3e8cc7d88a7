"""The contracts of spouts and bolts, and the objects that the runtime passes to them.

Knows no graph, no executor and no concrete spout or bolt. `Bolt` declares neither `process` nor `execute`: a typed
`process` would break Liskov for every subclass, and an untyped one would let every wrong stream pass. The protocols
`Processes`, `KeepsState` and `Executes` state the allowed shapes.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Generic, Literal, Never, Protocol, TypeAlias, overload

import msgspec
from typing_extensions import TypeVar

from acker.frontier import Decided
from acker.identity import MessageId
from topology.core.tuples import Tuple
from topology.records import Record

R = TypeVar("R", bound=Record)
RC = TypeVar("RC", bound=Record, covariant=True)
IN = TypeVar("IN", bound=Record, contravariant=True)
A = TypeVar("A", bound=Record)
Out = TypeVar("Out", bound=Record, default=Never)
S = TypeVar("S")


class Message(msgspec.Struct, Generic[RC], frozen=True, eq=False, gc=False):
    """A message that a spout emits: a record, and an id that names it within its partition, even after a restart.

    `at` is the event time, in UTC, if the source knows one.

        Message(Line(text), id=offset, partition="access.log")
    """

    record: RC
    id: MessageId
    partition: str = ""
    at: datetime | None = None


class Collector(Protocol[IN]):
    """The object through which `execute` and `flush` emit. Bound to one task; usable until its `close`, on the loop
    only.

    `emit` raises EmitError for an invalid emission, and TupleStateError for a finished tuple.
    """

    def emit(
        self,
        record: IN,
        anchors: Sequence[Tuple[Any]] | None = None,
        key: MessageId | None = None,
        task: int | None = None,
    ) -> None:
        """Send a record.

        anchors  None: the tuple that is being executed. (): no tuple; the record then has a random identity and is
                 delivered at most once.
        key      Names the emission in place of its ordinal.
        task     The target task for subscribers by direct(). Other subscribers get the record by their groupings.

        Raises EmitError if `task` is set and no subscriber reads by direct(), or if one does and `task` is None.
        """

    def ack(self, tup: Tuple[Any]) -> None:
        """Mark this input as done. Raises TupleStateError the second time."""

    def ack_all(self, tuples: Iterable[Tuple[Any]]) -> list[Tuple[Any]]:
        """Ack each of these inputs, in one call. Return those that are finished already, and raise nothing for them."""
        ...

    def fail(self, tup: Tuple[Any], reason: str) -> None:
        """Fail the trees of this input: the message is replayed. Raises TupleStateError if the input is finished."""

    def touch(self, tup: Tuple[Any]) -> None:
        """Report that this held input is still wanted: its deadline and its hard cap of 20 timeouts start again.

        The runtime touches held inputs too, so `tree_timeout_s` alone ends none of them. Only this call renews the cap.
        Raises TupleStateError if the input is finished.
        """

    async def drain(self) -> None:
        """Wait until the queues that this task feeds have room. Call it now and then in an unbounded fan-out."""


class State(Protocol[S]):
    """The state of one key, that of the record being processed: one immutable value, of the types that a record's field
    may have.

    Changes take effect when `process` returns, and not at all if it raises (D9). With durability 'disk' and 'process'
    Kedge stores them in the state directory before it sends any output of `process`; with 'checkpoint' the next
    checkpoint has them. `Bolt.recovery` may say otherwise.
    """

    @overload
    def get(self) -> S | None: ...
    @overload
    def get(self, default: S) -> S: ...
    def get(self, default: Any = None) -> Any:
        """Return the value, or `default` if the key has none."""

    def set(self, value: S) -> None:
        """Set the whole value."""

    def clear(self) -> None:
        """Delete the key's value. Its timers stay."""

    def timer(self, at: datetime | None, name: str = "") -> None:
        """Schedule a call of `on_timer` for this key at the wall-clock time `at`, or at once if `at` is past.

        A key has one timer per name: setting the timer again moves it, and None removes it. A timer is a part of the
        state: it is stored with the state, and fires once, even after a crash (B10). Raises EmitError for a time
        without a zone, for more than 100 timers of a key, and in a bolt without `on_timer`.
        """


class Positions(dict[str, MessageId]):
    """The points to resume at: partition → message id. Empty for a new run.

    The id is that of the oldest message that was emitted and is not done, or of the newest message if all are done.
    `epochs` has the epoch of each partition's id (C2). In another epoch the id means nothing, and `of` returns None.
    """

    def __init__(
        self, positions: Mapping[str, MessageId] | None = None, epochs: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(positions or {})
        self.epochs: Mapping[str, str] = dict(epochs or {})

    def of(self, partition: str, epoch: str) -> MessageId | None:
        """Return the id to resume at in this epoch of the partition. None: it was never read, or only in another
        epoch."""
        return self.get(partition) if self.epochs.get(partition, epoch) == epoch else None


class Clock(Protocol):
    """The two times that a component may ask for. Virtual in tests."""

    def monotonic(self) -> float:
        """Return seconds that never step back; their zero has no meaning."""
        ...

    def utc(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        ...


class Notes(Protocol):
    """Small texts that survive a restart, for example the generations of a source or a time that was chosen once.

    Kept in the state directory, or in memory if the run has none. At most 64 KiB in all: for facts of the size of a
    configuration, not for data.
    """

    def get(self, name: str) -> str | None:
        """Return the text that any run has stored under this name, or None."""

    def set(self, name: str, text: str) -> None:
        """Store a text. Blocks for one fsync; the text is durable on return. Raises NotesAway if it cannot be written
        now but may be later, and StartError if it cannot be written at all."""


class MakesFolder(Protocol):
    """Return the run's folder for files of components; create the folder if it does not exist."""

    def __call__(self) -> Path: ...


def no_folder() -> Path:
    """Raise RuntimeError: the default of `Task.folder_of`, for a task that was made outside of a run."""
    raise RuntimeError("this task was made without a folder: Task(…, folder_of=lambda: path)")


@dataclass(frozen=True)
class Task:
    """The argument of `open`: the identity of this task, and everything that the task may use from its surroundings.

    `frontier` knows which messages are done at the last decided checkpoint: a bolt that `remembers` its inputs asks it
    which inputs it may forget.
    """

    topology: str
    component: str
    index: int  # 0 … tasks - 1
    tasks: int
    clock: Clock
    random: Random  # seeded for this task
    notes: Notes
    known_as: str = ""  # the name to file notes under: `renamed_from` if the component was renamed
    frontier: Decided = field(default_factory=Decided)
    folder_of: MakesFolder = field(default_factory=lambda: no_folder)  # makes `folder` on first use

    @property
    def folder(self) -> Path:
        """An existing folder for files of components: one for the whole run, on all workers. A component uses a
        subfolder of its own name.

        The folder is kept in the state directory, and emptied by --fresh and by another --run-id. Without a state
        directory it is a temporary folder, which is deleted when the run has ended. Components own its content: only
        files that they have synced are durable. Raises StartError if the folder cannot be created.
        """
        return self.folder_of()


Outputs: TypeAlias = Iterable[RC] | AsyncIterable[RC] | Awaitable[Iterable[RC] | None] | None


class Component:
    """The common part of spouts and bolts. The object given to the topology is a prototype: each task gets its own
    copy."""

    def close(self) -> Awaitable[None] | None:
        """Release the resources that `open` took. Called once, after the last input, also if `open` raised."""
        return None

    def summary(self) -> Iterable[str]:
        """Return lines of text about this task for the end of a run, for example the place of its stored records.

        `kedge run` prints them, and the Report keeps them. Called once, on the loop, after the last input and before
        `close`. The method may use the resources that `open` took, and should be quick. An exception in it is logged
        and changes nothing.
        """
        return ()


class Bolt(Component):
    """A step: subclasses define `process(record)`, `process(record, state)` or `execute(tup, out)`.

        class Count(Bolt):
            def process(self, word: Word, state: State[int]) -> Iterator[Total]:
                count = state.get(0) + 1
                state.set(count)
                yield Total(word.text, count)

        topology.bolt("count", Count(), words.fields("text"), tasks=2)

    `process` returns or yields records, or None; it may be async. Its outputs are sent after it has returned, anchored
    to its input, which is then acked. If `process` raises, nothing is sent and the input fails. `execute` controls all
    of this itself.

    `process_many(records)`, if defined beside a `process(record)` without state, is called with up to 128 records at
    once, as a tuple, in place of `process`. It returns what `process` returns for each of them, in their order; nothing
    that must be awaited. Each is emitted and acked for its own input. If it raises, `process` is called for each of
    these records. A subclass with a `process` of its own has no `process_many` but its own. An engine of `kedge run
    --engine` calls `process` alone.

    `tick(now)`, if defined, is called every `every` with the time, in UTC. It returns or yields records as `process`
    does, and may be async. The classes in its annotation are streams of the bolt too. An exception in `tick` is logged
    and changes nothing.

    `flush(out)` is called once when all inputs of a bounded run have ended. It is called again only if a replay has
    brought inputs to the bolt after that. It is not called when a run drains. Records emitted without an anchor, as all
    of a `tick` are, have a random identity and are delivered at most once.

    A bolt with state may have timers, which `state.timer` sets. `on_timer(key, name, state)` is called once for each
    due timer; `key` is a tuple of the values of the grouping's fields. It returns or yields records as `process` does,
    and must not be a coroutine. If it raises, it is called again after a while. Its outputs belong to no message: they
    are stored, and sent until they are processed.

    deterministic  False: the output of `process` is not a function of its input (and state) alone. The output is then
                   stored until the message is done, and a replay sends the same output again (B2). With durability
                   'checkpoint' that holds for outputs that a decided checkpoint has.
    recovery  Recovery of the bolt's state after the death of its worker. 'checkpoint': the state directory has the
              state and the outputs, and each input has changed the state once. 'replay': the state is in memory only.
              Inputs stay unacked until their key is cleared, so they are replayed and rebuild the state (A19). Kedge
              refuses 'replay' for a bolt with timers, because no input sets them again. 'none': the state begins empty.
    holds_max  With 'replay': the inputs that a task may hold unacked; at this many the sources wait. The sum over all
               tasks must be less than max_pending.
    remembers  True: a bolt with `execute` itself knows which inputs it has had, in files or elsewhere. It remembers an
               input until `task.frontier.may_forget(messages, origin, taken_at)` says that none of its messages can
               come again. The messages are those of `tup.roots`, by `acker.roots.message_of`, and `(0,)` if it has
               none; `taken_at` is `task.frontier.gathered` when the input came. An input that comes again counts under
               its new messages. Those of an earlier life of this task have none, which is `()`. The runtime withholds
               stale inputs, so that the bolt does not take a forgotten input for a new one (D5). `shuffle` routes to
               such a bolt by identity, so that a replay reaches the same task as before.
    fires_at_end  True: when all inputs of a bounded run have ended, the remaining timers fire in their order. False:
                  they stay, and the next run has them. Timers whose `on_timer` raises too often (max_replays; five
                  times unless set) stay as well.
    may_be_split  True if copies of this bolt are independent: its attributes hold only per-copy data, such as a table
                  that was loaded. Any number of copies may then be started and restarted at any time. `kedge run
                  --engine` requires this from an engine that runs bolts in its own processes.
    blocking  True: `process` computes or waits for long, so it is called in a thread and the event loop goes on. Each
              task runs one input at a time, or as many as the topology's `concurrency` says. The bolt must be safe for
              this: `process` changes attributes in another thread than the loop's, and in several if concurrency is
              more than 1. Outputs and exceptions are handled as usual. An input over `process_timeout_s` fails, but its
              thread is free only when `process` has returned, which nothing can force. At the end of a run such a
              thread is left behind. Only for `process(record)` without state, and not async.
    order_matters  The orders that the bolt's outputs for a key depend on: 'always', on that of its inputs and timers;
                   'inputs', on that of its inputs; 'never', on none: in any order, a key's inputs cause the same
                   sequence of outputs, as with a count, and so do its timers. Only `kedge check --guarantees` reads
                   it.
    away  Set by the bolt while something that it depends on is away: the reason, for people. While `away` is not empty,
          inputs that the bolt has, or that wait for it, have no deadline and no time limit (F43). Reports of stalls
          show the reason. The bolt must check again by itself, and set `away` to "" when it can continue.
    broken  Set by the bolt if this process cannot continue: the runtime ends the process without another ack (F18).
    """

    deterministic: ClassVar[bool] = True
    recovery: ClassVar[Literal["checkpoint", "replay", "none"]] = "checkpoint"
    holds_max: ClassVar[int] = 250
    remembers: ClassVar[bool] = False
    fires_at_end: ClassVar[bool] = False
    may_be_split: ClassVar[bool] = False
    blocking: ClassVar[bool] = False
    order_matters: Literal["always", "inputs", "never"] = "always"
    away: str = ""
    broken: BaseException | None = None

    def open(self, task: Task) -> Awaitable[None] | None:
        """Take resources; may be async. Raises ConfigurationError for a fault that the user has to fix. Raises NotYet
        if something is missing that may appear later: `open` is then called again."""
        return None


class Spout(Component):
    """A source: subclasses define `records()`, an async generator of messages, or `poll(limit)`.

        class Numbers(Spout):
            def open(self, task: Task, positions: Positions) -> None:
                self.first = positions.get("", 0)  # resume here

            async def records(self) -> AsyncIterator[Message[Number]]:
                for value in range(self.first, 1_000):
                    yield Message(Number(value), id=value)

    `poll` waits until there is at least one message and returns up to `limit`. An empty list means that the source has
    ended, and it is not polled again. A cancelled `poll` must lose nothing: the next `poll` returns the same messages.

    The annotation, such as `-> list[Message[Line]]`, declares the streams: each class of a union is one stream. A
    generic spout has a type variable in its annotation. Make it as `Lines[Line]()`, or derive a class from it: `class
    Mine(Lines[Line])`. Or define `emits(self)`, which returns the record classes; it is called when the spout is
    declared.

    given_again  The fate of messages that were emitted and are not done when their worker dies or the run ends.
                     'same': the source emits them again under the same ids. 'other ids': the source emits them again
                     under other ids, so their effects may be stored twice (C2). 'never': they are lost, as those of a
                     clock are. This value only changes the output of `kedge check --guarantees`.
    ends_last  Set to True for a source that reads data written by bolts of the same run, such as query results. Kedge
               ends all other sources first, and then flushes the bolts that are not below this source, because their
               last output may be the data that this source waits for. The source ends by itself, as any source does:
               `poll` returns an empty list.
    shared_ids  True if an id (of a partition) names one message, whichever task emits it. This holds for tasks that
                divide one set of messages, for example if each task takes every n-th row of a table. False: each task
                has its own ids, and an id that two tasks emit names two messages (B14).
    one_queue  True if several tasks take messages from one queue of a server, so that a message may come again to
                 another task. Sinks drop what that repeats; state may count it twice if it comes late. This value only
                 changes the output of `kedge check --guarantees`, if there are several tasks.
    reads_ahead  The number of messages per task that `records` may have yielded and that are not emitted yet, at least
                 1. A run that drains emits them before it ends, and does not ask the generator for more.
    outside_ids  True if outsiders choose the message ids; the ids are then hashed with a key (S19).
    """

    given_again: ClassVar[Literal["same", "other ids", "never"]] = "same"
    ends_last: ClassVar[bool] = False
    shared_ids: ClassVar[bool] = False
    one_queue: ClassVar[bool] = False
    reads_ahead: ClassVar[int] = 128
    outside_ids: ClassVar[bool] = False

    def open(self, task: Task, positions: Positions) -> Awaitable[None] | None:
        """Take resources; may be async. `positions`: the points to resume at, see `Positions`. If the source emits
        messages again from there, the runtime skips those that are done. Raises as `Bolt.open` does."""
        return None

    def partitions(self) -> Mapping[str, str]:
        """Return partition → epoch. An epoch changes when the ids of its partition start again (C2): for example a
        file's generation, or a topic's id.

        Called after every poll, so all messages of one poll belong to one epoch of their partition. Returning the same
        object means that nothing has changed.
        """
        return ONE_PARTITION

    def ack(self, id: MessageId) -> None:
        """Called when the message with this id, and its whole tree, has been processed. With guarantee="at-most-once"
        nothing is tracked, and it is called when the message's first tuples have left, or could not be emitted."""

    def fail(self, id: MessageId) -> None:
        """Called when the message with this id is dead: it will not be replayed again."""

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        """Called when a decided checkpoint has these messages of a partition, in the order of their ends: each is done,
        or its dead letter is kept. Later runs do not ask for them, unless one begins from an older checkpoint
        (`--from`). So a broker may forget them. With guarantee="at-most-once" it is called as `ack` is.

        It is called on the event loop, so it must not block. What it raises is logged, and changes nothing. If the
        spout gives a message that an earlier run has finished, it is called for that at once. After a crash it is not
        called for messages below the position, which are not given again.

        The runtime remembers a message from its end until then, a few tenths of a second, if the spout defines this. It
        then closes the spout after the last checkpoint of the run, so that a connection to a broker is still open. If
        that checkpoint is decided late, the last call comes after `close`.
        """


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
