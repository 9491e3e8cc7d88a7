"""What a picture of a topology says, in each form, and what must never be in it."""

import re
import subprocess
import sys
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

import pytest
from declaring_kit import Holding, Line, Lines, Malformed, Parse, Sink
from drawing_kit import ByRegion, Keeps, SecretLines, called, small

from topology import Config, DeclarationError, Record, Topology, drawing
from topology.drawing import as_mermaid
from topology.drawing.model import picture, tasks_text
from topology.drawing.widths import columns, cut, ems, wrapped

AWKWARD = [
    'A"B#quot;',
    "a|b[c](d){e}<f>&amp;`g`",
    "**b** _i_ 1. x",
    "%%{init: {}}%%",
    "\\n $$x$$",
    "\x1b]0;\n",
    "日本 é 😀",
]
SVG = "{http://www.w3.org/2000/svg}"


class Waits(Sink):
    async def process(self, record: Record) -> None:
        """Takes anything, after a while."""

    def tick(self, now: datetime) -> None:
        """Called every so often."""


def forms(topology: Topology, **options: Any) -> dict[str, str]:
    return {
        "text": drawing.text(topology, **options),
        "plain": drawing.text(topology, plain=True, **options),
        "list": drawing.text(topology, width=34, **options),
        "mermaid": drawing.mermaid(topology, **options),
        "svg": drawing.svg(topology, **options),
    }


def words_of(svg: str) -> list[str]:
    """What an SVG shows, line by line."""
    return ["".join(one.itertext()) for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]


# -- what must not be in it


def test_a_topology_with_mistakes_is_not_drawn_and_all_of_them_are_told() -> None:
    topology: Any = Topology("wrong")
    topology.spout("lines", Lines())
    topology.bolt("none", Sink())
    for draw in (drawing.svg, drawing.mermaid, drawing.text):
        with pytest.raises(DeclarationError, match="has 2 mistakes"):
            draw(topology)


def test_nothing_that_was_given_to_a_component_or_a_setting_is_in_a_picture_S12() -> None:
    topology: Any = Topology("secret", Config(max_pending=4711))
    lines = topology.spout("lines", SecretLines("canary"))
    keep = topology.bolt("keep", Keeps("canary"), lines.global_())
    topology.bolt("last", Sink(), keep[Line].custom(ByRegion("canary")))
    for drawn in forms(topology, workers=2).values():
        assert "canary" not in drawn
        assert "4711" not in drawn


@pytest.mark.parametrize("name", AWKWARD)
def test_a_class_may_be_called_anything_and_nothing_obeys_it_S11(name: str) -> None:
    for form, drawn in forms(small(called(name))).items():
        assert "\x1b" not in drawn, form
        assert all(line.isprintable() for line in drawn.replace("\u200b", "").split("\n")), form


@pytest.mark.parametrize("name", AWKWARD)
def test_an_svg_shows_a_class_under_its_own_name_and_stays_well_formed_S11(name: str) -> None:
    shown = name if name.isprintable() else "\\x1b]0;\\n"
    assert f"{shown} ×2" in " ".join(words_of(drawing.svg(small(called(name)))))


def test_an_svg_needs_nothing_else_and_runs_nothing() -> None:
    svg = drawing.svg(small(called('"/><script>alert(1)</script>')), workers=2)
    assert {one.tag.removeprefix(SVG) for one in ElementTree.fromstring(svg).iter()} == {
        *("svg", "title", "desc", "style", "rect", "path", "text")
    }
    assert not re.search(r"url\(|@import|@font-face|href|javascript|\bon\w+=", svg)
    assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]


def test_an_overlong_class_name_is_cut_and_says_so() -> None:
    topology = small(called("X" * 5000))
    assert max(map(len, drawing.mermaid(topology).split("\n"))) < 300
    assert any("…" in word for word in words_of(drawing.svg(topology)))


# -- what is in it


