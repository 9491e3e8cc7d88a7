"""Every mistake of a declaration, in one pass. Pure: reads the graph, changes nothing, raises nothing.

This file checks each component alone; `inputs` checks subscriptions. `signatures` and `graph` find problems while the
graph is declared, and pass them on in `Declared.problems`.
"""

import copy
import inspect
import re
from collections.abc import Iterator
from typing import Final

from topology import plan
from topology.checks import inputs, instance_state
from topology.codes.declarations import (
    DEAD_LETTERS_NEVER_SENT,
    DUPLICATE_COMPONENT_NAME,
    DUPLICATE_STREAM_NAME,
    HOLDS_MAX_TOO_LARGE,
    INCOMPATIBLE_BOLT_OPTIONS,
    INVALID_BEGINS_EMPTY,
    INVALID_COMPANION,
    INVALID_CONFIG,
    INVALID_ENDS_LAST,
    INVALID_GIVEN_AGAIN,
    INVALID_NAME,
    INVALID_ORDER_MATTERS,
    INVALID_PARALLELISM,
    INVALID_RECOVERY,
    INVALID_RENAMED_FROM,
    INVALID_SPOUT_READ_OPTION,
    NO_SPOUT,
    STATE_IN_BOLT_ATTRIBUTE,
    TOPOLOGY_CYCLE,
    UNCOPYABLE_COMPONENT,
    UNREAD_SPOUT,
    UNSERIALIZABLE_FIELD_TYPE,
)
from topology.companions import Companion
from topology.components import Bolt, Spout
from topology.config import Config
from topology.errors import DeclarationError, Mistake, Problem, did_you_mean
from topology.graph import Declared, Graph, Place
from topology.groupings import SLOTS
from topology.records import is_record, record_problems
from topology.signatures import called, takes_many_records

# also the name of a folder, a table and a metric: no other characters are allowed (S6)
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
TASKS_MAX: Final = SLOTS  # a task without a slot would never get a key
RECOVERIES: Final = ("checkpoint", "replay", "none")
GIVEN_AGAIN: Final = ("same", "other ids", "never")
ORDERS: Final = ("always", "inputs", "never")
CONCURRENCY_MAX: Final = 10_000  # concurrent inputs of one task: each is an asyncio task


def require_valid(topology: Graph) -> None:
    """Raise DeclarationError with every mistake of the declaration; return if there is none."""
    if found := mistakes(topology):
        raise DeclarationError(topology.name, found)


def mistakes(topology: Graph) -> list[Mistake]:
    """Return all mistakes, in the order of the source."""
    found = [(topology.place, problem) for problem in _of_topology(topology)]
    named: dict[str, Declared] = {}
    seen: set[type] = set()
    for component in topology.components:
        name = f"{component.name!r:.80}"
        found += [(component.place, problem.of(name)) for problem in _of_component(component, topology, named, seen)]
        found += [(place, problem.of(name)) for place, problem in inputs.problems(component, topology)]
    found += _cycles(topology)
    found += [(place, Problem(INVALID_COMPANION, text)) for place, text in _companion_problems(topology)]
    return _in_order([topology.mistake(problem, place) for place, problem in found])


def warnings(topology: Graph) -> list[Mistake]:
    """Return warnings: declarations that are valid, but give wrong results after a replay because a bolt has state in
    attributes (B4).

    For `kedge check`. A topology that tracks no trees replays nothing, so it has no such bolt. It has no dead letters
    either, so subscribers to dead letters are warned about instead.
    """
    config: object = topology.config
    if not isinstance(config, Config):
        return []
    if config.guarantee == "at-most-once":
        return _in_order(
            [
                topology.mistake(
                    Problem(
                        DEAD_LETTERS_NEVER_SENT,
                        f"{component.name!r:.80} gets no dead letters: with guarantee='at-most-once' no message is "
                        "tracked",
                    ),
                    read.place,
                )
                for component in topology.components
                for read in component.inputs
                if read.dead
            ]
        )
    found = []
    for component in topology.components:
        found += [
            topology.mistake(
                Problem(
                    STATE_IN_BOLT_ATTRIBUTE,
                    f"{component.name!r:.80}: {called(component.prototype)} keeps self.{name} from record to record: "
                    "a replay counts twice in it, and a restart forgets it; keep it as process(self, record, state: "
                    "State[…])",
                ),
                component.place,
            )
            for name in instance_state.kept(component)
        ]
    return _in_order(found)


def _in_order(found: list[Mistake]) -> list[Mistake]:
    """Return the mistakes by line within each file; files are in the order of their first mistake."""
    files = list(dict.fromkeys(mistake.file for mistake in found))
    return sorted(found, key=lambda mistake: (files.index(mistake.file), mistake.line))


