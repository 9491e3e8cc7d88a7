"""How pictures are laid out: nothing overlaps, edges go one way and around everything, and all of it is in the frame.

Properties over made-up graphs: diamonds, fans, long ways, several edges between one pair, parts that hang alone.
"""

import re
import time
from collections.abc import Iterator
from itertools import combinations, pairwise, product
from random import Random

import pytest
from drawing_kit import graphs, pictures, plain_picture
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from topology.drawing import as_svg, as_text
from topology.drawing.as_svg import STACK, Item, Point, Scene, scene
from topology.drawing.boxes import TangledError, boxes, tracks
from topology.drawing.layout import Arrangement, arranged, crossings, fitted
from topology.drawing.model import Picture
from topology.drawing.widths import columns

LAID_OUT = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
HUNDRED_MAX_S = 1.0  # of a picture of a hundred components on a quiet machine, which takes a tenth of it


# -- layers


@LAID_OUT
@given(graphs())
def test_edges_pass_one_layer_after_the_other_and_every_vertex_is_in_one(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    nodes, edges = graph
    found = arranged(nodes, edges)
    depth = {vertex: row for row, layer in enumerate(found.layers) for vertex in layer}
    assert sorted(depth) == [*range(found.vertices)]
    assert sum(map(len, found.layers)) == len(depth)
    for (source, target), chain, label in zip(edges, found.chains, found.labels, strict=True):
        assert (chain[0], chain[-1]) == (source, target)
        assert [depth[vertex] for vertex in chain] == [*range(depth[source], depth[target] + 1)]
        assert label in chain[1:-1]
        assert depth[label] % 2 == 1
    assert all(depth[node] % 2 == 0 for node in range(nodes))


def test_a_graph_that_can_be_drawn_without_crossings_is() -> None:
    for edges, nodes in (
        ([(0, 4), (1, 3), (2, 5), (0, 3)], 6),
        ([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], 5),
        ([(0, 1), (0, 3), (1, 2), (2, 3)], 4),
        ([(0, number) for number in range(1, 9)], 9),
    ):
        assert crossed(arranged(nodes, edges)) == 0, edges


def test_what_must_cross_crosses_once() -> None:
    assert crossed(arranged(4, [(0, 2), (0, 3), (1, 2), (1, 3)])) == 1


def crossed(found: Arrangement) -> int:
    below: dict[int, list[int]] = {vertex: [] for layer in found.layers for vertex in layer}
    for chain in found.chains:
        for upper, lower in pairwise(chain):
            below[upper].append(lower)
    return crossings(found.layers, below)


def test_a_source_stands_beside_what_reads_it_however_deep_that_is() -> None:
    found = arranged(5, [(0, 1), (1, 2), (2, 4), (3, 4)])
    assert next(row for row, layer in enumerate(found.layers) if 3 in layer) == 4


# -- places


@given(
    st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 10), st.floats(0, 50)), min_size=1, max_size=8),
    st.lists(st.floats(-20, 20), min_size=8, max_size=8),
)
def test_fitted_places_keep_their_distances_and_none_that_do_are_nearer(
    wanted: list[tuple[float, float, float]], shifts: list[float]
) -> None:
    wants, weights, apart = [one[0] for one in wanted], [one[1] for one in wanted], [one[2] for one in wanted[1:]]
    found = fitted(wants, weights, apart)
    assert all(right - left >= gap - 1e-6 for left, right, gap in zip(found, found[1:], apart, strict=False))
    other = [found[0] + shifts[0]]
    for place, before, gap, shift in zip(found[1:], found, apart, shifts[1:], strict=False):
        other.append(other[-1] + max(gap, place - before + shift))

    def cost(places: list[float]) -> float:
        return sum(weight * (place - want) ** 2 for place, want, weight in zip(places, wants, weights, strict=True))

    assert cost(found) <= cost(other) + 1e-6


# -- SVG


def rectangle(item: Item, more: float = 0.0) -> tuple[float, float, float, float]:
    """Left, top, right and bottom; `more` to the right and below."""
    half_width, half_height = item.width / 2, item.height / 2
    return item.x - half_width, item.y - half_height, item.x + half_width + more, item.y + half_height + more


