"""The content of a topology's picture: its components, and who reads which stream by which grouping. All drawings use
this value.

Pure. Holds only names, classes, groupings and numbers of tasks: no attribute of a prototype and no setting, because
they may be secrets (S12). Each text is one line of limited length, without control sequences of a terminal (S11). The
drawing code quotes for SVG or Mermaid.
"""

from dataclasses import dataclass
from typing import Any, Final

from topology import plan
from topology.checks.declaration import require_valid
from topology.drawing.widths import cut
from topology.graph import Declared, Graph
from topology.groupings import Custom, Fields, Global, Grouping, PartialKey
from topology.signatures import called
from topology.text import escaped

COLUMNS_MAX: Final = 80  # of one name in a picture; the names of classes have no limit of their own


@dataclass(frozen=True)
class PictureNode:
    """A component. `kind` is 'spout', 'bolt', or 'sink' for a bolt that emits nothing. `workers` has the indexes of its
    tasks on each worker; it is empty if no placement was asked for."""

    name: str
    kind: str
    made_of: str
    tasks: int
    notes: tuple[str, ...]
    workers: dict[int, list[int]]


@dataclass(frozen=True)
class Edge:
    """A subscription, by the numbers of emitter and subscriber in `Picture.nodes`: the record class, the grouping, "2 →
    4 tasks"."""

    source: int
    target: int
    record: str
    grouping: str
    tasks: str


@dataclass(frozen=True)
class Picture:
    """A topology to be drawn; each node comes behind all that it reads. `workers`: the number that was asked for.
    Workers without a task in the plan are not started."""

    name: str
    nodes: tuple[PictureNode, ...]
    edges: tuple[Edge, ...]
    workers: int | None

    @property
    def described(self) -> str:
        """The number of components by kind: "1 spout, 2 bolts, 1 sink"."""
        counts = ((kind, sum(node.kind == kind for node in self.nodes)) for kind in ("spout", "bolt", "sink"))
        found = ", ".join(f"{count} {kind}{'s' * (count != 1)}" for kind, count in counts if count)
        if self.workers is None:
            return found
        used = len({worker for node in self.nodes for worker in node.workers})
        asked = f"{used:,} of {self.workers:,}" if used != self.workers else f"{used:,}"
        return f"{found}, on {asked} worker{'s' * (self.workers != 1)}"


def picture(topology: Graph, workers: int | None = None) -> Picture:
    """Read a topology. With `workers`, its tasks are placed on that many. Raises DeclarationError."""
    require_valid(topology)
    planned = plan.plan(topology, workers or 1)
    placed: dict[str, dict[int, list[int]]] = {name: {} for name in planned.components}
    if workers is not None:
        for (name, task), worker in sorted(planned.placement.items()):
            placed[name].setdefault(worker, []).append(task)
    numbers = {name: number for number, name in enumerate(planned.components)}
    edges = [
        Edge(
            numbers[read.component],
            numbers[component.name],
            _safe(read.cls.__name__ if read.cls is not None else ""),
            grouping_words(read.grouping),
            _flow(planned.components[read.component].tasks, component.tasks),
        )
        for component in planned.components.values()
        for read in component.inputs
    ]
    nodes = [
        PictureNode(
            component.name,
            "sink" if component.kind == "bolt" and not component.streams else component.kind,
            _safe(called(component.prototype)),
            component.tasks,
            (*_notes(component), *_unread(component, planned)),
            dict(sorted(placed[component.name].items())),
        )
        for component in planned.components.values()
    ]
    return Picture(topology.name, tuple(nodes), tuple(edges), workers)


def grouping_words(grouping: Grouping) -> str:
    """Return a grouping in a few words, by the name of its method: "fields source_ip", "shuffle", "custom ByRegion"."""
    if isinstance(grouping, Custom):
        return _safe(f"custom {type(grouping.prototype).__name__}")
    name = grouping.name.rstrip("_")
    return _safe(f"{name} {', '.join(grouping.keys())}") if isinstance(grouping, Fields | PartialKey) else name


def tasks_text(tasks: list[int]) -> str:
    """Return the tasks in words: "task 0", "tasks 0, 2, 4", or their number if there are more than six."""
    if len(tasks) > 6:
        return f"{len(tasks):,} tasks"
    return f"task{'s' * (len(tasks) != 1)} {', '.join(map(str, tasks))}"


def _flow(emitting: int, reading: int) -> str:
    return f"{emitting:,} → {reading:,} task{'s' * (reading != 1)}"


def _notes(one: Declared) -> list[str]:
    """Return notes on a component's concurrency, ticks and state keys."""
    notes = []
    if one.concurrency > 1:
        notes.append(f"concurrency {one.concurrency:,}")
    if one.every is not None:
        notes.append(f"every {one.every}")
    if one.shape == "state":
        notes.append(_safe(f"state {_keys(one)}"))
    return notes


def _keys(one: Declared) -> str:
    """Return the fields that are the key of a bolt's state."""
    found = dict.fromkeys(
        ", ".join(read.grouping.keys()) for read in one.inputs if not isinstance(read.grouping, Global)
    )
    return f"by {' or '.join(found)}" if found else "as a whole"


def _unread(one: Declared, planned: plan.Plan) -> list[str]:
    """Return notes on the streams that no bolt reads."""
    read: set[Any] = {reader.cls for reader in planned.readers(one.name)}
    return [_safe(f"{cls.__name__} unread") for cls in one.streams if cls not in read]


def _safe(text: str) -> str:
    return cut(escaped(text), COLUMNS_MAX)