def test_every_form_has_the_components_the_records_the_groupings_and_the_tasks() -> None:
    for form, drawn in forms(small()).items():
        said = re.sub(r"\s+", " ", " ".join(words_of(drawn)) if form == "svg" else drawn)
        for word in ("lines", "Lines", "keep", "Keeps", "last", "Sink", "fields text, number", "custom ByRegion", "1 "):
            assert word in said, (form, word)
        assert all(flow in said for flow in ("1 -> 3", "3 -> 2")) or all(flow in said for flow in ("1 → 3", "3 → 2")), (
            form
        )
        assert "state by text, number" in said, form
        assert "Malformed unread" in said, form


def test_a_sink_is_a_bolt_that_emits_nothing() -> None:
    assert [node.kind for node in picture(small()).nodes] == ["spout", "bolt", "sink"]
    assert picture(small()).described == "1 spout, 1 bolt, 1 sink"


def test_each_grouping_is_called_as_the_method_that_makes_it() -> None:
    topology: Any = Topology("groupings")
    lines = topology.spout("lines", Lines())
    hold = topology.bolt("hold", Holding(), lines.partial_key("text"))
    for number, read in enumerate(
        (hold.shuffle(), hold.local_or_shuffle(), hold.all(), hold.global_(), hold.direct(), hold.fields("why"))
    ):
        topology.bolt(f"b{number}", Sink(), read)
    assert [edge.grouping for edge in picture(topology).edges] == [
        *("partial_key text", "shuffle", "local_or_shuffle", "all", "global", "direct", "fields why")
    ]


def test_concurrency_and_ticks_are_shown_where_they_are_set() -> None:
    topology: Any = Topology("notes")
    lines = topology.spout("lines", Lines())
    topology.bolt("waits", Waits(), lines.shuffle(), concurrency=64, every="10s")
    assert [node.notes for node in picture(topology).nodes] == [(), ("concurrency 64", "every 10s")]


def test_the_state_of_a_global_grouping_is_one_as_a_whole() -> None:
    topology: Any = Topology("whole")
    keep = topology.bolt("keep", Keeps(), topology.spout("lines", Lines()).global_())
    topology.bolt("both", Sink(), keep[Line].all(), keep[Malformed].all())
    assert picture(topology).nodes[1].notes == ("state as a whole",)
    assert [(edge.source, edge.target, edge.record) for edge in picture(topology).edges] == [
        *((0, 1, "Line"), (1, 2, "Line"), (1, 2, "Malformed"))
    ]


def test_with_workers_each_form_says_where_the_tasks_would_be() -> None:
    drawn = forms(small(), workers=2)
    assert "keep   worker 0: tasks 0, 2; worker 1: task 1" in drawn["text"]
    assert "tasks 0, 2 on worker 0<br/>task 1 on worker 1" in drawn["mermaid"]
    assert {"w0 ×2", "w1 ×1", "1 spout, 1 bolt, 1 sink, on 2 workers"} <= {*words_of(drawn["svg"])}
    assert not any("worker" in one for one in forms(small()).values())


def test_workers_that_would_have_nothing_to_do_are_not_counted() -> None:
    assert picture(small(), 3).described == "1 spout, 1 bolt, 1 sink, on 3 workers"
    assert picture(small(), 5).described == "1 spout, 1 bolt, 1 sink, on 3 of 5 workers"
    assert picture(small(), 1).described == "1 spout, 1 bolt, 1 sink, on 1 worker"


def test_many_workers_and_many_tasks_are_summed_up() -> None:
    topology: Any = Topology("many")
    topology.bolt("last", Sink(), topology.spout("lines", Lines()).shuffle(), tasks=1024)
    assert "on 64 workers" in words_of(drawing.svg(topology, workers=64))
    assert "on 64 workers" in drawing.mermaid(topology, workers=64)
    assert "worker 1: 512 tasks" in drawing.text(topology, workers=2)
    assert tasks_text([3]) == "task 3"


# -- the forms


