"""The layout of a drawing: the layer of each vertex and the order within each layer, with few crossings.

After Sugiyama, Tagawa and Toda (1981): longest-path layers; an edge that passes layers has a vertex in each of them;
orders by barycentres, and swaps of neighbours. Each edge's label is a vertex too, in a layer between those of nodes, so
that no label can overlap a node or another label.

This is own code for two reasons. grandalf is under the GPL or the EPL, had its last release in 2023, and does not place
labels; networkx does not reduce crossings. Pure and deterministic: numbers in, numbers out; knows no sizes, no text and
no topology.
"""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

ROUNDS_MAX: Final = 24  # sweeps down and up; they end earlier if no crossing is left, or PATIENCE is used up
PATIENCE: Final = 4  # rounds without an improvement after which the sweeps end
SWAPS_MAX: Final = 4  # passes over a layer that swap neighbours

Order = list[list[int]]


@dataclass(frozen=True)
class Arrangement:
    """Vertices 0 … nodes - 1 are the nodes; higher ones are the points where edges pass a layer. Nodes are in even
    layers.

    `chains` are the vertices of each edge, one per layer, from its source to its target. `labels` names the vertex in
    each chain that is the edge's label. It is in an odd layer.
    """

    nodes: int
    layers: Order
    chains: list[list[int]]
    labels: list[int]

    @property
    def vertices(self) -> int:
        """The number of vertices."""
        return sum(map(len, self.layers))


def arranged(nodes: int, edges: Sequence[tuple[int, int]]) -> Arrangement:
    """Arrange nodes whose numbers are in topological order: every edge (source, target) has source < target. A pair may
    have several edges."""
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
    """Return the rank of each node: one below the lowest node that it reads. A source is one above its highest reader,
    so that it stays near its readers."""
    ranks = [0] * nodes
    for source, target in sorted(edges):
        ranks[target] = max(ranks[target], ranks[source] + 1)
    read = {target for _, target in edges}
    for node in set(range(nodes)) - read:
        ranks[node] = min((ranks[target] for source, target in edges if source == node), default=1) - 1
    return ranks


def _labels(chains: list[list[int]], layer_of: list[int]) -> list[int]:
    """Return the vertex of each edge's label: in the layer with the fewest labels so far, the lowest of these."""
    taken = [0] * (max(layer_of, default=0) + 1)
    labels = []
    for chain in sorted(chains, key=len):
        vertex = min(chain[-2:0:-2], key=lambda one: taken[layer_of[one]])
        taken[layer_of[vertex]] += 1
        labels.append((chain[1], vertex))
    return [vertex for _, vertex in sorted(labels)]  # the second vertices of chains grow with the number of their edge


def _first_order(nodes: int, chains: list[list[int]]) -> list[int]:
    """Return all vertices, depth first, from the first node on: connected vertices start side by side."""
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
    """Return the best order that was found while sweeping down and up."""
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
    """Sort a layer by the places of its neighbours in the layer before; a vertex without neighbours keeps its place."""
    wanted = {}
    for at, vertex in enumerate(layer):
        others = seen_from[vertex]
        wanted[vertex] = sum(place[other] for other in others) / len(others) if others else float(at)
    layer.sort(key=lambda vertex: wanted[vertex])
    place.update((vertex, at) for at, vertex in enumerate(layer))


def _swapped(layer: list[int], above: dict[int, list[int]], below: dict[int, list[int]], place: dict[int, int]) -> None:
    """Swap neighbours while that saves crossings with the layers on both sides."""
    for _ in range(SWAPS_MAX):
        better = False
        for at in range(len(layer) - 1):
            left, right = layer[at], layer[at + 1]
            saved = 0
            for sides in (above, below):
                for here in sides[left]:
                    for there in sides[right]:
                        saved += (place[here] > place[there]) - (place[here] < place[there])
            if saved > 0:
                layer[at], layer[at + 1] = right, left
                place[left], place[right] = at + 1, at
                better = True
        if not better:
            return


def crossings(layers: Order, below: dict[int, list[int]]) -> int:
    """Return the number of pairs of edges that cross between neighbouring layers."""
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


ROUNDS: Final = 6  # down and up by one side, then as often by both; further rounds have no visible effect
STRAIGHT: Final = 8.0  # weight of a shift within a line, relative to one where lines part or meet


@dataclass
class Spacing:
    """Sizes across the layers: of each vertex, and the least distances between neighbours and between edges that meet
    at a node.

    `inset` is kept free of edges at both ends of a node's side. `slack` is the part of the distance between edges by
    which one may be shifted, to arrive straight.
    """

    sizes: Sequence[float]
    gap: float
    port_gap: float
    inset: float
    slack: float