def _of_topology(topology: Graph) -> Iterator[Problem]:
    yield from _name_problems(topology.name, "the topology's")
    config: object = topology.config
    if not isinstance(config, Config):
        yield Problem(INVALID_CONFIG, f"config is a Config(…), not a {type(config).__name__}")
    if not any(component.kind == "spout" for component in topology.components):
        text = 'it has no spout, so nothing would ever happen; declare one: topology.spout("lines", FileTail(path))'
        yield Problem(NO_SPOUT, text)


def _of_component(one: Declared, topology: Graph, named: dict[str, Declared], seen: set[type]) -> Iterator[Problem]:
    """Yield the problems of one component. Adds it to `named`, and its record classes to `seen`."""
    if impossible := [*_name_problems(one.name, "its")]:
        yield from impossible
    elif one.name in named:
        where = _where(named[one.name].place, one.place)
        yield Problem(DUPLICATE_COMPONENT_NAME, f"a component of this name is declared already, {where}")
    else:
        named[one.name] = one
    yield from _renaming_problems(one, topology)
    yield from one.problems
    yield from _number_problems(one)
    if isinstance(one.prototype, Bolt) and one.kind == "bolt":
        yield from (Problem(INCOMPATIBLE_BOLT_OPTIONS, text) for text in _bolt_problems(one))
        yield from _state_problems(one, topology.config)
        yield from _copy_problems(one)
    if isinstance(one.prototype, Spout) and one.kind == "spout":
        yield from _spout_problems(one)
        yield from _copy_problems(one)
    yield from _class_problems(one, seen)
    if one.kind == "spout" and not any(
        read.component == one.name and read.topology is topology and not read.dead
        for reader in topology.components
        for read in reader.inputs
    ):
        text = f"no bolt reads this spout; pass one of its streams to a bolt, for example {one.name!s:.80}.shuffle()"
        yield Problem(UNREAD_SPOUT, text)


def _renaming_problems(one: Declared, topology: Graph) -> Iterator[Problem]:
    """Yield problems of renaming. Stored data is filed under the former name, so no two components may share one."""
    former = one.renamed_from
    if one.begins_empty:
        if former is not None:
            yield Problem(
                INVALID_BEGINS_EMPTY, f"begins_empty=True and renamed_from={former!r:.80} contradict each other"
            )
        elif one.begins_empty is not True or not (one.shape == "state" and one.prototype.recovery == "checkpoint"):
            yield Problem(
                INVALID_BEGINS_EMPTY, f"begins_empty={one.begins_empty!r:.80}: True is for a bolt whose state is kept"
            )
    if former is None:
        return
    if impossible := [*_name_problems(former, "its former")]:
        yield from (Problem(INVALID_RENAMED_FROM, f"renamed_from: {problem}") for problem in impossible)
        return
    if former == one.name:
        yield Problem(INVALID_RENAMED_FROM, f"renamed_from={former!r} is the name that it has; leave it out")
    for other in topology.components:
        if other is one:
            continue
        if other.name == former:
            text = f"renamed_from={former!r}: a component of this name is declared, {_where(other.place, one.place)}"
            yield Problem(INVALID_RENAMED_FROM, f"{text}, and the data stored under this name belongs to it")
        elif other.renamed_from == former:
            where = _where(other.place, one.place)
            yield Problem(
                INVALID_RENAMED_FROM, f"renamed_from={former!r}: {other.name!r:.80} has the same former name, {where}"
            )


def _name_problems(name: object, whose: str) -> Iterator[Problem]:
    if not isinstance(name, str):
        yield Problem(INVALID_NAME, f"{whose} name is a text, not {type(name).__name__}")
    elif not NAME.fullmatch(name):
        better = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:64]
        hint = f", like {better!r}" if better else ""
        text = f"{whose} name {name!r:.80} is not possible; a name is 1 to 64 of A-Z a-z 0-9 _ and -{hint}"
        yield Problem(INVALID_NAME, text)


def _number_problems(one: Declared) -> Iterator[Problem]:
    for what, value, most in (("tasks", one.tasks, TASKS_MAX), ("concurrency", one.concurrency, CONCURRENCY_MAX)):
        if type(value) is not int or not 1 <= value <= most:
            yield Problem(INVALID_PARALLELISM, f"{what} is a whole number from 1 to {most:,}, not {value!r:.80}")


_NO_THREAD = {
    "execute": "it has `execute`, which works with the loop",
    "state": "it has state, which changes on the loop",
    "journal": "deterministic = False has its outputs kept on the loop",
}


_NOT_MANY = {
    "execute": "has `execute`",
    "state": "has state, which each input finds as the one before has left it",
    "journal": "deterministic is False",
}


