"""Problems of a bolt's inputs: the stream, the grouping, its fields, and their relation to the bolt's state.

A part of `declaration`, and as pure: reads the graph, changes nothing, raises nothing.
"""

import typing
from collections.abc import Iterator
from types import UnionType
from typing import Any

from topology.codes.declarations import (
    DEAD_LETTERS_OF_BOLT,
    DUPLICATE_INPUT_STREAM,
    INCOMPATIBLE_GROUPING,
    INVALID_CUSTOM_GROUPING,
    INVALID_GROUPING_FIELDS,
    MISMATCHED_STATE_KEYS,
    RESERVED_DEAD_LETTER_NAME,
    UNKNOWN_INPUT_STREAM,
)
from topology.dead_letters import DeadLetter
from topology.errors import Problem, did_you_mean
from topology.graph import Declared, Graph, Input, Place
from topology.groupings import (
    All,
    ByIdentity,
    Custom,
    Direct,
    Fields,
    Global,
    Grouping,
    LocalOrShuffle,
    PartialKey,
    Shuffle,
)
from topology.records import Record, field_types, is_record, type_problem
from topology.signatures import called

REPLAYED_ALIKE = (Shuffle, LocalOrShuffle, ByIdentity, Fields, Global)  # the plan replaces the first two by ByIdentity
KEYED = (Fields, Global)
BUILT_IN = (All, ByIdentity, Custom, Direct, Fields, Global, LocalOrShuffle, PartialKey, Shuffle)


def problems(bolt: Declared, topology: Graph) -> Iterator[tuple[Place, Problem]]:
    """Yield the place and the sentence of each problem of the inputs, one by one and together."""
    keys: list[tuple[Input[Any], list[Any]]] = []
    yield from _read_twice(bolt, topology)
    for source in bolt.inputs:
        wrong = [
            *(Problem(INVALID_GROUPING_FIELDS, text) for text in _of_fields(source)),
            *_of_grouping(source, bolt, topology),
        ]
        of_dead = [*_of_dead(source, topology)] if source.dead else []
        for problem in (
            *of_dead,
            *(Problem(UNKNOWN_INPUT_STREAM, text) for text in _of_stream(source, bolt, topology)),
            *wrong,
        ):
            yield source.place, problem.of(said(source))
        if bolt.shape == "state" and isinstance(source.grouping, KEYED) and is_record(source.cls) and not wrong:
            types = _field_types(source.cls) or {}
            names = source.grouping.keys()
            keys.append((source, [types[name] for name in names if name in types]))
    yield from _of_keys(keys)


def _read_twice(bolt: Declared, topology: Graph) -> Iterator[tuple[Place, Problem]]:
    """Yield a problem for each stream that two inputs of a bolt read.

    Both deliveries of a record would have one identity. So the bolt's outputs for them would have one identity and one
    edge, twice: the edges cancel, and the tree completes too early (A18).
    """
    first: dict[tuple[str, type[Record], bool], Input[Any]] = {}
    for source in bolt.inputs:
        if source.topology is not topology or not is_record(source.cls) or not isinstance(source.component, str):
            continue  # reported by _of_stream
        stream = source.component, source.cls, source.dead
        if stream in first:
            text = (
                f"it reads this stream already, by {said(first[stream])}, and can't tell the two deliveries of a "
                f"record apart; keep one of the two, or declare a second bolt for the other"
            )
            yield source.place, Problem(DUPLICATE_INPUT_STREAM, text).of(said(source))
        first.setdefault(stream, source)


def said(one: Input[Any]) -> str:
    """Return an input as its user wrote it, by the names of components: `parse[Failure].fields('source_ip')`."""
    if one.dead:
        return f"{one.component!s:.80}.dead.{one.grouping!s:.200}"
    several = sum(len(declared.streams) for declared in one.topology.components if declared.name == one.component) > 1
    chosen = f"[{one.cls.__name__}]" if several and is_record(one.cls) else ""
    return f"{one.component!s:.80}{chosen}.{one.grouping!s:.200}"


