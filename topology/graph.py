"""The graph that a user declares: its components, their stream handles, and where each was declared.

Declaring never raises for a mistake in the graph: mistakes are collected with their file and line, and
`Topology.validate` reports all of them at once. This file must not know how a graph is checked, drawn or run:
`topology.topology` does.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Generic, overload

from typing_extensions import TypeVar

from topology import signatures
from topology.codes.declarations import BOLT_WITHOUT_INPUT, INVALID_BOLT_INPUT
from topology.companions import Companion
from topology.components import RC, A, Out, Polls, R, Records, Runs
from topology.config import Config
from topology.dead_letters import DeadLetter, Malformed
from topology.errors import Mistake, Problem
from topology.groupings import All, Custom, Direct, Fields, Global, Grouping, LocalOrShuffle, PartialKey, Shuffle
from topology.records import Record, is_record
from topology.signatures import Classes, Shape
from topology.text import escaped

B = TypeVar("B", bound=Record)
C = TypeVar("C", bound=Record)

# description of the topology that is being loaded, to be run by the loader
_loading: Final = ContextVar("_loading", default="")


def being_loaded() -> str:
    """Return what `only_declaring` was given, or an empty string outside of it."""
    return _loading.get()


@contextmanager
def only_declaring(what: str) -> Iterator[None]:
    """Refuse runs in this context: `run` and `serve` raise ConfigurationError. `what` describes what is being imported,
    to be run afterwards."""
    before = _loading.set(what)
    try:
        yield
    finally:
        _loading.reset(before)


@dataclass(frozen=True)
class Place:
    """The call that declared something."""

    file: str
    line: int


@dataclass
class Declared:
    """One spout or bolt as it was declared. `streams` are the record classes that it emits."""

    name: str
    prototype: Any
    tasks: int
    place: Place
    streams: Classes
    kind: str  # 'spout' or 'bolt'
    readable: bool = True  # False: its streams could not be determined, so subscriptions to it cannot be checked
    inputs: tuple["Input[Any]", ...] = ()
    takes: Classes = ()  # empty: any record
    shape: Shape = "process"
    waits: bool = False  # its `process` or `execute` is async
    concurrency: int = 1
    every: str | None = None
    problems: list[Problem] = field(default_factory=list)
    renamed_from: str | None = None
    begins_empty: bool = False
    by_count: bool = True  # False: its outputs are named by their message, whatever `durability` says

    @property
    def known_as(self) -> str:
        """The name that its identities are made of, and that its stored data is filed under: the one of its first run.
        People see `name`."""
        return self.name if self.renamed_from is None else self.renamed_from


@dataclass(frozen=True)
class Input(Generic[RC]):
    """One subscription: a stream of a component, and the grouping that distributes its tuples over the subscriber's
    tasks."""

    topology: "Graph"
    component: str
    cls: type[Record] | None  # None: the component emits none or several, and none was chosen
    grouping: Grouping
    place: Place
    dead: bool = False  # the stream of the component's dead letters


class Stream(Generic[RC]):
    """The handle of a component's output.

    A grouping makes it an input of a bolt:

        words = topology.bolt("split", split, lines.shuffle())
        topology.bolt("count", Count(), words.fields("text"), tasks=2)

    If the component emits several classes, `handle[Class]` is the stream of one.
    """

    def __init__(self, topology: "Graph", component: str, classes: Classes, dead: bool = False) -> None:
        self._topology = topology
        self._component = component
        self._classes = classes
        self._dead = dead

    def __getitem__(self, cls: type[R]) -> "Stream[R]":
        """Return the stream of one record class. `Topology.validate` checks that the component emits the class."""
        return Stream(self._topology, self._component, (cls,), self._dead)

    @property
    def dead(self) -> "Stream[DeadLetter]":
        """The dead letters of a spout: its messages that have ended dead, whichever bolt failed them. Each letter is
        sent once it is kept.

        Reading them changes nothing for the messages. If the subscribed bolt raises, it gets the letter again, for
        retry_for_s or up to max_replays times.

            topology.bolt("page", Page(), lines.dead.shuffle())
        """
        return Stream(self._topology, self._component, (DeadLetter,), dead=True)

    @property
    def malformed(self) -> "Stream[Malformed]":
        """The messages of a source that do not fit its record class. Without a reader they become dead letters.

        topology.bolt("keep", JsonLinesSink("malformed.jsonl"), logins.malformed.shuffle())
        """
        return Stream(self._topology, self._component, (Malformed,))

    def shuffle(self) -> Input[RC]:
        """Send tuples to the tasks in turn."""
        return self._input(Shuffle())

    def local_or_shuffle(self) -> Input[RC]:
        """Send tuples in turn to the tasks in the emitter's own worker if it has any, otherwise to all tasks."""
        return self._input(LocalOrShuffle())

    def fields(self, *names: str) -> Input[RC]:
        """Send equal values of these fields to the same task; for a bolt with `state`, they are its key."""
        return self._input(Fields(names))

    def partial_key(self, name: str) -> Input[RC]:
        """Send each value of this field to one of two tasks, the one that has had fewer tuples."""
        return self._input(PartialKey(name))

    def all(self) -> Input[RC]:
        """Send a copy to every task."""
        return self._input(All())

    def global_(self) -> Input[RC]:
        """Send everything to task 0; for a bolt with `state`, there is one key."""
        return self._input(Global())

    def direct(self) -> Input[RC]:
        """Let the emitter name the task, in `execute`: `out.emit(record, task=n)`."""
        return self._input(Direct())

    def custom(self, grouping: Grouping) -> Input[RC]:
        """Send each tuple to the tasks that `grouping.choose(record, tasks)` returns."""
        return self._input(Custom(grouping))

    def _input(self, grouping: Grouping) -> Input[RC]:
        cls = self._classes[0] if len(self._classes) == 1 else None
        return Input(self._topology, self._component, cls, grouping, _caller(), self._dead)