def _bolt_problems(one: Declared) -> Iterator[str]:
    """Yield conflicts between a bolt whose annotations are readable and its options."""
    name = called(one.prototype)
    method = "execute" if one.shape == "execute" else "process"
    sync = hasattr(one.prototype, method) and not one.waits
    if type(one.concurrency) is int and one.concurrency > 1 and sync and one.prototype.blocking is not True:
        yield (
            f"concurrency={one.concurrency} lets inputs wait side by side, and the `{method}` of {name} never waits; "
            f"write async def {method}, or leave concurrency out"
        )
    if one.prototype.blocking is True and one.readable and (one.shape != "process" or one.waits):
        what = "is async" if one.waits else _NO_THREAD[one.shape]
        yield (
            f"{name}.blocking is True, and {what}: only a plain `process(record)` can run in a thread; leave "
            "blocking out, or move the blocking part into a bolt of its own before this one"
        )
    if one.readable and takes_many_records(one.prototype):
        many = one.prototype.process_many
        is_async = one.waits or inspect.iscoroutinefunction(many) or inspect.isasyncgenfunction(many)
        if one.shape != "process" or one.prototype.blocking is True or is_async:
            what = "is async" if is_async else _NOT_MANY.get(one.shape, "blocking is True")
            yield (
                f"{name} defines `process_many`, and {what}: it is for a plain `process(record)` only; rename it, or "
                "move it into a bolt of its own"
            )
    ticks = callable(getattr(one.prototype, "tick", None))
    if one.every is None and ticks:
        yield f'{name} defines `tick`, but `every` is missing; pass every="10s"'
    elif one.every is not None:
        if not ticks:
            yield f"every={one.every!r:.80} calls tick(self, now), which {name} does not define"
        try:
            plan.seconds(one.every)
        except ValueError as error:
            yield f"every: {error}"
    for option in ("deterministic", "fires_at_end", "may_be_split", "remembers", "blocking"):
        if type(value := getattr(one.prototype, option)) is not bool:
            yield f"{name}.{option} is True or False, not {value!r:.80}"
    if one.prototype.remembers is True and one.readable and one.shape != "execute":
        yield f"{name}.remembers is True, and only a bolt with `execute` remembers its inputs itself; leave it out"


def _state_problems(one: Declared, config: object) -> Iterator[Problem]:
    """Yield problems of the state's recovery, and of the inputs that the bolt holds for it (A19)."""
    name, recovery, holds_max = called(one.prototype), one.prototype.recovery, one.prototype.holds_max
    if recovery not in RECOVERIES:
        hint = did_you_mean(recovery, RECOVERIES) if isinstance(recovery, str) else ""
        yield Problem(
            INVALID_RECOVERY, f"{name}.recovery is one of {', '.join(RECOVERIES)}, not {recovery!r:.80}{hint}"
        )
    elif recovery != "checkpoint" and one.shape != "state" and one.readable:
        text = f"{name}.recovery is {recovery!r}, but it keeps no state; leave recovery out"
        yield Problem(INVALID_RECOVERY, text)
    if type(holds_max) is not int or holds_max < 1:
        yield Problem(HOLDS_MAX_TOO_LARGE, f"{name}.holds_max is a whole number of at least 1, not {holds_max!r:.80}")
        holds_max = 0
    if (order := one.prototype.order_matters) not in ORDERS:
        hint = did_you_mean(order, ORDERS) if isinstance(order, str) else ""
        text = f"{name}.order_matters is one of {', '.join(ORDERS)}, not {order!r:.80}{hint}"
        yield Problem(INVALID_ORDER_MATTERS, text)
    if recovery == "replay" and hasattr(one.prototype, "on_timer"):
        text = f"{name}.recovery is 'replay', which rebuilds a state from inputs, and no input sets its timers again"
        yield Problem(INVALID_RECOVERY, f"{text}; leave recovery out")
    if recovery != "replay" or not isinstance(config, Config):
        return
    if config.guarantee == "at-most-once":
        text = f"{name}.recovery is 'replay', and with guarantee='at-most-once' nothing is replayed"
        yield Problem(INVALID_RECOVERY, f"{text}; make it 'none'")
    elif (most := holds_max * one.tasks) >= config.max_pending:
        yield Problem(
            HOLDS_MAX_TOO_LARGE,
            f"{name} may hold {most:,} inputs (holds_max), and its spouts have at most {config.max_pending:,} "
            f"in flight (max_pending): they would wait for each other forever; make holds_max smaller",
        )