def _of_dead(one: Input[Any], topology: Graph) -> Iterator[Problem]:
    """Yield problems of dead letters: only a spout has them, and a stream of a class DeadLetter would be mistaken for
    them."""
    for emitter in (declared for declared in topology.components if declared.name == one.component):
        if emitter.kind != "spout":
            yield Problem(
                DEAD_LETTERS_OF_BOLT,
                f"{one.component!r} is a bolt, and only spouts have dead letters; a message that fails in a bolt "
                f"becomes a dead letter of its spout: use {_spout_above(one.component, topology)}.dead",
            )
        elif any(cls.__name__ == DeadLetter.__name__ for cls in emitter.streams):
            text = f"{one.component!r} emits a class called DeadLetter itself; rename that class"
            yield Problem(RESERVED_DEAD_LETTER_NAME, text)


def _spout_above(name: str, topology: Graph) -> str:
    """Return a spout whose tuples reach this bolt."""
    seen, waiting = {name}, [name]
    for at in waiting:
        for declared in (component for component in topology.components if component.name == at):
            if declared.kind == "spout":
                return declared.name
            above = dict.fromkeys(read.component for read in declared.inputs if read.component not in seen)
            seen.update(above)
            waiting += above
    return "lines"


def _of_stream(one: Input[Any], bolt: Declared, topology: Graph) -> Iterator[str]:
    """Yield problems of the stream: its topology, its existence, and the classes that the bolt takes."""
    if one.topology is not topology:
        yield f"it is a stream of another topology, {one.topology.name!r:.80}"
        return
    emitters = [declared for declared in topology.components if declared.name == one.component]
    if not emitters:
        names = [declared.name for declared in topology.components if isinstance(declared.name, str)]
        yield f"there is no component of this name{did_you_mean(str(one.component), names)}"
        return
    emitter, emitted = emitters[0], [cls for declared in emitters for cls in declared.streams]
    if one.dead:
        emitted = [DeadLetter]
    if not all(declared.readable for declared in emitters) and one.cls not in emitted:
        return  # its streams are unknown until its own mistakes are fixed
    choices = " or ".join(f"{emitter.name}[{cls.__name__}]" for cls in emitted)
    if one.cls is None:
        yield f"it emits several classes; choose one: {choices}" if emitted else "it emits nothing that could be read"
        return
    if one.cls not in emitted:
        name = getattr(one.cls, "__name__", None) or str(one.cls)
        known = {cls.__name__: cls for cls in emitted}
        if name in known and isinstance(one.cls, type):
            yield f"it emits another class called {name}, of {known[name].__module__}, not of {one.cls.__module__}"
        elif name in known:
            yield f"a stream is chosen by its class, {emitter.name}[{name}], not by a text"
        else:
            hint = did_you_mean(name, known)
            if one.cls is DeadLetter and emitter.kind == "spout":
                hint = f"; its dead letters are {emitter.name}.dead"
            yield f"it emits no {name:.80}" + (hint or f"; it emits {', '.join(known) or 'nothing that could be read'}")
        return
    if bolt.takes and not issubclass(one.cls, bolt.takes):
        wanted = " or ".join(cls.__name__ for cls in bolt.takes)
        better = [cls.__name__ for cls in emitted if issubclass(cls, bolt.takes)]
        hint = f"; did you mean {emitter.name}[{better[0]}]?" if better else ""
        yield f"{called(bolt.prototype)} takes {wanted}, not {one.cls.__name__}{hint}"


def _of_fields(one: Input[Any]) -> Iterator[str]:
    """Yield problems of the fields that a grouping names."""
    if not isinstance(one.grouping, Fields | PartialKey):
        return
    names: tuple[object, ...] = one.grouping.keys()
    if not names:
        yield "name the fields whose values are the key; for one task that gets everything, use global_()"
    for name in dict.fromkeys(name for name in names if isinstance(name, str) and names.count(name) > 1):
        yield f"{name!r:.80} is named twice"
    types = _field_types(one.cls) if is_record(one.cls) else None
    yield from (
        f"a field is named by a text, not by {type(name).__name__}" for name in names if not isinstance(name, str)
    )
    for name in (name for name in names if isinstance(name, str)):
        if types is not None and name not in types:
            assert one.cls is not None
            hint = did_you_mean(name, types) or f"; it has {', '.join(types) or 'none'}"
            yield f"{one.cls.__name__} has no field {name!r:.80}{hint}"
        elif types is not None and (problem := type_problem(types[name])):
            yield f"{name!r} can't be a key: {problem}"


