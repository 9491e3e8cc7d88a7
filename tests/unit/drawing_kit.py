"""Pictures to draw: any graph that a topology can be, as Hypothesis makes it up, and topologies with awkward names."""

from collections.abc import Iterator
from typing import Any

from declaring_kit import Line, Lines, Malformed, Sink
from hypothesis import strategies as st

from topology import Bolt, Grouping, Record, Spout, State, Topology
from topology.drawing.model import Edge, Picture, PictureNode

KINDS = ("spout", "bolt", "sink")
WORDS = st.sampled_from(
    ["a", "end", "ParseFailures", "lines-of-the-log_file", "x" * 64, "日本語クラス", "é😀", "_-", "W" * 30]
)


@st.composite
def graphs(draw: st.DrawFn, nodes_max: int = 14, edges_max: int = 30) -> tuple[int, list[tuple[int, int]]]:
    """A number of nodes, and edges in topological order: diamonds, fans, long ways, several between one pair."""
    count = draw(st.integers(1, nodes_max))
    ends = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=edges_max))
    return count, [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]


@st.composite
def pictures(draw: st.DrawFn, nodes_max: int = 12, edges_max: int = 24) -> Picture:
    """A graph whose nodes and edges have names of any length, tasks, notes and places."""
    count, pairs = draw(graphs(nodes_max, edges_max))
    workers = draw(st.none() | st.integers(1, 9))
    nodes = []
    for number in range(count):
        tasks = draw(st.sampled_from([1, 2, 1024]))
        placed: dict[int, list[int]] = {}
        for task in range(tasks if workers else 0):
            placed.setdefault((number + task) % (workers or 1), []).append(task)
        notes = tuple(draw(st.lists(WORDS, max_size=2)))
        name = f"n{number}{draw(WORDS)}"
        nodes.append(
            PictureNode(name, draw(st.sampled_from(KINDS)), draw(WORDS), tasks, notes, dict(sorted(placed.items())))
        )
    edges = [
        Edge(*pair, f"R{number}{draw(WORDS)}", draw(WORDS), f"{number} → 2 tasks") for number, pair in enumerate(pairs)
    ]
    return Picture("made-up", tuple(nodes), tuple(edges), workers)


def plain_picture(edges: list[tuple[int, int]], nodes: int) -> Picture:
    """Nodes n0, n1, … and edges with records R0, R1, … of which a drawing can be read back."""
    return Picture(
        "plain",
        tuple(PictureNode(f"n{number}", "bolt", "Made", 1, (), {}) for number in range(nodes)),
        tuple(Edge(*pair, f"R{number}", "all", "1 → 1 task") for number, pair in enumerate(edges)),
        None,
    )


class Keeps(Bolt):
    """Has something to hide."""

    def __init__(self, secret: str = "") -> None:
        self.secret = secret

    def process(self, line: Line, state: State[int]) -> Iterator[Line | Malformed]:
        yield line


class ByRegion(Grouping):
    def __init__(self, secret: str = "") -> None:
        self.secret = secret

    def choose(self, record: Record, tasks: int) -> list[int]:
        return [0]


class SecretLines(Lines):
    def __init__(self, secret: str) -> None:
        self.secret = secret


def called(name: str, base: type[Any] = Sink) -> Any:
    """A bolt or spout whose class has this name, which may be anything."""
    return type(name, (base,), {})()


def small(last: Any = None, name: str = "small", spout: Spout | None = None) -> Topology:
    """lines → keep → last, and what `keep` rejects is read by nobody."""
    topology: Any = Topology(name)
    lines = topology.spout("lines", spout or Lines())
    keep = topology.bolt("keep", Keeps(), lines.fields("text", "number"), tasks=3)
    topology.bolt("last", last or Sink(), keep[Line].custom(ByRegion()), tasks=2)
    return topology
