"""Annotations of a component, read: the record classes that it takes and emits, and the way to call it.

Pure: reads annotations, runs nothing. A fault is returned as a sentence, never raised; `graph` collects it.
"""

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from topology.annotations import ASYNC, LATER, MANY, NOTHING, Bindings, argument, bindings, named, union
from topology.codes.code import Code
from topology.codes.declarations import (
    COMPONENT_INSPECTION_RAISED,
    INVALID_BOLT_METHOD,
    INVALID_COMPONENT,
    INVALID_INPUT_TYPE,
    INVALID_ON_TIMER,
    INVALID_OUTPUT_TYPE,
    INVALID_PROCESS_RETURN_TYPE,
    INVALID_SPOUT_METHOD,
    INVALID_STATE_TYPE,
    INVALID_TICK_METHOD,
)
from topology.components import Bolt, Collector, Component, Message, Spout, State
from topology.core.tuples import Tuple
from topology.errors import Problem
from topology.functions import FunctionBolt
from topology.records import Record, is_record, type_problem

# journal: a process whose outputs are stored before they are sent
Shape = Literal["process", "state", "execute", "journal"]
Classes = tuple[type[Record], ...]

LAMBDA: Final = "<lambda>"
DEFINE: Final = "write a function by def, with annotations: @bolt, def name(record: X) -> Iterator[Y]"


@dataclass
class Signature:
    """The content of a bolt's annotations. `takes` is empty if any record is accepted; `problems` are whole
    sentences."""

    shape: Shape = "process"
    takes: Classes = ()
    gives: Classes = ()
    same: bool = False  # emits the classes that it takes, because its annotation is a type variable
    waits: bool = False  # async
    problems: list[Problem] = field(default_factory=list)


def of_bolt(bolt: Any) -> Signature:
    """Read the annotations of `process` or `execute` of a bolt (an instance)."""
    try:
        return _Reading(called(bolt)).bolt(bolt)
    except Exception as error:  # properties and annotations are the user's code, and may raise anything
        return Signature(problems=[_unreadable(bolt, error)])


def of_spout(spout: Any) -> tuple[Classes, list[Problem]]:
    """Return the record classes of a spout (an instance), read from `records` or `poll`, and its problems."""
    try:
        return _spout(spout, called(spout))
    except Exception as error:  # as above
        return (), [_unreadable(spout, error)]


def state_type(bolt: Any) -> Any:
    """Return the X of `state: State[X]`, for a bolt whose shape is "state". None if it names none, for example a type
    variable without a value."""
    *_, last = _positional(bolt.process)
    kind = argument(typing.get_type_hints(bolt.process)[last], State)
    return bindings(bolt, "process").get(kind, kind) if isinstance(kind, TypeVar) else kind


def takes_many_records(bolt: Any) -> bool:
    """Return True if `process_many` of a bolt is called in place of its `process`: not if a nearer class, or the object
    itself, has another `process`."""
    own = next((cls for cls in type(bolt).__mro__ if {"process", "process_many"} & vars(cls).keys()), object)
    return callable(vars(own).get("process_many")) and "process" not in vars(bolt)


def called(component: Any) -> str:
    """Return the name of a component for sentences: its class, or the function that it was made from."""
    name = getattr(component, "__name__", None) if isinstance(component, Component) else None
    return name if isinstance(name, str) else type(component).__name__


def kind_problem(component: Any, wanted: type[Component]) -> Problem | None:
    """Return a problem if this is no bolt, or no spout: a class, a function, or one in place of the other. None if it
    is one."""
    return None if isinstance(component, wanted) else Problem(INVALID_COMPONENT, _instead(component, wanted))