def _spout_problems(one: Declared) -> Iterator[Problem]:
    given = one.prototype.given_again
    if given not in GIVEN_AGAIN:
        hint = did_you_mean(given, GIVEN_AGAIN) if isinstance(given, str) else ""
        text = f"{called(one.prototype)}.given_again is one of {', '.join(GIVEN_AGAIN)}, not {given!r:.80}{hint}"
        yield Problem(INVALID_GIVEN_AGAIN, text)
    if type(last := one.prototype.ends_last) is not bool:
        yield Problem(INVALID_ENDS_LAST, f"{called(one.prototype)}.ends_last is True or False, not {last!r:.80}")
    if type(shared := one.prototype.shared_ids) is not bool:
        yield Problem(
            INVALID_SPOUT_READ_OPTION, f"{called(one.prototype)}.shared_ids is True or False, not {shared!r:.80}"
        )
    if type(ahead := one.prototype.reads_ahead) is not int or ahead < 1:
        yield Problem(
            INVALID_SPOUT_READ_OPTION,
            f"{called(one.prototype)}.reads_ahead is a whole number from 1 on, not {ahead!r:.80}",
        )


def _companion_problems(topology: Graph) -> Iterator[tuple[Place, str]]:
    """Yield the problems of the companions."""
    named: dict[str, Place] = {}
    for companion, place in zip(topology.companions, topology.companion_places, strict=True):
        given: object = companion
        if not isinstance(given, Companion):
            yield place, f"a {type(given).__name__} is no companion; pass an instance of a Companion subclass"
            continue
        name: object = getattr(companion, "name", None)
        if impossible := [*_name_problems(name, "a companion's")]:
            yield from ((place, str(problem)) for problem in impossible)
        elif companion.name in named:
            yield place, f"a companion {companion.name!r} is declared already, {_where(named[companion.name], place)}"
        named.setdefault(companion.name if isinstance(name, str) else "", place)
        seconds: object = companion.starting_s
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < float("inf"):
            yield place, f"{called(companion)}.starting_s is a number of seconds above 0, not {seconds!r:.80}"


def _copy_problems(one: Declared) -> Iterator[Problem]:
    """Yield a problem if the prototype cannot be copied: each task gets a copy of the object given to the topology."""
    try:
        copy.deepcopy(one.prototype)
    except Exception as error:
        culprits = [name for name, value in vars(one.prototype).items() if not _copies(value)]
        which = f"its attribute {culprits[0]!r}" if culprits else called(one.prototype)
        text = f"{which} can't be copied for each task ({type(error).__name__}: {error})"
        yield Problem(UNCOPYABLE_COMPONENT, f"{text}; take resources in `open`, not in the constructor")


def _copies(value: object) -> bool:
    try:
        copy.deepcopy(value)
    except Exception:
        return False
    return True


def _class_problems(one: Declared, seen: set[type]) -> Iterator[Problem]:
    """Yield the problems of the record classes that it emits; each class is reported once."""
    names: dict[str, type] = {}
    for cls in one.streams:
        if names.setdefault(cls.__name__, cls) is not cls:
            text = (
                f"it emits two classes called {cls.__name__}, of {names[cls.__name__].__module__} and of "
                f"{cls.__module__}; streams are distinguished by this name, so rename one"
            )
            yield Problem(DUPLICATE_STREAM_NAME, text)
        if cls not in seen and is_record(cls):
            seen.add(cls)
            yield from _name_problems(cls.__name__, f"the record class {cls.__name__:.80}: its")
            yield from (Problem(UNSERIALIZABLE_FIELD_TYPE, text) for text in record_problems(cls))


def _cycles(topology: Graph) -> list[tuple[Place, Problem]]:
    """Return one mistake per cycle. Handles cannot make a cycle, because the inputs of a bolt are declared before it.
    An Input that a user constructs can."""
    reads = {
        component.name: {read.component for read in component.inputs if isinstance(read.component, str)}
        for component in topology.components
        if isinstance(component.name, str)
    }
    places = {component.name: component.place for component in topology.components if isinstance(component.name, str)}
    if len(reads) < len(topology.components):
        return []  # a duplicate or missing name is reported already, and hides cycles
    found = []
    reported: set[str] = set()
    for name in reads:
        cycle = _cycle(name, reads)
        if cycle and reported.isdisjoint(cycle):
            reported.update(cycle)
            way = " → ".join([*cycle, name])
            what = f"a cycle, {way}" if len(cycle) > 1 else f"{name!r:.80} reads what it emits itself"
            text = f"{what}, so tuples would go round for ever; {TOPOLOGY_CYCLE.next.rstrip('.')}"
            found.append((places[name], Problem(TOPOLOGY_CYCLE, text)))
    return found


def _cycle(start: str, reads: dict[str, set[str]]) -> list[str]:
    """Return a shortest path of tuples from `start` back to it; empty if there is none."""
    ways = [[start]]
    met: set[str] = set()
    for way in ways:
        for source in sorted(reads.get(way[0], ())):
            if source == start:
                return [start, *way[:-1]]
            if source not in met:
                met.add(source)
                ways.append([source, *way])
    return []


def _where(place: Place, seen_from: Place) -> str:
    return f"in line {place.line}" if place.file == seen_from.file else f"in {place.file}:{place.line}"
