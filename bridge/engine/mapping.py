"""Which part of a topology runs where on Spark: stages of bolts, what each is fed by, and what can't be mapped at all.

One row is one delivery, and all of them are in one DataFrame, which passes one stage after the other: a row for a bolt
of a later stage only passes. So each bolt runs once, however many bolts read it, and all sinks are one query. A stage
begins where rows have to be brought together by their keys; what shuffles feed runs in the stage of its emitters. What
emits nothing is a sink, behind all stages: in the driver, or, where any process may write its store, in Spark's Python
processes. Pure: knows declarations and plans; no Spark.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from topology.checks import instance_state
from topology.checks.inputs import said
from topology.codes.declarations import UNSUPPORTED_ON_SPARK
from topology.errors import Mistake, Problem
from topology.graph import Declared, Graph, Place
from topology.groupings import ByIdentity, Custom, Direct, Grouping, LocalOrShuffle, PartialKey, Shuffle, key_function
from topology.plan import Plan, Subscription, plan
from topology.records import Record
from topology.signatures import called

COMPANION: Final = "spark"
DEALT: Final = (Shuffle, LocalOrShuffle, ByIdentity)  # any task will do


@dataclass(frozen=True)
class Stage:
    """Bolts that run in one operator, in topological order. `stateful`: some of them have state."""

    number: int
    bolts: tuple[str, ...]
    stateful: bool


@dataclass(frozen=True)
class Mapped:
    """A topology as stages. `level`: of each bolt, the number of its stage; of a sink, one after all.
    `streams`: what spouts hand over, each an input of the query."""

    plan: Plan
    stages: tuple[Stage, ...]
    level: Mapping[str, int]
    streams: tuple[tuple[str, type[Record]], ...]

    @property
    def sinks(self) -> tuple[str, ...]:
        """What runs behind all stages."""
        return tuple(name for name, level in self.level.items() if level == len(self.stages))

    @property
    def shared(self) -> tuple[str, ...]:
        """The sinks whose store any process may write at any time (C4): those run where their rows are made."""
        components = self.plan.components
        return tuple(name for name in self.sinks if getattr(components[name].prototype, "dedup", "") == "shared")

    @property
    def timed(self) -> tuple[str, ...]:
        """The bolts that have timers."""
        return tuple(name for name in self.level if is_timed(self.plan.components[name]))

    def is_keyed(self, subscription: Subscription) -> bool:
        """Whether its rows are brought together by a key."""
        return not isinstance(subscription.grouping, DEALT)


def is_timed(bolt: Declared) -> bool:
    """Whether it may set timers."""
    return bolt.shape == "state" and hasattr(bolt.prototype, "on_timer")


def key_of(subscription: Subscription) -> Any:
    """record → the bytes by which its rows are brought together."""
    grouping: Grouping = subscription.grouping
    return (
        key_function((grouping.field,)) if isinstance(grouping, PartialKey) else key_function(subscription.key_fields)
    )


def mapped(topology: Graph) -> Mapped:
    """The stages of a topology that is valid and has nothing that can't be mapped."""
    made = plan(topology)
    levels: dict[str, int] = {}
    stateful: set[int] = set()
    for name, one in made.components.items():
        if one.kind == "spout":
            levels[name] = 0
            continue
        reads = [read for read in made.subscriptions if read.subscriber == name]
        base = max(levels[read.emitter] for read in reads)
        if is_sink(one):
            continue
        levels[name] = base if all(isinstance(read.grouping, DEALT) for read in reads) else base + 1
        if one.shape == "state":
            stateful.add(levels[name])
    bolts = {name: level for name, level in levels.items() if made.components[name].kind == "bolt"}
    count = max(bolts.values(), default=0) + 1
    stages = tuple(
        Stage(number, tuple(name for name, level in bolts.items() if level == number), number in stateful)
        for number in range(count)
    )
    sinks = {name: count for name, one in made.components.items() if is_sink(one)}
    read = {(one.emitter, one.cls): None for one in made.subscriptions if made.components[one.emitter].kind == "spout"}
    return Mapped(made, stages, {**bolts, **sinks}, tuple(read))


def is_sink(one: Declared) -> bool:
    """Whether it runs behind all stages: a bolt that emits nothing, and has no state."""
    return one.kind == "bolt" and not one.streams and one.shape != "state"


# -- what can't be mapped


def mistakes(topology: Graph) -> list[Mistake]:
    """All that Spark can't run of a valid topology, in the order of the source."""
    found = [*_of_companions(topology)]
    for one in topology.components:
        if one.kind == "bolt":
            found += [(one.place, f"{one.name!r}: {text}") for text in _of_bolt(one)]
            found += [(read.place, f"{one.name!r}: {text}") for read in one.inputs for text in _of_input(read)]
        elif one.prototype.ends_last:
            found.append(
                (one.place, f"{one.name!r}: it reads the results of a Spark query beside the topology; {KEDGE}")
            )
    made = [topology.mistake(Problem(UNSUPPORTED_ON_SPARK, text), place) for place, text in found]
    return sorted(made, key=lambda mistake: (mistake.file, mistake.line))


KEDGE: Final = "run this topology without --engine"
STATE: Final = "keep it in a state, process(self, record, state: State[…]) behind fields(…)"


def _of_companions(topology: Graph) -> Iterator[tuple[Place, str]]:
    for one, place in zip(topology.companions, topology.companion_places, strict=True):
        if one.name == COMPANION:
            yield place, f"this puts a Spark query beside the topology, and then there would be two Sparks; {KEDGE}"


def _of_bolt(one: Declared) -> Iterator[str]:
    name, bolt = called(one.prototype), one.prototype
    if one.every is not None:
        yield f"every={one.every!r} calls {name}.tick, and nothing ticks in a micro-batch; use timers, or {KEDGE}"
    if is_sink(one):
        return
    if one.shape == "execute":
        yield (
            f"{name} has `execute`, which may hold a tuple and ack it later, and on Spark an input is done when its "
            "call returns; write process(self, record), and keep in a state what is to wait"
        )
        return
    if getattr(bolt, "deterministic", True) is False:
        yield (
            f"{name}.deterministic is False, and Spark computes a batch that was cut short once more, then with other "
            f"results; make what it gives a function of its record and state, or {KEDGE}"
        )
    if callable(getattr(bolt, "flush", None)):
        ended = "on Spark no task knows that its input has ended"
        yield f"{name} has `flush`, and {ended}; use timers, and fires_at_end = True"
    if not getattr(bolt, "may_be_split", False):
        for attribute in instance_state.kept(one):
            yield (
                f"{name} keeps self.{attribute} from record to record, and Spark runs any number of copies of {name}, "
                f"begun anew at any time; {STATE}, or say may_be_split = True in the class where each copy may have "
                "its own"
            )


def _of_input(read: Any) -> Iterator[str]:
    if isinstance(read.grouping, Direct):
        text = "its emitter names the task that reads, and on Spark there is none to name; read by fields(…)"
        yield f"{said(read)}: {text}"
    if isinstance(read.grouping, Custom):
        yield (
            f"{said(read)}: it chooses among tasks, and on Spark there are none that stay; put what it goes by into a "
            "field, and read by fields(…)"
        )
    if read.dead:
        yield f"{said(read)}: dead letters of Spark's batches are kept for `kedge dead`, and go to no bolt; {KEDGE}"