def test_the_same_topology_gives_the_same_picture_in_every_process() -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from drawing_kit import small\nfrom topology import drawing\n"
        "t = small(); print(drawing.svg(t), drawing.mermaid(t), drawing.text(t, plain=True))"
    )
    paths = [path for path in sys.path if path]
    one, other = (
        subprocess.run(
            [sys.executable, "-c", code, *paths],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert one == other
    assert one.startswith("<svg")


def test_an_svg_is_ascii_and_has_a_title_and_a_description_in_words() -> None:
    svg = drawing.svg(small())
    root = ElementTree.fromstring(svg)
    assert svg.isascii()
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "small"
    said = root.findtext(f"{SVG}desc") or ""
    assert "From spout lines to bolt keep: Line, fields text, number, 1 → 3 tasks." in said


def test_an_svg_follows_the_readers_system_into_the_dark() -> None:
    style = ElementTree.fromstring(drawing.svg(small())).findtext(f"{SVG}style") or ""
    bright, dark = style.split("@media (prefers-color-scheme:dark)")
    for kind in ("page", "name", "small", "edge", "spout", "bolt", "sink"):
        assert f".kedge-{kind}{{" in bright or f".kedge-{kind}," in bright
        assert f".kedge-{kind}{{" in dark or f".kedge-{kind}," in dark


def test_a_notebook_shows_a_topology_and_nothing_while_it_has_mistakes() -> None:
    topology = small()
    assert topology._repr_svg_() == drawing.svg(topology)
    unread: Any = Topology("unread")
    unread.spout("lines", Lines())
    assert unread._repr_svg_() is None


def test_a_declaration_alone_loads_no_drawing() -> None:
    code = "import sys, topology; sys.exit(any(name.startswith('topology.drawing') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", AWKWARD)
def test_mermaid_gets_nothing_of_a_name_that_it_could_obey(name: str) -> None:
    (line,) = (one for one in drawing.mermaid(small(called(name))).split("\n") if one.startswith("    n2{{"))
    inner = line.removeprefix('    n2{{"last<br/>').removesuffix(' ×2"}}:::sink')
    assert re.fullmatch(r"(#\d+;|[^!-/:-@\[-`{-~])*", inner), inner
    decoded = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), inner).replace("\u200b", "")
    assert decoded == (name if name.isprintable() else "\\x1b]0;\\n")


def test_mermaid_meets_none_of_its_own_words_as_an_id() -> None:
    topology: Any = Topology("end")
    lines = topology.spout("end", Lines())
    topology.bolt("subgraph", Sink(), topology.bolt("o-x", Parse(), lines.shuffle())[Malformed].all())
    drawn = drawing.mermaid(topology)
    assert drawn.startswith('---\ntitle: "end"\n---\nflowchart LR\n')
    assert re.findall(r"^    (n\d)\W", drawn, re.M) == ["n0", "n1", "n2", "n0", "n1"]


def test_mermaid_can_be_written_in_any_encoding() -> None:
    drawn = as_mermaid.encoded(drawing.mermaid(small(called("日"))), "ascii")
    assert drawn.isascii()
    assert "1 #8594; 3 tasks" in drawn
    assert "#26085;" in drawn


# -- the width of text


def test_wide_characters_have_two_columns_and_marks_none() -> None:
    assert columns("abc") == 3
    assert columns("日本") == 4
    assert columns("e\u0301") == 1


def test_text_in_a_picture_is_measured_rather_too_wide() -> None:
    assert ems("abc") == pytest.approx(3 * 0.62)
    assert ems("日") >= 1.0
    assert ems("😀") >= 1.25


def test_what_is_cut_says_so_and_fits() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdef", 4) == "abc…"
    assert columns(cut("日本語", 4)) <= 4


def test_long_names_break_where_they_have_joints() -> None:
    assert wrapped("lines-of-the_log", 9) == ["lines-of-", "the_log"]
    assert wrapped("ParseFailures", 8) == ["Parse", "Failures"]
    assert wrapped("x" * 10, 4) == ["xxxx", "xxxx", "xx"]
    assert wrapped("", 4) == [""]
