"""What the annotations of a component say: which record classes it takes in and gives out, and how it is called.

Pure: reads annotations, runs nothing. What can't be read is returned as a sentence, never raised; `graph` collects it.
"""

import inspect
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass, field
from typing import Any, Literal, Never, NoReturn, TypeVar

from topology.components import Collector, Message, Tuple
from topology.records import Record

Shape = Literal["process", "state", "execute"]
Classes = tuple[type[Record], ...]

_MANY = frozenset(
    [Iterable, Iterator, Generator, AsyncIterable, AsyncIterator, AsyncGenerator, Sequence, Collection, list, frozenset]
)
_LATER = frozenset([Awaitable, Coroutine])
_NOTHING = (None, type(None), Never, NoReturn)


@dataclass
class Signature:
    """What a bolt's annotations say. `takes` is empty where any record will do; `problems` are whole sentences."""

    shape: Shape = "process"
    takes: Classes = ()
    gives: Classes = ()
    same: bool = False  # gives what it takes, because its annotation is a type variable
    waits: bool = False  # async
    problems: list[str] = field(default_factory=list)


def of_bolt(bolt: Any) -> Signature:
    """Reads `process` or `execute` of a bolt (an instance)."""
    name = type(bolt).__name__
    process, execute = _method(bolt, "process"), _method(bolt, "execute")
    if (process is None) == (execute is None):
        found = "neither `process` nor `execute`" if process is None else "both `process` and `execute`"
        return Signature(problems=[f"{name} defines {found}: a bolt has one of them"])
    function = process or execute
    assert function is not None
    parameters = _positional(function)
    signature = Signature(waits=_is_async(function))
    allowed: tuple[int, ...] = (1, 2)
    if execute:
        signature.shape, allowed = "execute", (2,)
    elif len(parameters) == 2:
        signature.shape = "state"
    if len(parameters) not in allowed:
        wanted = "execute(self, tup, out)" if execute else "process(self, record) or process(self, record, state)"
        signature.problems.append(f"{name}: write {wanted}; it has {len(parameters)} parameters besides self")
        return signature
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError) as error:
        signature.problems.append(f"{name}: the annotations of `{function.__name__}` can't be resolved: {error}")
        return signature
    given = hints.get(parameters[0].name)
    if execute:
        given = _argument(given, Tuple)
        results = _argument(hints.get(parameters[1].name), Collector)
        missing = (
            f"{name}: annotate `execute(self, tup: Tuple[X], out: Collector[Y])`, with Never where nothing goes out"
        )
    else:
        results = hints.get("return", inspect.Parameter.empty)
        missing = f"{name}: annotate what `process` takes and gives: process(self, record: X) -> Iterator[Y]"
    if given is None or results is inspect.Parameter.empty:
        signature.problems.append(missing)
        return signature
    _read_input(signature, name, given)
    _read_output(signature, name, results)
    return signature


def of_spout(spout: Any) -> tuple[Classes, list[str]]:
    """The record classes of a spout (an instance), read from `records` or `poll`, and what is wrong with it."""
    name = type(spout).__name__
    records, poll = _method(spout, "records"), _method(spout, "poll")
    if (records is None) == (poll is None):
        found = "neither `records` nor `poll`" if records is None else "both `records` and `poll`"
        return (), [f"{name} defines {found}: a spout has one of them"]
    emits = getattr(spout, "emits", None)
    if emits is not None:
        return tuple(emits()), []
    function = records or poll
    assert function is not None
    try:
        result = typing.get_type_hints(function).get("return")
    except (NameError, TypeError) as error:
        return (), [f"{name}: the annotations of `{function.__name__}` can't be resolved: {error}"]
    inner = _argument(_argument(result, *_MANY), Message)
    if not isinstance(inner, type) or not issubclass(inner, Record):
        wanted = "records(self) -> AsyncIterator[Message[X]]" if records else "poll(self, limit) -> list[Message[X]]"
        return (), [f"{name}: annotate what it emits: {wanted}, where X is a record class"]
    return (inner,), []


def _method(component: Any, name: str) -> Callable[..., Any] | None:
    found = getattr(component, name, None)
    return found if callable(found) else None


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter for parameter in inspect.signature(function).parameters.values() if parameter.kind in kinds]


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _argument(kind: Any, *origins: Any) -> Any:
    """X of an `Origin[X]`; None where `kind` is not one of these."""
    args = typing.get_args(kind)
    return args[0] if args and typing.get_origin(kind) in origins else None


def _read_input(signature: Signature, name: str, kind: Any) -> None:
    for part in _union(kind):
        if isinstance(part, TypeVar) or part is Record:
            signature.takes = ()
            return
        if not isinstance(part, type) or not issubclass(part, Record):
            signature.problems.append(f"{name}: takes {_name(part)}, which is not a record class")
            return
        signature.takes = (*signature.takes, part)


def _read_output(signature: Signature, name: str, kind: Any) -> None:
    for part in _union(kind):
        origin, args = typing.get_origin(part), typing.get_args(part)
        if part in _NOTHING:
            continue
        if origin in _LATER:
            _read_output(signature, name, args[-1])
        elif signature.shape != "execute" and (origin in _MANY or origin is tuple):
            inner = [one for one in args if one is not Ellipsis] if origin is tuple else args[:1]
            for one in inner:
                _read_classes(signature, name, one)
        elif signature.shape == "execute":
            _read_classes(signature, name, part)
        elif isinstance(part, type) and issubclass(part, Record):
            signature.problems.append(
                f"{name}: `process` gives one {part.__name__}; give an iterable of them: yield it, or return [record]"
            )
        else:
            signature.problems.append(f"{name}: `process` gives {_name(part)}, which is not an iterable of records")


def _read_classes(signature: Signature, name: str, kind: Any) -> None:
    for part in _union(kind):
        if isinstance(part, TypeVar):
            signature.same = True
        elif part in _NOTHING:
            continue
        elif isinstance(part, type) and issubclass(part, Record) and part is not Record:
            if part not in signature.gives:
                signature.gives = (*signature.gives, part)
        else:
            signature.problems.append(f"{name}: emits {_name(part)}, which is not a record class")


def _union(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
