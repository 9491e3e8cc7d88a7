"""The guarantee of each sink of a topology, and the components on its path that make it less than exactly once (B2, B4,
B10, D13).

Pure: reads a declaration without mistakes, and runs nothing. It trusts the attributes of components, and reads their
source if that shows more. Must not know how state is kept, nor how the result is shown.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from topology.checks import instance_state, unanchored
from topology.checks.component_facts import above, drops_replays, keeps_state
from topology.checks.recomputed import Variation, variations
from topology.config import Config
from topology.graph import Declared, Graph
from topology.groupings import Custom, Direct
from topology.plan import order
from topology.signatures import called


class Guarantee(Enum):
    """The guarantee for the effects of messages at a sink."""

    EXACTLY_ONCE = "exactly once in effect"
    AT_LEAST_ONCE = "at least once"
    AT_MOST_ONCE = "at most once"
    NONE = "no guarantee (records may be lost or repeated)"


@dataclass(frozen=True)
class Weakness:
    """A reason for a weaker guarantee: a sentence that begins with the component's name.

    It `loses` records, or `repeats` records. If it does neither, the guarantee holds except for the fact in the
    sentence.
    """

    component: str  # empty: the topology itself
    text: str
    loses: bool = False
    repeats: bool = False


class Mishap(Enum):
    """A loss that a run may meet."""

    DEATH = "a worker dies"
    POWER = "power is lost"


DURABILITIES: Final = ("disk", "process", "checkpoint")


def goes_back(durability: str, event: Mishap) -> bool:
    """Return True if all workers go back to the last decided checkpoint after this event, and compute again what has
    left since."""
    return durability == "checkpoint" or (durability == "process" and event is Mishap.POWER)


@dataclass(frozen=True)
class Promise:
    """The guarantee of one sink. The weakest of the weaknesses comes first.

    `variations` are bolts whose results may come out otherwise if they are computed again: the sink then has a part of
    the first results and a part of the second. None if nothing is kept, or nothing is replayed. `durability` is the one
    that is set; None if it makes no difference.
    """

    sink: str
    weaknesses: tuple[Weakness, ...]
    variations: tuple[Variation, ...] = ()
    durability: str | None = None

    def varies(self, durability: str, event: Mishap) -> bool:
        """Return True if results may come out otherwise after this event, with this durability."""
        return bool(self.variations) and goes_back(durability, event)

    @property
    def guarantee(self) -> Guarantee:
        loses = any(weakness.loses for weakness in self.weaknesses)
        repeats = any(weakness.repeats for weakness in self.weaknesses)
        return {
            (False, False): Guarantee.EXACTLY_ONCE,
            (False, True): Guarantee.AT_LEAST_ONCE,
            (True, False): Guarantee.AT_MOST_ONCE,
            (True, True): Guarantee.NONE,
        }[loses, repeats]

    @property
    def weakest(self) -> str:
        """The component that limits the guarantee; empty if it is exactly once, or limited by the topology."""
        return self.weaknesses[0].component if self.guarantee is not Guarantee.EXACTLY_ONCE else ""


def guarantees(topology: Graph, *, keeps: bool = True) -> list[Promise]:
    """Return one promise per sink, in order of declaration. A sink is a bolt that emits nothing, whose records no bolt
    reads, or that deduplicates replays. `keeps`: True if the run has a state directory."""
    components = {component.name: component for component in topology.components}
    read = {read.component for component in components.values() for read in component.inputs if not read.dead}
    ordered = [components[name] for name in order(topology.components)]
    config = topology.config
    goes = keeps and config.guarantee == "at-least-once"
    return [
        Promise(
            component.name,
            tuple(_weaknesses(component, ordered, config, keeps)),
            tuple(variations(component, ordered)) if goes else (),
            config.durability if goes else None,
        )
        for component in components.values()
        if component.kind == "bolt"
        and (not component.streams or component.name not in read or drops_replays(component))
    ]


def _weaknesses(sink: Declared, ordered: list[Declared], config: Config, keeps: bool) -> list[Weakness]:
    """Return the weaknesses of the sink and of all components on the path to it. Losses come first, then repeats; each
    group begins at the spouts."""
    if config.guarantee == "at-most-once":
        return [Weakness("", "guarantee='at-most-once': no message is tracked, and none is replayed", loses=True)]
    way = above(sink, ordered)
    found = [weakness for declared in way for rule in RULES for weakness in rule(declared)]
    found += _of_groupings(way)
    found += _of_sink(sink)
    if not keeps:
        found += [weakness for declared in way for weakness in _of_memory(declared)]
    return sorted(found, key=lambda one: (not one.loses, not one.repeats))


# -- one component


def _of_spout(one: Declared) -> Iterator[Weakness]:
    given_again = one.prototype.given_again if one.kind == "spout" else "same"
    if given_again == "never":
        text = "cannot emit its messages again: those in flight when its worker dies are lost"
        yield Weakness(one.name, text, loses=True)
    elif given_again == "other ids":
        text = "emits repeated messages under other ids, so they cannot be recognized as repeats"
        yield Weakness(one.name, text, repeats=True)
    if one.kind == "spout" and one.tasks > 1 and one.prototype.one_queue:
        text = "has tasks that share one queue: if one of them dies or loses its connection, another may get its"
        yield Weakness(one.name, f"{text} messages late, and a bolt with state counts those twice; use one task")


def _of_memory(one: Declared) -> Iterator[Weakness]:
    """Yield the weakness of a component in a run without a state directory."""
    if one.kind == "spout":
        text = "is read from its start again after its worker's death, and in each run: its positions are in memory"
        yield Weakness(one.name, text)
    elif one.shape == "journal":
        text = "is not deterministic, and its outputs are kept in memory: after its worker's death a replay may emit"
        yield Weakness(one.name, f"{text} others", repeats=True)
    elif keeps_state(one):
        text = "has its state in memory: after its worker's death it begins empty, and records that a source reads"
        yield Weakness(one.name, f"{text} again are counted twice", loses=True, repeats=True)


def _of_unanchored(one: Declared) -> Iterator[Weakness]:
    for method in unanchored.methods(one):
        text = f"emits records in `{method}` that are anchored to no message, so they are never replayed"
        yield Weakness(one.name, text, loses=True)


def _of_determinism(one: Declared) -> Iterator[Weakness]:
    if one.kind == "spout" or one.prototype.deterministic or not one.streams:
        return
    if one.shape == "execute":
        text = "is not deterministic, and outputs of `execute` cannot be stored: a replay may emit others"
        yield Weakness(one.name, f"{text}; write it as `process`", repeats=True)
    elif one.shape == "state" and not keeps_state(one):
        text = "is not deterministic, and keeps its state in memory only: a replay may emit others"
        yield Weakness(one.name, text, repeats=True)


def _of_state(one: Declared) -> Iterator[Weakness]:
    if one.shape != "state" or keeps_state(one):
        return
    begins = {
        "replay": "after its worker's death its inputs are processed again, perhaps in another order",
        "none": "after its worker's death its state begins empty: the changes by finished inputs are lost, "
        "and inputs in flight are processed again",
    }
    recovery = one.prototype.recovery
    yield Weakness(one.name, f"has recovery = {recovery!r}: {begins[recovery]}", recovery == "none", repeats=True)


def _of_attributes(one: Declared) -> Iterator[Weakness]:
    for name in instance_state.kept(one):
        text = f"keeps self.{name} from record to record: a replay counts twice in it, and a restart forgets it"
        yield Weakness(one.name, text, loses=True, repeats=True)


RULES: Final[tuple[Callable[[Declared], Iterator[Weakness]], ...]] = (
    _of_spout,
    _of_unanchored,
    _of_determinism,
    _of_state,
    _of_attributes,
)


# -- several


def _of_groupings(way: list[Declared]) -> Iterator[Weakness]:
    """Yield a weakness for user code that chooses tasks before a bolt with state. A replay that is sent to another task
    looks new to that bolt."""
    for at, component in enumerate(way):
        for read in component.inputs:
            if not isinstance(read.grouping, Custom | Direct):
                continue
            behind = next(
                (other for other in way[at + 1 :] if other.shape == "state" and _reaches(component, other, way)), None
            )
            if behind is not None:
                text = (
                    f"reads {read.component!r} by {read.grouping!s:.80}, and {behind.name!r} behind it keeps state: a "
                    f"replay that goes to another task is counted twice"
                )
                yield Weakness(component.name, text, repeats=True)


def _reaches(one: Declared, other: Declared, way: list[Declared]) -> bool:
    return any(found is one for found in above(other, way))


def _of_sink(sink: Declared) -> Iterator[Weakness]:
    """Yield the weakness of a sink that does not deduplicate. The effect of a bolt that only counts is in its state."""
    if drops_replays(sink) or (keeps_state(sink) and not sink.streams):
        return
    yield Weakness(sink.name, f"is a {called(sink.prototype)}, which does not deduplicate replays", repeats=True)
