"""What each sink of a topology gets, and what on the way to it makes that less than exactly once (B2, B4, B10, D13).

Pure: reads a declaration that has no mistakes, and runs nothing. It believes what components say of themselves, and
looks at their source where that tells more. Must not know how any of it is kept, nor how it is shown.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from topology.checks import instance_state, unanchored
from topology.config import Config
from topology.graph import Declared, Graph
from topology.groupings import Custom, Direct
from topology.plan import order
from topology.signatures import called


class Guarantee(Enum):
    """What may be relied on, of the effects that messages have at a sink."""

    EXACTLY_ONCE = "exactly once in effect"
    AT_LEAST_ONCE = "at least once"
    AT_MOST_ONCE = "at most once"
    NONE = "no guarantee, as some may be lost and some come twice"


@dataclass(frozen=True)
class Weakness:
    """Why a sink gets less, in a sentence that the component's name begins. It `loses` something, or `repeats`
    something, or, where it does neither, all holds but for what the sentence says."""

    component: str  # empty: the topology itself
    text: str
    loses: bool = False
    repeats: bool = False


@dataclass(frozen=True)
class Promise:
    """What one sink gets. The weakest of the weaknesses stands first."""

    sink: str
    weaknesses: tuple[Weakness, ...]

    @property
    def guarantee(self) -> Guarantee:
        loses = any(one.loses for one in self.weaknesses)
        repeats = any(one.repeats for one in self.weaknesses)
        return {
            (False, False): Guarantee.EXACTLY_ONCE,
            (False, True): Guarantee.AT_LEAST_ONCE,
            (True, False): Guarantee.AT_MOST_ONCE,
            (True, True): Guarantee.NONE,
        }[loses, repeats]

    @property
    def weakest(self) -> str:
        """The component that the guarantee is owed to; empty where it is exactly once, or owed to the topology."""
        return self.weaknesses[0].component if self.guarantee is not Guarantee.EXACTLY_ONCE else ""


def guarantees(topology: Graph, *, keeps: bool = True) -> list[Promise]:
    """One of each sink, in order of declaration: of each bolt that emits nothing, whose records nobody reads, or that
    drops replays. `keeps`: whether the run has a state directory."""
    components = {one.name: one for one in topology.components}
    read = {read.component for one in components.values() for read in one.inputs if not read.dead}
    ordered = order(topology.components)
    return [
        Promise(one.name, tuple(_weaknesses(one, [components[name] for name in ordered], topology.config, keeps)))
        for one in components.values()
        if one.kind == "bolt" and (not one.streams or one.name not in read or _drops_replays(one))
    ]


def _weaknesses(sink: Declared, ordered: list[Declared], config: Config, keeps: bool) -> list[Weakness]:
    """Of all on the way to the sink, and of itself; what loses first, then what repeats, each from the spouts on."""
    if config.guarantee == "at-most-once":
        return [Weakness("", "guarantee='at-most-once': no message is followed, and none is replayed", loses=True)]
    way = _above(sink, ordered)
    found = [one for declared in way for rule in RULES for one in rule(declared)]
    found += _of_groupings(way)
    found += _of_sink(sink)
    if not keeps:
        found += [one for declared in way for one in _of_memory(declared)]
    elif config.durability == "process":
        found += [
            Weakness(one.name, "survives the death of processes, and not a loss of power: durability='process'")
            for one in way
            if one.shape == "journal" or _keeps_state(one)
        ]
    return sorted(found, key=lambda one: (not one.loses, not one.repeats))


def _above(sink: Declared, ordered: list[Declared]) -> list[Declared]:
    """All on the way to this bolt, and itself, in their order."""
    names = {sink.name}
    for one in reversed(ordered):
        if one.name in names:
            names.update(read.component for read in one.inputs)
    return [one for one in ordered if one.name in names]


# -- one component


def _of_spout(one: Declared) -> Iterator[Weakness]:
    handle_repeated = one.prototype.handle_repeated if one.kind == "spout" else "same"
    if handle_repeated == "never":
        text = "can't give again what it has given: what was in flight when its worker died is lost"
        yield Weakness(one.name, text, loses=True)
    elif handle_repeated == "other ids":
        text = "gives under other ids what it gives again, so that nobody can tell it from something new"
        yield Weakness(one.name, text, repeats=True)


def _of_memory(one: Declared) -> Iterator[Weakness]:
    """What a run without a state directory makes less."""
    if one.kind == "spout":
        text = "is read from its start again after its worker's death, and in each run: its positions are in memory"
        yield Weakness(one.name, text)
    elif one.shape == "journal":
        text = "is not deterministic, and what it has put out is in memory: after its worker's death a replay may give"
        yield Weakness(one.name, f"{text} something else", repeats=True)
    elif _keeps_state(one):
        text = "has its state in memory: after its worker's death it begins empty, and counts again what a source that"
        yield Weakness(one.name, f"{text} is read from its start gives once more", loses=True, repeats=True)


def _of_unanchored(one: Declared) -> Iterator[Weakness]:
    for method in unanchored.methods(one):
        text = f"emits in `{method}` what is anchored to no message: that is never replayed"
        yield Weakness(one.name, text, loses=True)


def _of_determinism(one: Declared) -> Iterator[Weakness]:
    if one.kind == "spout" or one.prototype.deterministic or not one.streams:
        return
    if one.shape == "execute":
        text = "is not deterministic, and what `execute` emits can't be written down: a replay may give something else"
        yield Weakness(one.name, f"{text}; write it as `process`", repeats=True)
    elif one.shape == "state" and not _keeps_state(one):
        text = "is not deterministic, and keeps its state in memory alone: a replay may give something else"
        yield Weakness(one.name, text, repeats=True)


def _of_state(one: Declared) -> Iterator[Weakness]:
    if one.shape != "state" or _keeps_state(one):
        return
    begins = {
        "replay": "after its worker's death its inputs are processed again, perhaps in another order",
        "none": "after its worker's death its state begins empty: what inputs that are done had changed in it is lost, "
        "and those in flight are processed again",
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
    """Code that chooses tasks, with state behind it: what it deals otherwise comes to that as something new."""
    for at, one in enumerate(way):
        for read in one.inputs:
            if not isinstance(read.grouping, Custom | Direct):
                continue
            behind = next(
                (other for other in way[at + 1 :] if other.shape == "state" and _reaches(one, other, way)), None
            )
            if behind is not None:
                text = (
                    f"reads {read.component!r} by {read.grouping!s:.80}, and {behind.name!r} behind it keeps state: it "
                    f"counts twice what is dealt otherwise when it is replayed"
                )
                yield Weakness(one.name, text, repeats=True)


def _reaches(one: Declared, other: Declared, way: list[Declared]) -> bool:
    return any(found is one for found in _above(other, way))


def _of_sink(sink: Declared) -> Iterator[Weakness]:
    """A bolt that only counts, say, has its effect in its state."""
    if _drops_replays(sink) or (_keeps_state(sink) and not sink.streams):
        return
    yield Weakness(sink.name, f"is a {called(sink.prototype)}, which does not drop what a replay repeats", repeats=True)


def _keeps_state(one: Declared) -> bool:
    """Whether it has state that survives, and changes once for each input."""
    return one.shape == "state" and one.prototype.recovery == "checkpoint"


def _drops_replays(one: Declared) -> bool:
    return bool(getattr(one.prototype, "drops_replays", False))