def _instead(component: Any, wanted: type[Component]) -> str:
    """Describe the object that was given, and the one to give in its place."""
    kind = "bolt" if wanted is Bolt else "spout"
    if isinstance(component, type):
        name = component.__name__
        if not issubclass(component, Component):
            return f"{name} is a class, and not one of a {kind}"
        return f"{name}: give an instance, {name}({'…' if _needs_arguments(component) else ''})"
    if isinstance(component, Spout):
        return f"{type(component).__name__} is a spout; declare it by topology.spout(name, spout)"
    if isinstance(component, Bolt):
        return f"{type(component).__name__} is a bolt; declare it by topology.bolt(name, bolt, input)"
    if getattr(component, "__name__", "") == LAMBDA:
        return f"a lambda is not a {kind}; {DEFINE}" if wanted is Bolt else "a lambda is not a spout"
    if inspect.isroutine(component) and wanted is Bolt:
        return f"{component.__name__} is a function; make it a bolt by the decorator @bolt"
    name = "None" if component is None else type(component).__name__
    if any(hasattr(component, method) for method in ("process", "execute", "records", "poll")):
        return f"{name} is not a {kind}; derive it from {kind.capitalize()}"
    return f"{name} is not a {kind}"


class _Reading:
    """The reading of one bolt's annotations into a Signature."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.signature = Signature()
        self.bound: Bindings = {}
        self.taken: set[TypeVar] = set()

    def problem(self, code: Code, text: str) -> None:
        self.signature.problems.append(Problem(code, f"{self.name} {text}"))

    def bolt(self, bolt: Any) -> Signature:
        signature = self.signature
        if problem := kind_problem(bolt, Bolt):
            signature.problems.append(problem)
            return signature
        if self.name == LAMBDA:
            signature.problems.append(
                Problem(INVALID_BOLT_METHOD, f"a lambda does not say what it takes and emits; {DEFINE}")
            )
            return signature
        process, execute = _method(bolt, "process"), _method(bolt, "execute")
        if (process is None) == (execute is None):
            found = "neither `process` nor `execute`" if process is None else "both `process` and `execute`"
            self.problem(INVALID_BOLT_METHOD, f"defines {found}; a bolt has one of them")
            return signature
        function, method = (process, "process") if process else (execute, "execute")
        assert function is not None
        self.bound = bindings(bolt, method)
        parameters = _positional(function)
        signature.waits = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        signature.shape = "execute" if execute else "state" if len(parameters) == 2 else "process"
        wanted = (
            "execute(self, tup: Tuple[X], out: Collector[Y]), with Never for Y where nothing goes out"
            if execute
            else "process(self, record: X) -> Iterator[Y], or process(self, record: X, state: State[Z])"
        )
        besides = " besides self"
        if isinstance(bolt, FunctionBolt):
            wanted, besides = f"def {self.name}(record: X) -> Iterator[Y]", ""
        if len(parameters) not in ((2,) if execute else (1, 2)):
            self.problem(
                INVALID_BOLT_METHOD, f"has a `{method}` of {len(parameters)} parameters{besides}; write {wanted}"
            )
            return signature
        hints = typing.get_type_hints(function)
        given = hints.get(parameters[0])
        results = hints.get("return", inspect.Parameter.empty)
        if execute:
            given, results = argument(given, Tuple), argument(hints.get(parameters[1]), Collector)
        if given is None or results is (None if execute else inspect.Parameter.empty):
            self.problem(INVALID_BOLT_METHOD, f"needs annotations; write {wanted}")
            return signature
        self.takes(given)
        if signature.shape == "state":
            self.state(parameters[1], hints.get(parameters[1]))
        if execute:
            signature.waits = signature.waits or _later(hints.get("return"))
            self.classes(results)
        else:
            signature.waits = signature.waits or _later(results)
            self.gives(results)
            if signature.shape == "process" and _is_journalled(bolt):
                signature.shape = "journal"
        if (on_timer := _method(bolt, "on_timer")) is not None:
            self.timer(bolt, on_timer, hints.get(parameters[-1]))
        if (tick := _method(bolt, "tick")) is not None:
            self.tick(bolt, tick)
        return signature

    def takes(self, kind: Any) -> None:
        """Read the class of the first parameter, several classes, or a type variable."""
        takes: list[type[Record]] = []
        for part in union(kind, self.bound):
            if isinstance(part, TypeVar):
                self.taken.add(part)
            accepted = (part,) if not isinstance(part, TypeVar) else part.__constraints__ or (part.__bound__,)
            for record_class in accepted:
                if is_record(record_class):
                    takes.append(record_class)
                elif isinstance(part, TypeVar) or record_class is Record:
                    return
                else:
                    self.problem(INVALID_INPUT_TYPE, f"takes {named(record_class)}, which is not a record class")
                    return
        self.signature.takes = tuple(takes)

    def state(self, parameter: str, kind: Any) -> None:
        """Read the second parameter of `process`."""
        value = argument(kind, State)
        if kind is not State and value is None:
            self.problem(
                INVALID_STATE_TYPE,
                f"takes a second parameter, `{parameter}`, which is its state; annotate it: State[…]",
            )
        elif value not in (None, Any) and not isinstance(value, TypeVar) and (wrong := type_problem(value)):
            self.problem(INVALID_STATE_TYPE, f"keeps a state of a type that can't be stored: {wrong}")

    def _hints(
        self, function: Callable[..., Any], named: str, parameters: int, wanted: str, code: Code
    ) -> dict[str, Any] | None:
        """Return the annotations of a method with so many parameters and a result. Enter a problem if it has others.
        `named`: the method with its article."""
        if (count := len(_positional(function))) != parameters:
            self.problem(code, f"has {named} of {count} parameters besides self; write {wanted}")
            return None
        hints = typing.get_type_hints(function)
        if "return" not in hints:
            self.problem(code, f"needs the annotation of what {named.partition(' ')[2]} gives; write {wanted}")
            return None
        return hints

    def timer(self, bolt: Any, function: Callable[..., Any], state: Any) -> None:
        """Read `on_timer(key, name, state)`: its outputs are streams of the bolt, as those of `process` are. `state`:
        the annotation in `process`."""
        if self.signature.shape != "state":
            wanted = "process(self, record: X, state: State[Z])"
            self.problem(INVALID_ON_TIMER, f"defines `on_timer`, and a timer is a part of the state; write {wanted}")
            return
        wanted = "on_timer(self, key: tuple[Any, ...], name: str, state: State[Z]) -> Iterator[Y]"
        if (hints := self._hints(function, "an `on_timer`", 3, wanted, INVALID_ON_TIMER)) is None:
            return
        results = hints["return"]
        waits = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        if waits or _later(results):
            self.problem(
                INVALID_ON_TIMER, "has an `on_timer` that is async; it is called when a timer is due, and can't wait"
            )
            return
        given = hints.get(_positional(function)[2])
        if given not in (None, Any, State, state) and state is not State:
            text = f"has an `on_timer` of {_said(given)}, and a `process` of {_said(state)}; it is the same state"
            self.problem(INVALID_ON_TIMER, text)
        self.bound = bindings(bolt, "on_timer")
        self.gives(results, "on_timer")

    def tick(self, bolt: Any, function: Callable[..., Any]) -> None:
        """Read `tick(now)`: its outputs are streams of the bolt, too. It may be async even if `process` is not."""
        wanted = "tick(self, now: datetime) -> Iterator[Y], or -> None where it gives nothing"
        if (hints := self._hints(function, "a `tick`", 1, wanted, INVALID_TICK_METHOD)) is None:
            return
        self.bound = bindings(bolt, "tick")
        self.gives(hints["return"], "tick")

    def gives(self, kind: Any, method: str = "process") -> None:
        """Read the result of `process`, `on_timer` or `tick`: iterables of classes, awaitables of them, None."""
        article = "an" if method == "on_timer" else "a"
        for part in union(kind, self.bound):
            origin, args = typing.get_origin(part), typing.get_args(part)
            if part in NOTHING:
                continue
            if origin in LATER:
                self.gives(args[-1], method)
            elif origin is tuple:
                for member in args:
                    if member is not Ellipsis:
                        self.classes(member)
            elif origin in MANY:
                self.classes(args[0])
            elif is_record(part):
                text = f"that gives one {part.__name__}; give an iterable: yield it, or return [record]"
                self.problem(INVALID_PROCESS_RETURN_TYPE, f"has {article} `{method}` {text}")
            else:
                self.problem(
                    INVALID_PROCESS_RETURN_TYPE,
                    f"has {article} `{method}` that gives {named(part)}, which is not an iterable of records",
                )

    def classes(self, kind: Any) -> None:
        """Read the emitted types: classes, or a type variable of the input."""
        signature = self.signature
        for part in union(kind, self.bound):
            if isinstance(part, TypeVar):
                signature.same = signature.same or part in self.taken
                if part not in self.taken:
                    self.problem(
                        INVALID_OUTPUT_TYPE, f"emits {part.__name__}, a type variable that its input does not have"
                    )
            elif is_record(part):
                signature.gives = tuple(dict.fromkeys([*signature.gives, part]))
            elif part not in NOTHING:
                self.problem(INVALID_OUTPUT_TYPE, f"emits {named(part)}; name a record class")


def _spout(spout: Any, name: str) -> tuple[Classes, list[Problem]]:
    if problem := kind_problem(spout, Spout):
        return (), [problem]
    records, poll = _method(spout, "records"), _method(spout, "poll")
    if (records is None) == (poll is None):
        found = "neither `records` nor `poll`" if records is None else "both `records` and `poll`"
        return (), [Problem(INVALID_SPOUT_METHOD, f"{name} defines {found}; a spout has one of them")]
    emits = _method(spout, "emits")
    if emits is not None:
        classes = tuple(emits())
        texts = [
            f"{name} emits {named(record_class)}; name a record class"
            for record_class in classes
            if not is_record(record_class)
        ]
        return tuple(record_class for record_class in classes if is_record(record_class)), [
            Problem(INVALID_SPOUT_METHOD, text) for text in texts
        ]
    function, method = (records, "records") if records else (poll, "poll")
    assert function is not None
    inner = argument(argument(typing.get_type_hints(function).get("return"), *MANY), Message)
    classes = union(inner, bindings(spout, method))
    if not all(map(is_record, classes)):
        wanted = "records(self) -> AsyncIterator[Message[X]]" if records else "poll(self, limit) -> list[Message[X]]"
        text = f"{name} needs an annotation of what it emits: {wanted}, where X is a record class"
        return (), [Problem(INVALID_SPOUT_METHOD, text)]
    return classes, []


def _method(component: Any, name: str) -> Callable[..., Any] | None:
    found = getattr(component, name, None)
    return found if callable(found) else None


def _is_journalled(bolt: Any) -> bool:
    """Return True if its outputs are stored before they are sent (B2). A sink that deduplicates replays emits
    nothing."""
    return bolt.deterministic is False and not getattr(bolt, "drops_replays", False)


def _said(kind: Any) -> str:
    """Return a text like State[int], without the modules."""
    return f"State[{named(value)}]" if (value := argument(kind, State)) is not None else named(kind)


def _positional(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind in kinds]


def _later(kind: Any) -> bool:
    """Return True if a result of this type is awaited, or iterated by `async for`."""
    return any(typing.get_origin(part) in ASYNC for part in union(kind, {}))


def _needs_arguments(cls: type) -> bool:
    parameters = inspect.signature(cls).parameters.values()
    return any(
        parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in parameters
    )


def _unreadable(component: Any, error: Exception) -> Problem:
    first = str(error).partition("\n")[0]
    how = "has annotations that can't be resolved" if isinstance(error, NameError) else "can't be read"
    kind = "" if isinstance(error, NameError) else f"{type(error).__name__}: "
    return Problem(COMPONENT_INSPECTION_RAISED, f"{called(component)} {how}: {kind}{first}")