def _of_grouping(one: Input[Any], bolt: Declared, topology: Graph) -> Iterator[Problem]:
    """Yield problems of the grouping itself, and of the bolt and the emitter with it."""
    grouping = one.grouping
    if not isinstance(grouping, BUILT_IN):
        wrong = ["choose a grouping by a method of the stream; your own comes by custom(…)"]
    else:
        wrong = [*_of_custom(grouping.prototype)] if isinstance(grouping, Custom) else []
        yield from (Problem(INCOMPATIBLE_GROUPING, text) for text in _of_ends(one, bolt, topology))
    yield from (Problem(INVALID_CUSTOM_GROUPING, text) for text in wrong)


def _of_ends(one: Input[Any], bolt: Declared, topology: Graph) -> Iterator[str]:
    """Yield problems of the bolt and of the emitter with this grouping."""
    grouping = one.grouping
    name = called(bolt.prototype)
    if bolt.shape == "state" and not isinstance(grouping, KEYED):
        yield (
            f"{name} keeps state, but a replay may reach a task without that state; use fields(…), whose "
            f"values become the state's key, or global_()"
        )
    elif getattr(bolt.prototype, "deterministic", True) is False and not isinstance(grouping, REPLAYED_ALIKE):
        yield (
            f"{name} is not deterministic, so a replay must reach the same task as before; use "
            f"shuffle(), fields(…) or global_()"
        )
    if isinstance(grouping, Direct):
        emitters = [declared for declared in topology.components if declared.name == one.component]
        if any(declared.kind == "spout" for declared in emitters):
            yield "a spout can't name the task that a record goes to; use another grouping"
        elif any(declared.shape != "execute" and declared.readable for declared in emitters):
            yield f"the task is named in `execute`, by out.emit(record, task=n), and {one.component!r} has a `process`"


def _of_custom(grouping: Any) -> Iterator[str]:
    if isinstance(grouping, type):
        yield f"give an instance, {grouping.__name__}()"
    elif isinstance(grouping, BUILT_IN):
        yield f"this grouping is a method of the stream: {grouping}"
    elif not isinstance(grouping, Grouping):
        yield f"{type(grouping).__name__} does not derive from Grouping"
    elif type(grouping).choose is Grouping.choose:
        yield f"{type(grouping).__name__} defines no `choose(self, record, tasks)`"


def _of_keys(keys: list[tuple[Input[Any], list[Any]]]) -> Iterator[tuple[Place, Problem]]:
    """Yield problems of a state's inputs that disagree about its key: equal values of different types are different
    keys (D8)."""
    for source, types in keys[1:]:
        first, expected = keys[0]
        if len(types) != len(expected):
            text = (
                f"the state's key has {_fields(len(types))} here and {_fields(len(expected))} by {said(first)}; they "
                f"must agree"
            )
        elif [key_parts(kind) for kind in types] != [key_parts(kind) for kind in expected]:
            here, there = (" and ".join(map(_name, each)) for each in (types, expected))
            text = (
                f"the state's key is {here} here and {there} by {said(first)}; 1, 1.0, True and '1' are different "
                f"keys, so the types must agree"
            )
        else:
            continue
        yield source.place, Problem(MISMATCHED_STATE_KEYS, text).of(said(source))


def key_parts(kind: Any) -> Any:
    """Return a value that is equal for field types with the same keys: `X | None` is X, a Literal is the types of its
    values."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return key_parts(args[0])
    if origin is typing.Literal:
        return frozenset(type(value) for value in args) - {type(None)}
    if origin in (typing.Union, UnionType):
        return frozenset().union(*map(key_parts, args)) - {type(None)}
    if origin in (tuple, frozenset):
        return frozenset([(origin, *(part if part is Ellipsis else key_parts(part) for part in args))])
    return frozenset([kind])


def _field_types(cls: type[Record]) -> dict[str, Any] | None:
    """Return the fields of a class; None if its annotations cannot be resolved, which is reported with the class."""
    try:
        return field_types(cls)
    except Exception:  # an annotation in quotes is the user's code, and may raise anything
        return None


def _fields(count: int) -> str:
    return "no field" if count == 0 else "1 field" if count == 1 else f"{count} fields"


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
