"""Map a topology to Spark: the stages of bolts, what feeds each stage, and what cannot be mapped.

One row is one delivery, and all rows are in one DataFrame, which passes through one stage after the other. A row for a
bolt of a later stage only passes through. Each bolt therefore runs once, however many bolts read it, and all sinks are
one query. A stage begins where rows must be grouped by their keys; a bolt that reads by `shuffle` runs in the stage of
its emitters. A bolt that emits nothing is a sink, behind all stages. Sinks run in the driver or, if any process may
write their store, in Spark's Python processes. Pure: knows declarations and plans; must not know Spark.
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
DEALT: Final = (Shuffle, LocalOrShuffle, ByIdentity)  # groupings that may choose any task


@dataclass(frozen=True)
class Stage:
    """Bolts that run in one operator, in topological order. `stateful`: some of them have state."""

    number: int
    bolts: tuple[str, ...]
    stateful: bool


@dataclass(frozen=True)
class Mapped:
    """A topology as stages. `level`: the number of each bolt's stage; for a sink, one more than all stages. `streams`:
    the streams of spouts that are handed over; each is an input of the query."""

    plan: Plan
    stages: tuple[Stage, ...]
    level: Mapping[str, int]
    streams: tuple[tuple[str, type[Record]], ...]

    @property
    def sinks(self) -> tuple[str, ...]:
        """Return the bolts that run behind all stages."""
        return tuple(name for name, level in self.level.items() if level == len(self.stages))

    @property
    def shared(self) -> tuple[str, ...]:
        """Return the sinks whose store any process may write at any time (C4). They run where their rows are made."""
        components = self.plan.components
        return tuple(name for name in self.sinks if getattr(components[name].prototype, "dedup", "") == "shared")

    @property
    def timed(self) -> tuple[str, ...]:
        """Return the bolts that have timers."""
        return tuple(name for name in self.level if is_timed(self.plan.components[name]))

    def is_keyed(self, subscription: Subscription) -> bool:
        """Return True if the rows of this subscription are grouped by a key."""
        return not isinstance(subscription.grouping, DEALT)


def is_timed(bolt: Declared) -> bool:
    """Return True if the bolt may set timers."""
    return bolt.shape == "state" and hasattr(bolt.prototype, "on_timer")


def key_of(subscription: Subscription) -> Any:
    """Return the function from a record to the bytes by which its rows are grouped."""
    grouping: Grouping = subscription.grouping
    return (
        key_function((grouping.field,)) if isinstance(grouping, PartialKey) else key_function(subscription.key_fields)
    )


def mapped(topology: Graph) -> Mapped:
    """Return the stages of a topology that is valid and can be mapped."""
    made = plan(topology)
    levels: dict[str, int] = {}
    stateful: set[int] = set()
    for name, item in made.components.items():
        if item.kind == "spout":
            levels[name] = 0
            continue
        reads = [read for read in made.subscriptions if read.subscriber == name]
        base = max(levels[read.emitter] for read in reads)
        if is_sink(item):
            continue
        levels[name] = base if all(isinstance(read.grouping, DEALT) for read in reads) else base + 1
        if item.shape == "state":
            stateful.add(levels[name])
    bolts = {name: level for name, level in levels.items() if made.components[name].kind == "bolt"}
    count = max(bolts.values(), default=0) + 1
    stages = tuple(
        Stage(number, tuple(name for name, level in bolts.items() if level == number), number in stateful)
        for number in range(count)
    )
    sinks = {name: count for name, item in made.components.items() if is_sink(item)}
    read = {
        (item.emitter, item.cls): None for item in made.subscriptions if made.components[item.emitter].kind == "spout"
    }
    return Mapped(made, stages, {**bolts, **sinks}, tuple(read))


def is_sink(one: Declared) -> bool:
    """Return True if the bolt runs behind all stages: it emits nothing and has no state."""
    return one.kind == "bolt" and not one.streams and one.shape != "state"


# -- declarations that Spark cannot run


def mistakes(topology: Graph) -> list[Mistake]:
    """Return everything in a valid topology that Spark cannot run, in the order of the source."""
    found = [*_of_companions(topology)]
    for part in topology.components:
        if part.kind == "bolt":
            found += [(part.place, f"{part.name!r}: {text}") for text in _of_bolt(part)]
            found += [(read.place, f"{part.name!r}: {text}") for read in part.inputs for text in _of_input(read)]
        elif part.prototype.ends_last:
            found.append(
                (part.place, f"{part.name!r}: it reads the results of a Spark query beside the topology; {KEDGE}")
            )
    made = [topology.mistake(Problem(UNSUPPORTED_ON_SPARK, text), place) for place, text in found]
    return sorted(made, key=lambda mistake: (mistake.file, mistake.line))


KEDGE: Final = "run this topology without --engine"
STATE: Final = "keep it in a state, process(self, record, state: State[…]) behind fields(…)"


def _of_companions(topology: Graph) -> Iterator[tuple[Place, str]]:
    for companion, place in zip(topology.companions, topology.companion_places, strict=True):
        if companion.name == COMPANION:
            yield place, f"this adds a Spark query beside the topology, which would need a second Spark; {KEDGE}"


def _of_bolt(one: Declared) -> Iterator[str]:
    name, bolt = called(one.prototype), one.prototype
    if one.every is not None:
        yield f"every={one.every!r} calls {name}.tick, but a micro-batch has no ticks; use timers, or {KEDGE}"
    if is_sink(one):
        return
    if one.shape == "execute":
        yield (
            f"{name} has `execute`, which may hold a tuple and ack it later, but on Spark an input is done when its "
            "call returns; write process(self, record), and keep records that have to wait in a state"
        )
        return
    if getattr(bolt, "deterministic", True) is False:
        yield (
            f"{name}.deterministic is False, but Spark may compute a batch again, which then has other results; "
            f"compute the output only from the record and the state, or {KEDGE}"
        )
    if callable(getattr(bolt, "flush", None)):
        ended = "on Spark no task knows that its input has ended"
        yield f"{name} has `flush`, but {ended}; use timers with fires_at_end = True"
    if not getattr(bolt, "may_be_split", False):
        for attribute in instance_state.kept(one):
            yield (
                f"{name} keeps self.{attribute} from record to record, but Spark runs any number of copies of {name} "
                f"and may restart them at any time; {STATE}, or set may_be_split = True in the class if each copy may "
                "have its own"
            )


def _of_input(read: Any) -> Iterator[str]:
    if isinstance(read.grouping, Direct):
        text = "its emitter names the task that reads, but Spark has no fixed tasks; read by fields(…)"
        yield f"{said(read)}: {text}"
    if isinstance(read.grouping, Custom):
        yield (
            f"{said(read)}: it chooses among tasks, but Spark has no fixed tasks; put the value that it chooses by "
            "into a field, and read by fields(…)"
        )
    if read.dead:
        yield f"{said(read)}: dead letters of Spark's batches are kept for `kedge dead`, and reach no bolt; {KEDGE}"