@dataclass
class Places:
    """The middle of each vertex, and the offsets from the middles at which each edge leaves its source and reaches its
    target."""

    middles: list[float]
    leaves: list[float]
    reaches: list[float]

    def links(self, arrangement: Arrangement) -> list[list[tuple[int, int, float, float]]]:
        """Return the pieces of edges below each layer: (edge, upper vertex, place where it leaves, place where it
        arrives)."""
        found: list[list[tuple[int, int, float, float]]] = [[] for _ in arrangement.layers]
        depth = {vertex: row for row, layer in enumerate(arrangement.layers) for vertex in layer}
        for edge, chain in enumerate(arrangement.chains):
            for upper, lower in pairwise(chain):
                start, end = self.middles[upper], self.middles[lower]
                start += self.leaves[edge] if upper == chain[0] else 0
                end += self.reaches[edge] if lower == chain[-1] else 0
                found[depth[upper]].append((edge, upper, start, end))
        return found


@dataclass
class _Pulls:
    """The forces on one vertex: for its neighbours on each side, (neighbour, shift wanted between the two, weight)."""

    above: list[tuple[int, float, float]] = field(default_factory=list)
    below: list[tuple[int, float, float]] = field(default_factory=list)


def placed(arrangement: Arrangement, spacing: Spacing) -> Places:
    """Return the places of all vertices; the first one begins at 0."""
    leaves, reaches = _ports(arrangement, spacing)
    pulls = _pulls(arrangement, leaves, reaches)
    at = [0.0] * arrangement.vertices
    rows = []
    for layer in arrangement.layers:
        apart = [(spacing.sizes[left] + spacing.sizes[right]) / 2 + spacing.gap for left, right in pairwise(layer)]
        rows.append((layer, apart))
        start = -sum(apart) / 2
        for vertex, distance in zip(layer, [*apart, 0.0], strict=True):
            at[vertex] = start
            start += distance
    for sides in (*["above", "below"] * ROUNDS, *["both", "both back"] * ROUNDS):
        for layer, apart in rows if sides in ("above", "both") else reversed(rows):
            _settle(layer, apart, pulls, at, sides)
    _straighten(rows, pulls, at)
    _relax(arrangement, spacing, Places(at, leaves, reaches))
    least = min((at[vertex] - spacing.sizes[vertex] / 2 for vertex in range(len(at))), default=0.0)
    return Places([middle - least for middle in at], leaves, reaches)


def _ports(arrangement: Arrangement, spacing: Spacing) -> tuple[list[float], list[float]]:
    """Return the offsets at which edges meet their nodes: side by side, in the order in which they arrive."""
    place = {vertex: index for layer in arrangement.layers for index, vertex in enumerate(layer)}
    found = ([0.0] * len(arrangement.chains), [0.0] * len(arrangement.chains))
    for offsets, end, neighbour in ((found[0], 0, 1), (found[1], -1, -2)):
        of_node: dict[int, list[int]] = {}
        for edge, chain in enumerate(arrangement.chains):
            of_node.setdefault(chain[end], []).append(edge)
        for node, edges in of_node.items():
            edges.sort(key=lambda edge: place[arrangement.chains[edge][neighbour]])
            gap = _port_gap(spacing, node, len(edges))
            for number, edge in enumerate(edges):
                offsets[edge] = (number - (len(edges) - 1) / 2) * gap
    return found


def _port_gap(spacing: Spacing, node: int, edges: int) -> float:
    return min(spacing.port_gap, (spacing.sizes[node] - 2 * spacing.inset) / max(1, edges - 1))


def _relax(arrangement: Arrangement, spacing: Spacing, places: Places) -> None:
    """Shift ports a little if that makes the piece at them straight; they keep their order."""
    for offsets, end, neighbour in ((places.leaves, 0, 1), (places.reaches, -1, -2)):
        edges_at = Counter(chain[end] for chain in arrangement.chains)
        for edge, chain in enumerate(arrangement.chains):
            aside = places.middles[chain[neighbour]] - places.middles[chain[end]] - offsets[edge]
            if abs(aside) <= spacing.slack * _port_gap(spacing, chain[end], edges_at[chain[end]]):
                offsets[edge] += aside