class Graph:
    """A graph of spouts and bolts, as it is declared. Users declare a `Topology`, which can also be checked and run."""

    def __init__(self, name: str, config: Config | None = None) -> None:
        self.name = name
        self.config = config if config is not None else Config()
        self.place = _caller()
        self.components: list[Declared] = []
        self.companions: list[Companion] = []
        self.companion_places: list[Place] = []  # the place where each of them was declared

    def spout(
        self, name: str, spout: Records[R] | Polls[R], /, *, tasks: int = 1, renamed_from: str | None = None
    ) -> Stream[R]:
        """Declare a source. Return the handle of its streams.

            lines = topology.spout("lines", FileTail("access.log"))

        `renamed_from` has the same meaning as for a bolt.
        """
        classes, problems = signatures.of_spout(spout)
        declared = Declared(name, spout, tasks, _caller(), classes, "spout", not problems, problems=problems)
        declared.renamed_from = renamed_from
        return self._declare(declared)

    @overload
    def bolt(
        self,
        name: str,
        bolt: Runs[A, Out],
        first: Input[A],
        /,
        *,
        tasks: int = 1,
        concurrency: int = 1,
        every: str | None = None,
        renamed_from: str | None = None,
        begins_empty: bool = False,
    ) -> Stream[Out]: ...
    @overload
    def bolt(
        self,
        name: str,
        bolt: Runs[A | B, Out],
        first: Input[A],
        second: Input[B],
        /,
        *,
        tasks: int = 1,
        concurrency: int = 1,
        every: str | None = None,
        renamed_from: str | None = None,
        begins_empty: bool = False,
    ) -> Stream[Out]: ...
    @overload
    def bolt(
        self,
        name: str,
        bolt: Runs[A | B | C, Out],
        first: Input[A],
        second: Input[B],
        third: Input[C],
        /,
        *,
        tasks: int = 1,
        concurrency: int = 1,
        every: str | None = None,
        renamed_from: str | None = None,
        begins_empty: bool = False,
    ) -> Stream[Out]: ...
    @overload
    def bolt(
        self,
        name: str,
        bolt: Runs[A, Out],
        /,
        *inputs: Input[A],
        tasks: int = 1,
        concurrency: int = 1,
        every: str | None = None,
        renamed_from: str | None = None,
        begins_empty: bool = False,
    ) -> Stream[Out]: ...
    def bolt(
        self,
        name: str,
        bolt: Any,
        /,
        *inputs: Input[Any],
        tasks: int = 1,
        concurrency: int = 1,
        every: str | None = None,
        renamed_from: str | None = None,
        begins_empty: bool = False,
    ) -> Stream[Any]:
        """Declare a bolt that reads `inputs`: streams, each with a grouping. Return the handle of its streams.

            topology.bolt("lookup", Lookup(), words.shuffle(), tasks=2, concurrency=100)

        tasks         The number of copies that share the input.
        concurrency   The number of inputs that each task of an async or `blocking` bolt may process at once.
        every         The interval of `tick`: "10s", "500ms", "5m".
        renamed_from  The name under which the bolt first ran on this state directory, if it is another now. Its
                      identities, its state and its other stored data stay those of that name. Leave it there as long as
                      the state directory lives.
        begins_empty  True: this bolt with state is new, and is not a renamed one whose old name is gone. The data
                      stored under the old name stays.
        """
        signature = signatures.of_bolt(bolt)
        read = tuple(source for source in inputs if isinstance(source, Input))
        gives = signature.gives
        if signature.same:
            gives = tuple(dict.fromkeys([*gives, *(source.cls for source in read if is_record(source.cls))]))
        problems = [
            *signature.problems,
            *(
                Problem(INVALID_BOLT_INPUT, _not_an_input(source, self))
                for source in inputs
                if not isinstance(source, Input)
            ),
        ]
        if not inputs:
            text = 'it has no input; give it a stream with a grouping: topology.bolt("name", bolt, x.shuffle())'
            problems.append(Problem(BOLT_WITHOUT_INPUT, text))
        declared = Declared(
            name,
            bolt,
            tasks,
            _caller(),
            gives,
            "bolt",
            not signature.problems and not (signature.same and any(source.cls is None for source in read)),
            inputs=read,
            takes=signature.takes,
            shape=signature.shape,
            waits=signature.waits,
            concurrency=concurrency,
            every=every,
            problems=problems,
            renamed_from=renamed_from,
            begins_empty=begins_empty,
        )
        return self._declare(declared)

    def companion(self, companion: Companion, /) -> None:
        """Declare a process that a run of this topology starts next to itself, watches, and ends: see `Companion`. Its
        name must be unique in the topology."""
        self.companions.append(companion)
        self.companion_places.append(_caller())

    def _declare(self, declared: Declared) -> Stream[Any]:
        self.components.append(declared)
        return Stream(self, declared.name, tuple(cls for cls in declared.streams if cls is not Malformed))

    def mistake(self, problem: Problem, place: Place | None = None) -> Mistake:
        """Return a Mistake at a place of the declaration, or at the topology's own place if none is given."""
        at = place or self.place
        return Mistake(escaped(problem), at.file, at.line, code=problem.code)  # a name may still be any text (S11)


def _not_an_input(given: object, topology: Graph) -> str:
    """Return advice for an argument of the wrong kind: what to write instead."""
    if isinstance(given, Stream):
        return f"a stream is not an input yet; choose a grouping: {_said(given)}.shuffle()"
    if callable(given) and isinstance(stream := getattr(given, "__self__", None), Stream):
        return f"a grouping is called; write {_said(stream)}.{getattr(given, '__name__', 'shuffle')}()"
    if isinstance(given, str) and any(given == component.name for component in topology.components):
        return f"a name is not an input; use the handle of {given!r} with a grouping: {given}.shuffle()"
    if isinstance(given, list | tuple):
        return "pass the inputs one by one, not as a list"
    return f"{type(given).__name__} is not an input; give a stream with a grouping: lines.shuffle()"


def _said(stream: Stream[Any]) -> str:
    return f"{stream._component}{'.dead' * stream._dead}"


def _caller() -> Place:
    """Return the place of the first frame outside of this file."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
