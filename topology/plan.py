"""The plan: what a declared topology becomes before it runs. A pure function of the declaration.

Numbers the subscriptions of each stream, chooses effective groupings, orders the components, and places tasks on
workers. This file must not know how a task is driven or what a worker is made of.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from acker.identity import edge_tag
from topology.config import Config
from topology.graph import Declared, Graph
from topology.groupings import ByIdentity, Fields, Grouping, LocalOrShuffle, Shuffle, key_function
from topology.records import Record, schema

WORKERS_MAX: Final = 64  # processes: each has a link to each other one, which says something twice a second
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SECONDS_MIN: Final = 0.001  # what a loop's timers can tell apart
_SECONDS_MAX: Final = 366 * 86_400.0


@dataclass(frozen=True)
class Subscription:
    """One bolt's reading of one stream. `index` counts the stream's subscriptions, in order of declaration."""

    emitter: str
    cls: type[Record]
    index: int
    subscriber: str
    grouping: Grouping
    dead: bool = False  # it reads the emitter's dead letters

    @property
    def tag(self) -> int:
        """What makes a delivery's edge out of its identity; 0 where the identity itself is the edge (A18, B1)."""
        return edge_tag(self.index)

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields whose values are the key of the subscriber's state."""
        return self.grouping.names if isinstance(self.grouping, Fields) else ()

    @property
    def key(self) -> Callable[[Any], bytes] | None:
        """record → the byte form of that key; None where tuples go by their identity."""
        return None if isinstance(self.grouping, ByIdentity) else key_function(self.key_fields)


@dataclass(frozen=True)
class Plan:
    """Components in topological order, subscriptions, and the worker of each task."""

    topology: str
    config: Config
    components: dict[str, Declared]
    subscriptions: tuple[Subscription, ...]
    placement: dict[tuple[str, int], int]

    def readers(self, emitter: str) -> list[Subscription]:
        """Who reads what this component emits, by stream and then by index."""
        return [one for one in self.subscriptions if one.emitter == emitter and not one.dead]

    def dead_readers(self, spout: str) -> list[Subscription]:
        """Who reads the dead letters of this spout."""
        return [one for one in self.subscriptions if one.emitter == spout and one.dead]

    def below(self, component: str, *, dead: bool = False) -> set[str]:
        """All components that what this one emits can reach; with `dead`, those that its dead letters can reach."""
        found: set[str] = set()
        waiting = [component]
        while waiting:
            at = waiting.pop()
            for reader in self.dead_readers(at) if dead and at == component else self.readers(at):
                if reader.subscriber not in found:
                    found.add(reader.subscriber)
                    waiting.append(reader.subscriber)
        return found

    @property
    def known_as(self) -> dict[str, str]:
        """Name → the name that what is kept is filed under, of all components."""
        return {name: one.known_as for name, one in self.components.items()}

    @property
    def workers(self) -> list[int]:
        """The workers that have a task, in order; perhaps fewer than were asked for."""
        return sorted(set(self.placement.values()))

    @property
    def fingerprint(self) -> str:
        """Equal for plans whose workers understand each other: names, streams and their fields, groupings, tasks and
        their places. The code of bolts is not in it."""
        lines = [self.topology]
        for one in self.components.values():
            lines += [
                f"{one.kind} {one.name} {one.known_as} {one.tasks} {one.shape}",
                *(schema(cls) for cls in one.streams),
            ]
        for read in self.subscriptions:
            lines.append(f"{read.emitter}[{read.cls.__qualname__}] {read.index} {read.subscriber} {read.grouping}")
        lines += [f"{name}.{task} {worker}" for (name, task), worker in self.placement.items()]
        return hashlib.blake2b("\n".join(lines).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def plan(topology: Graph, workers: int = 1) -> Plan:
    """Plans a topology that has been validated, for up to so many workers."""
    components = {one.name: one for one in topology.components}
    if topology.config.guarantee == "at-most-once":  # nothing is replayed, so nothing is written down for a replay
        plain: dict[str, Declared] = {
            name: replace(one, shape="process") for name, one in components.items() if one.shape == "journal"
        }
        components |= plain
    ordered = {name: components[name] for name in order(list(components.values()))}
    subscriptions = tuple(_subscriptions(topology))
    return Plan(topology.name, topology.config, ordered, subscriptions, _placed(ordered, workers))


def _placed(ordered: dict[str, Declared], workers: int) -> dict[tuple[str, int], int]:
    """The worker of each task. Spouts' tasks are dealt out one after the other; a bolt's tasks begin where those of its
    first input do, so that task i of a chain shares a worker all the way, and a chain of single tasks never leaves it:
    a hop between workers costs more than most bolts do."""
    first: dict[str, int] = {}
    dealt = 0
    for one in ordered.values():
        if one.inputs:
            first[one.name] = first[one.inputs[0].component]
        else:
            first[one.name] = dealt
            dealt += one.tasks
    return {
        (one.name, task): (first[one.name] + task) % workers for one in ordered.values() for task in range(one.tasks)
    }


def _subscriptions(topology: Graph) -> Iterator[Subscription]:
    counts: dict[tuple[str, type[Record]], int] = {}
    for declared in topology.components:
        for one in declared.inputs:
            assert one.cls is not None, "validated"
            index = counts.get((one.component, one.cls), 0)
            counts[one.component, one.cls] = index + 1
            grouping = one.grouping
            bolt = declared.prototype
            remembers = not getattr(bolt, "deterministic", True) or getattr(bolt, "remembers", False)
            if remembers and isinstance(grouping, Shuffle | LocalOrShuffle):
                grouping = ByIdentity()  # so that a replay meets the same task (B2)
            yield Subscription(one.component, one.cls, index, declared.name, grouping, one.dead)


def order(components: list[Declared]) -> list[str]:
    """Names so that each stands behind all that it reads. What is on a circle, or behind one, is left out."""
    reads = {one.name: {source.component for source in one.inputs} for one in components}
    ordered: list[str] = []
    while ready := [name for name, sources in reads.items() if not sources - set(ordered)]:
        ordered += ready
        for name in ready:
            del reads[name]
    return ordered


def seconds(text: str) -> float:
    """A duration like "10s", "500ms", "5m", "1h" in seconds. Raises ValueError for anything else, for less than a
    millisecond and for more than a year."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(ms|s|m|h)", text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f'a duration is a number and ms, s, m or h, like "10s", not {text!r:.80}')
    value = float(found[1]) * _UNITS[found[2]]
    if not _SECONDS_MIN <= value <= _SECONDS_MAX:
        raise ValueError(f"a duration is 1ms at least and a year at most, not {text!r:.80}")
    return value
