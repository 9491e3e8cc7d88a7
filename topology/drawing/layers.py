"""The shape of a drawing: which layer each vertex is in, and in which order they stand there, with few crossings.

After Sugiyama, Tagawa and Toda (1981): longest-path layers; an edge that passes layers has a vertex in each of them;
orders by barycentres, and swaps of neighbours. Each edge's label is a vertex too, in a layer between those of nodes,
so that no label can lie on a node or on another label. Own code, and not grandalf: that is under the GPL or the EPL,
had its last release in 2023, and knows no labels; networkx reduces no crossings. Pure and deterministic: numbers in,
numbers out; knows no sizes, no text and no topology.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

ROUNDS_MAX: Final = 24  # sweeps down and up; they end earlier where no crossing is left, or none was saved for a while
PATIENCE: Final = 4  # rounds without a saving after which it is as good as it will get
SWAPS_MAX: Final = 4  # passes over a layer that swap neighbours

Order = list[list[int]]


@dataclass(frozen=True)
class Arrangement:
    """Vertices 0 … nodes - 1 are the nodes; those above are where edges pass a layer. Nodes are in even layers.

    `chains` are the vertices of each edge, one a layer, from its source to its target; `labels` is the one among them
    that is the edge's label. It is in an odd layer.
    """

    nodes: int
    layers: Order
    chains: list[list[int]]
    labels: list[int]

    @property
    def vertices(self) -> int:
        """How many vertices there are."""
        return sum(map(len, self.layers))


def arranged(nodes: int, edges: Sequence[tuple[int, int]]) -> Arrangement:
    """Arranges nodes whose numbers are in topological order: every edge (source, target) has source < target. There may
    be several between one pair."""
    assert all(0 <= source < target < nodes for source, target in edges), "in topological order"
    ranks = _ranks(nodes, edges)
    layers: Order = [[] for _ in range(max(ranks, default=0) * 2 + 1)]
    chains: list[list[int]] = []
    layer_of = [rank * 2 for rank in ranks]
    for source, target in edges:
        passed = range(ranks[source] * 2 + 1, ranks[target] * 2)
        chains.append([source, *range(len(layer_of), len(layer_of) + len(passed)), target])
        layer_of += passed
    labels = _labels(chains, layer_of)
    for vertex in _first_order(nodes, chains):
        layers[layer_of[vertex]].append(vertex)
    return Arrangement(nodes, _uncrossed(layers, chains), chains, labels)


def _ranks(nodes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Each node one below the lowest that it reads; a source one above the highest that reads it, so that it stands
    beside its readers, wherever in the graph these are."""
    ranks = [0] * nodes
    for source, target in sorted(edges):
        ranks[target] = max(ranks[target], ranks[source] + 1)
    read = {target for _, target in edges}
    for node in set(range(nodes)) - read:
        ranks[node] = min((ranks[target] for source, target in edges if source == node), default=1) - 1
    return ranks


def _labels(chains: list[list[int]], layer_of: list[int]) -> list[int]:
    """The vertex of each edge's label: in the layer with the fewest labels so far, the lowest of these."""
    taken = [0] * (max(layer_of, default=0) + 1)
    labels = []
    for chain in sorted(chains, key=len):
        vertex = min(chain[-2:0:-2], key=lambda one: taken[layer_of[one]])
        taken[layer_of[vertex]] += 1
        labels.append((chain[1], vertex))
    return [vertex for _, vertex in sorted(labels)]  # chains' second vertices grow with the number of their edge


def _first_order(nodes: int, chains: list[list[int]]) -> list[int]:
    """All vertices, depth first, from the first node on: what hangs together begins side by side."""
    below: dict[int, list[int]] = {}
    above: dict[int, list[int]] = {}
    for chain in chains:
        for upper, lower in pairwise(chain):
            below.setdefault(upper, []).append(lower)
            above.setdefault(lower, []).append(upper)
    met: dict[int, None] = {}
    for start in range(nodes):
        waiting = [start]
        while waiting:
            vertex = waiting.pop()
            if vertex not in met:
                met[vertex] = None
                waiting += [*reversed(above.get(vertex, [])), *reversed(below.get(vertex, []))]
    return [*met]


def _uncrossed(layers: Order, chains: list[list[int]]) -> Order:
    """The best order that was met while sweeping down and up."""
    below: dict[int, list[int]] = {vertex: [] for layer in layers for vertex in layer}
    above: dict[int, list[int]] = {vertex: [] for layer in layers for vertex in layer}
    for chain in chains:
        for upper, lower in pairwise(chain):
            below[upper].append(lower)
            above[lower].append(upper)
    best, fewest, since = [[*layer] for layer in layers], crossings(layers, below), 0
    for number in range(ROUNDS_MAX):
        if not fewest or since >= PATIENCE:
            break
        order = range(len(layers)) if number % 2 == 0 else range(len(layers) - 1, -1, -1)
        seen_from = above if number % 2 == 0 else below
        place = _places(layers)
        for index in order:
            _by_barycentre(layers[index], seen_from, place)
            _swapped(layers[index], above, below, place)
        found = crossings(layers, below)
        since += 1
        if found < fewest:
            best, fewest, since = [[*layer] for layer in layers], found, 0
    return best


def _places(layers: Order) -> dict[int, int]:
    return {vertex: place for layer in layers for place, vertex in enumerate(layer)}


def _by_barycentre(layer: list[int], seen_from: dict[int, list[int]], place: dict[int, int]) -> None:
    """Sorts a layer by where its neighbours in the layer before are; what has none keeps its place."""
    wanted = {}
    for at, vertex in enumerate(layer):
        others = seen_from[vertex]
        wanted[vertex] = sum(place[other] for other in others) / len(others) if others else float(at)
    layer.sort(key=lambda vertex: wanted[vertex])
    place.update((vertex, at) for at, vertex in enumerate(layer))


def _swapped(layer: list[int], above: dict[int, list[int]], below: dict[int, list[int]], place: dict[int, int]) -> None:
    """Swaps neighbours while that saves crossings with the layers on both sides."""
    for _ in range(SWAPS_MAX):
        better = False
        for at in range(len(layer) - 1):
            left, right = layer[at], layer[at + 1]
            saved = 0
            for sides in (above, below):
                for one in sides[left]:
                    for other in sides[right]:
                        saved += (place[one] > place[other]) - (place[one] < place[other])
            if saved > 0:
                layer[at], layer[at + 1] = right, left
                place[left], place[right] = at + 1, at
                better = True
        if not better:
            return


def crossings(layers: Order, below: dict[int, list[int]]) -> int:
    """How many pairs of edges cross between neighbouring layers."""
    place = _places(layers)
    count = 0
    for layer in layers:
        seen: list[int] = []
        for vertex in layer:
            ends = sorted(place[other] for other in below[vertex])
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count
