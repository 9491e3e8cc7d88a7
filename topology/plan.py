"""The plan: a declared topology, prepared to run. A pure function of the declaration.

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

WORKERS_MAX: Final = 64  # processes: each worker has a link to every other worker, and sends on each twice per second
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SECONDS_MIN: Final = 0.001  # the resolution of a loop's timers
_SECONDS_MAX: Final = 366 * 86_400.0


@dataclass(frozen=True)
class Subscription:
    """The subscription of one bolt to one stream. `index` counts the stream's subscriptions, in order of
    declaration."""

    emitter: str
    cls: type[Record]
    index: int
    subscriber: str
    grouping: Grouping
    dead: bool = False  # it reads the emitter's dead letters

    @property
    def tag(self) -> int:
        """The number that turns an identity into this delivery's edge; 0 if the identity itself is the edge (A18,
        B1)."""
        return edge_tag(self.index)

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields whose values are the key of the subscriber's state."""
        return self.grouping.names if isinstance(self.grouping, Fields) else ()

    @property
    def key(self) -> Callable[[Any], bytes] | None:
        """Function of a record that returns the byte form of that key; None if tuples are routed by their identity."""
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
        """Return the subscriptions to the streams of this component, by stream and then by index."""
        return [read for read in self.subscriptions if read.emitter == emitter and not read.dead]

    def dead_readers(self, spout: str) -> list[Subscription]:
        """Return the subscriptions to the dead letters of this spout."""
        return [read for read in self.subscriptions if read.emitter == spout and read.dead]

    def below(self, component: str, *, dead: bool = False) -> set[str]:
        """Return all components that the output of this one can reach; with `dead`, those that its dead letters can
        reach."""
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
        """Name → the name that stored data is filed under, for all components."""
        return {name: component.known_as for name, component in self.components.items()}

    @property
    def workers(self) -> list[int]:
        """The workers that have a task, in order; possibly fewer than were asked for."""
        return sorted(set(self.placement.values()))

    @property
    def fingerprint(self) -> str:
        """A hash that is equal for plans whose workers understand each other. It covers names, streams and their
        fields, groupings, tasks and their places, but not the code of bolts."""
        lines = [self.topology]
        for component in self.components.values():
            lines += [
                f"{component.kind} {component.name} {component.known_as} {component.tasks} {component.shape}",
                *(schema(cls) for cls in component.streams),
            ]
        for read in self.subscriptions:
            lines.append(f"{read.emitter}[{read.cls.__qualname__}] {read.index} {read.subscriber} {read.grouping}")
        lines += [f"{name}.{task} {worker}" for (name, task), worker in self.placement.items()]
        return hashlib.blake2b("\n".join(lines).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def plan(topology: Graph, workers: int = 1) -> Plan:
    """Plan a validated topology for up to `workers` workers."""
    components = {component.name: component for component in topology.components}
    if topology.config.guarantee == "at-most-once":  # nothing is replayed, so no output is journaled for a replay
        plain: dict[str, Declared] = {
            name: replace(component, shape="process")
            for name, component in components.items()
            if component.shape == "journal"
        }
        components |= plain
    ordered = {name: components[name] for name in order(list(components.values()))}
    subscriptions = tuple(_subscriptions(topology))
    return Plan(topology.name, topology.config, ordered, subscriptions, _placed(ordered, workers))


def _placed(ordered: dict[str, Declared], workers: int) -> dict[tuple[str, int], int]:
    """Return the worker of each task.

    Spouts' tasks are dealt out in turn. A bolt's tasks begin at the worker of its first input's first task. So task i
    of a chain stays on one worker all the way, and a chain of single tasks never leaves it: a hop between workers costs
    more than most bolts do.
    """
    first: dict[str, int] = {}
    dealt = 0
    for component in ordered.values():
        if component.inputs:
            first[component.name] = first[component.inputs[0].component]
        else:
            first[component.name] = dealt
            dealt += component.tasks
    return {
        (component.name, task): (first[component.name] + task) % workers
        for component in ordered.values()
        for task in range(component.tasks)
    }


def _subscriptions(topology: Graph) -> Iterator[Subscription]:
    counts: dict[tuple[str, type[Record]], int] = {}
    for declared in topology.components:
        for source in declared.inputs:
            assert source.cls is not None, "validated"
            index = counts.get((source.component, source.cls), 0)
            counts[source.component, source.cls] = index + 1
            grouping = source.grouping
            bolt = declared.prototype
            remembers = not getattr(bolt, "deterministic", True) or getattr(bolt, "remembers", False)
            if remembers and isinstance(grouping, Shuffle | LocalOrShuffle):
                grouping = ByIdentity()  # so that a replay meets the same task (B2)
            yield Subscription(source.component, source.cls, index, declared.name, grouping, source.dead)


def order(components: list[Declared]) -> list[str]:
    """Return names in an order that puts each behind its inputs. Leaves out names on a cycle, and names behind one."""
    reads = {component.name: {source.component for source in component.inputs} for component in components}
    ordered: list[str] = []
    while ready := [name for name, sources in reads.items() if not sources - set(ordered)]:
        ordered += ready
        for name in ready:
            del reads[name]
    return ordered


def seconds(text: str) -> float:
    """Convert a duration like "10s", "500ms", "5m", "1h" to seconds. Raises ValueError for any other text, for less
    than a millisecond and for more than a year."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(ms|s|m|h)", text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f'a duration is a number and ms, s, m or h, like "10s", not {text!r:.80}')
    value = float(found[1]) * _UNITS[found[2]]
    if not _SECONDS_MIN <= value <= _SECONDS_MAX:
        raise ValueError(f"a duration is 1ms at least and a year at most, not {text!r:.80}")
    return value