def _pulls(arrangement: Arrangement, leaves: list[float], reaches: list[float]) -> list[_Pulls]:
    leaving = Counter(chain[0] for chain in arrangement.chains)
    reaching = Counter(chain[-1] for chain in arrangement.chains)
    pulls = [_Pulls() for _ in range(arrangement.vertices)]
    for edge, chain in enumerate(arrangement.chains):
        for upper, lower in pairwise(chain):
            alone = leaving[upper] <= 1 and reaching[lower] <= 1  # no lines part or meet here
            shift = (leaves[edge] if upper == chain[0] else 0) - (reaches[edge] if lower == chain[-1] else 0)
            weight = STRAIGHT if alone else 1.0
            pulls[lower].above.append((upper, shift, weight))
            pulls[upper].below.append((lower, -shift, weight))
    return pulls


def _settle(layer: list[int], apart: list[float], pulls: list[_Pulls], at: list[float], sides: str) -> None:
    """Move a layer to where its neighbours pull it: those 'above', those 'below', or all."""
    wanted, weights = [], []
    for vertex in layer:
        pull = pulls[vertex]
        drawn = {"above": pull.above, "below": pull.below}.get(sides) or [*pull.above, *pull.below]
        weight = sum(force[2] for force in drawn)
        wanted.append(sum((at[other] + shift) * much for other, shift, much in drawn) / weight if drawn else at[vertex])
        weights.append(weight or 1.0)
    for vertex, place in zip(layer, fitted(wanted, weights, apart), strict=True):
        at[vertex] = place


def fitted(wanted: Sequence[float], weights: Sequence[float], apart: Sequence[float]) -> list[float]:
    """Return the places nearest to the wanted ones, by weighted squares, so that each is at least its distance after
    the one before it."""
    before = [0.0]
    for distance in apart:
        before.append(before[-1] + distance)
    blocks: list[tuple[float, float, int]] = []  # (mean, weight, members): vertices at their minimum distances
    for want, weight, offset in zip(wanted, weights, before, strict=False):
        mean, members = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, heavy, count = blocks.pop()
            mean = (mean * weight + other * heavy) / (weight + heavy)
            weight, members = weight + heavy, members + count
        blocks.append((mean, weight, members))
    flat = [mean for mean, _, members in blocks for _ in range(members)]
    return [mean + offset for mean, offset in zip(flat, before, strict=False)]


def _straighten(rows: list[tuple[list[int], list[float]]], pulls: list[_Pulls], at: list[float]) -> None:
    """Move each line of vertices between which no lines part or meet as one unit, or in as few straight pieces as its
    neighbours allow. Its place is the one that the edges at its ends pull it to, or the nearest free place."""
    room = {vertex: (layer, apart, index) for layer, apart in rows for index, vertex in enumerate(layer)}
    lines = sorted(_lines(rows, pulls), key=len, reverse=True)
    for _ in range(ROUNDS):
        for line in lines:
            for piece, least, most in _pieces(line, room, at):
                drawn = [*pulls[piece[0]].above, *pulls[piece[-1]].below]
                wanted = (
                    sum(at[neighbour] + shift for neighbour, shift, _ in drawn) / len(drawn) if drawn else at[piece[0]]
                )
                for vertex in piece:
                    at[vertex] = min(max(wanted, least), most)


def _pieces(
    line: list[int], room: dict[int, tuple[list[int], list[float], int]], at: list[float]
) -> list[tuple[list[int], float, float]]:
    """Return the longest pieces of a line, from above, that can be straight, each with the limits of its place."""
    pieces: list[tuple[list[int], float, float]] = []
    for vertex in line:
        layer, apart, index = room[vertex]
        least = at[layer[index - 1]] + apart[index - 1] if index else float("-inf")
        most = at[layer[index + 1]] - apart[index] if index + 1 < len(layer) else float("inf")
        # the vertex fits at its present place, except for rounding
        least, most = min(least, at[vertex]), max(most, at[vertex])
        if pieces and max(pieces[-1][1], least) <= min(pieces[-1][2], most):
            pieces[-1] = ([*pieces[-1][0], vertex], max(pieces[-1][1], least), min(pieces[-1][2], most))
        else:
            pieces.append(([vertex], least, most))
    return pieces


def _lines(rows: list[tuple[list[int], list[float]]], pulls: list[_Pulls]) -> Iterator[list[int]]:
    """Yield the lines, from above; each vertex is in one line."""
    for layer, _ in rows:
        for vertex in layer:
            above = pulls[vertex].above
            if len(above) == 1 and len(pulls[above[0][0]].below) == 1:
                continue  # in the line of the vertex above
            line = [vertex]
            while len(below := pulls[line[-1]].below) == 1 and len(pulls[below[0][0]].above) == 1:
                line.append(below[0][0])
            yield line