def along(points: list[Point], down: bool) -> Iterator[Point]:
    """Points on the curve that is drawn through these: as the SVG's path has it."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", as_svg._path(points, down))]
    kinds = re.findall("[MLC]", as_svg._path(points, down))
    pen, at = (0.0, 0.0), 0
    for kind in kinds:
        if kind == "C":
            xs, ys = [pen[0], *numbers[at : at + 6 : 2]], [pen[1], *numbers[at + 1 : at + 6 : 2]]
            for step in range(1, 21):
                t = step / 20
                parts = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
                yield (
                    sum(p * x for p, x in zip(parts, xs, strict=True)),
                    sum(p * y for p, y in zip(parts, ys, strict=True)),
                )
            pen, at = (xs[-1], ys[-1]), at + 6
        else:
            to = numbers[at], numbers[at + 1]
            for step in range(21):
                t = step / 20 if kind == "L" else 1.0
                yield pen[0] + (to[0] - pen[0]) * t, pen[1] + (to[1] - pen[1]) * t
            pen, at = to, at + 2


@LAID_OUT
@given(pictures())
def test_no_component_and_no_label_lies_on_another_and_all_are_in_the_frame(picture: Picture) -> None:
    drawn = scene(picture)
    areas = [rectangle(item, STACK) for item in drawn.nodes] + [rectangle(item) for item in drawn.labels]
    for one, other in combinations(areas, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    for left, top, right, bottom in areas:
        assert left >= 0
        assert top >= 60
        assert right <= drawn.width
        assert bottom <= drawn.height - 40


@LAID_OUT
@given(pictures())
def test_text_is_inside_of_its_component(picture: Picture) -> None:
    for item in scene(picture).nodes:
        assert all(line.width <= item.width - 20 for line in item.lines)
        assert sum(line.height for line in item.lines) <= item.height
        assert sum(chip.width for chip in item.chips) <= item.width


@LAID_OUT
@given(pictures())
def test_edges_go_one_way_from_their_source_over_their_label_to_their_target(picture: Picture) -> None:
    drawn = scene(picture)
    for edge, label, (before, after) in zip(picture.edges, drawn.labels, drawn.strokes, strict=True):
        towards = 1 if drawn.down else 0
        way = [round(point[towards], 6) for point in (*before, *after)]
        assert way == sorted(way)
        for item, end, side in (
            (drawn.nodes[edge.source], before[0], 1),
            (label, before[-1], -1),
            (label, after[0], 1),
            (drawn.nodes[edge.target], after[-1], -1),
        ):
            middle, half = (item.y, item.height / 2) if drawn.down else (item.x, item.width / 2)
            assert end[towards] == pytest.approx(middle + side * half)
            across, room = (item.x, item.width / 2) if drawn.down else (item.y, item.height / 2)
            assert abs(end[1 - towards] - across) <= room


@LAID_OUT
@given(pictures(nodes_max=9, edges_max=14))
def test_edges_go_around_everything(picture: Picture) -> None:
    drawn = scene(picture)
    areas = [rectangle(item) for item in (*drawn.nodes, *drawn.labels)]
    for strokes in drawn.strokes:
        for points in strokes:
            for x, y in along(points, drawn.down):
                assert 0 <= x <= drawn.width
                assert 0 <= y <= drawn.height
                for left, top, right, bottom in areas:
                    assert not (left + 0.2 < x < right - 0.2 and top + 0.2 < y < bottom - 0.2)


def test_edges_that_meet_at_a_component_stand_apart() -> None:
    for picture in (plain_picture([(0, number) for number in range(1, 9)], 9), plain_picture([(0, 1)] * 12, 2)):
        drawn = scene(picture)
        starts = sorted(before[0][not drawn.down] if not drawn.down else before[0][0] for before, _ in drawn.strokes)
        assert all(right - left >= 5 for left, right in pairwise(starts))


def test_a_chain_is_one_straight_line() -> None:
    drawn = scene(plain_picture([(0, 1), (1, 2), (2, 3)], 4))
    assert {round(x, 3) for strokes in drawn.strokes for points in strokes for x, _ in points} == {
        round(drawn.nodes[0].x, 3)
    }


def test_a_wide_fan_runs_to_the_right_and_a_chain_downwards() -> None:
    assert not scene(plain_picture([(0, number) for number in range(1, 9)], 9)).down
    assert scene(plain_picture([(number, number + 1) for number in range(8)], 9)).down


def random_picture(seed: int, nodes: int, edges: int) -> Picture:
    random = Random(seed)
    pairs = [tuple(sorted(random.sample(range(nodes), 2))) for _ in range(edges)]
    return plain_picture([(source, target) for source, target in pairs], nodes)


def test_a_hundred_components_are_laid_out_within_a_second() -> None:
    picture = random_picture(1, 100, 200)
    started = time.process_time()
    as_svg.svg(picture)
    assert time.process_time() - started < 4 * HUNDRED_MAX_S  # machines differ


def test_the_same_picture_is_drawn_the_same_way() -> None:
    assert as_svg.svg(random_picture(7, 30, 60)) == as_svg.svg(random_picture(7, 30, 60))


# -- text


@LAID_OUT
@given(pictures(nodes_max=8, edges_max=10), st.integers(1, 200), st.booleans())
def test_text_is_no_wider_than_the_terminal_and_loses_nobody(picture: Picture, width: int, plain: bool) -> None:
    lines = as_text.text(picture, width, plain=plain).split("\n")
    assert max(map(columns, lines)) <= max(width, as_text.WIDTH_MIN)
    assert not plain or "".join(lines).isascii()
    together = "".join(lines)
    assert all(re.search(rf"n{number}\D", together) for number in range(len(picture.nodes)))


@LAID_OUT
@given(graphs(8, 12), st.booleans())
def test_the_edges_can_be_read_back_from_the_boxes(graph: tuple[int, list[tuple[int, int]]], plain: bool) -> None:
    nodes, edges = graph
    assume(edges)
    picture = plain_picture(edges, nodes)
    try:
        rows = boxes(picture, down=True, flat=True, plain=False, said=lambda text: text)
    except TangledError:
        return  # a list is shown in its place
    broad = max(map(len, rows))
    assert sorted(read_back([row.ljust(broad) for row in rows])) == sorted(
        (edge.record, f"n{edge.source}", f"n{edge.target}") for edge in picture.edges
    )


def read_back(rows: list[str]) -> Iterator[tuple[str, str, str]]:
    """(record, source, target) of each arrow, followed backwards: over its label, and out of the box it comes from."""
    for y, x in product(range(len(rows)), range(len(rows[0]))):
        if rows[y][x] == "▼":
            label_y, label_x = followed(rows, y - 1, x)
            label = next(
                found
                for found in re.finditer(r"(R\d+), all, 1 → 1 task", rows[label_y])
                if found.start() <= label_x < found.end()
            )
            source_y, source_x = followed(rows, label_y - 1, label_x)
            yield label[1], name_around(rows, source_y - 2, source_x), name_around(rows, y + 2, x)


MOVES = {"up": (-1, 0), "left": (0, -1), "right": (0, 1)}
TURNS = {("up", "┐"): "left", ("up", "┌"): "right", ("left", "└"): "up", ("right", "┘"): "up"}
ALONG = {"up": "│┼", "left": "─┼", "right": "─┼"}


def followed(rows: list[str], y: int, x: int) -> tuple[int, int]:
    """Where a line that is followed upwards ends: at a label, or at a border that it comes out of."""
    way = "up"
    while way != "up" or rows[y][x] in "│┼┐┌":
        turned = TURNS.get((way, rows[y][x]))
        assert turned or rows[y][x] in ALONG[way], (rows[y][x], way)
        way = turned or way
        y, x = y + MOVES[way][0], x + MOVES[way][1]
        if way == "up" and rows[y][x] in "└┘":
            way = {"└": "right", "┘": "left"}[rows[y][x]]
            y, x = y + MOVES[way][0], x + MOVES[way][1]
    return y, x


def name_around(rows: list[str], y: int, x: int) -> str:
    """The name in a box that spans this column."""
    return next(found[1] for found in re.finditer(r"│ +(n\d+) +│", rows[y]) if found.start() <= x < found.end())


def test_what_fits_is_drawn_and_what_does_not_is_listed() -> None:
    chain = plain_picture([(0, 1), (1, 2)], 3)
    assert "▶" in as_text.text(chain, 80)
    assert "▼" in as_text.text(chain, 40)
    assert "\n  ──all──▶ n1" in as_text.text(plain_picture([(0, 1), (0, 2), (0, 3)], 4), 24)
    many = plain_picture([(number, number + 1) for number in range(24)], 25)
    assert "  ──all──▶ n1  (R0, 1 → 1 task)" in as_text.text(many, 80)


def test_fifteen_components_are_drawn_in_eighty_columns() -> None:
    ladder = [(number, number + step) for number in range(12) for step in (2, 3)]
    assert "──all──▶" not in as_text.text(plain_picture(ladder, 15), 80)


def test_plain_text_has_no_box_drawing() -> None:
    drawn = as_text.text(plain_picture([(0, 1), (0, 2), (1, 3), (2, 3)], 4), 80, plain=True)
    assert drawn.isascii()
    assert ">" in drawn
    assert "1 -> 1 task" in drawn


@given(st.lists(st.integers(0, 30), unique=True, max_size=6), st.randoms(use_true_random=False))
def test_lines_aside_never_share_a_piece(leaves: list[int], random: Random) -> None:
    arrives = random.sample(range(31), len(leaves))
    lines = [*zip(sorted(leaves), sorted(arrives) if random.random() < 0.5 else arrives, strict=True)]
    try:
        found = tracks(lines)
    except TangledError:
        return
    for (one, track), (other, beside) in combinations(zip(lines, found, strict=True), 2):
        if track is None or beside is None:
            continue
        if track == beside:
            assert max(one) < min(other) - 1 or max(other) < min(one) - 1
        assert one[0] != other[1] or track < beside
        assert other[0] != one[1] or beside < track


def test_lines_that_change_places_are_refused() -> None:
    with pytest.raises(TangledError):
        tracks([(0, 4), (4, 0)])


def test_a_picture_that_can_only_be_tangled_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def tangled(*_: object, **__: object) -> list[str]:
        raise TangledError("on purpose")

    monkeypatch.setattr(as_text, "boxes", tangled)
    assert "  ──all──▶ n1  (R0, 1 → 1 task)" in as_text.text(plain_picture([(0, 1)], 2), 80)


def test_a_scene_of_one_component_is_a_scene() -> None:
    drawn: Scene = scene(plain_picture([], 1))
    assert len(drawn.nodes) == 1
    assert as_text.text(plain_picture([], 1), 80).count("n0") == 1
