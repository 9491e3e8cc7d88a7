"""The report of a comparison: one file with all in it, which asks the network for nothing; says what the table says."""

import io
import re
import xml.etree.ElementTree
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import pytest
from comparison_kit import comparison, everything, failed, result
from PIL import Image

from bridge.compare.report.html import as_html, plots, write
from bridge.compare.results import Comparison, Kill

AGAIN = "kedge compare alerts.py --set 'path=a b.log' --rate 1000"
VOID = {"meta", "br", "line", "path", "use", "rect"}  # what has no end, or ends itself


class Page(HTMLParser):
    """What is in a page: its text, ids, what it refers to, and elements that are not closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.crossed: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.leads_to: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "xlink:href", "src", "action", "data"):
                (self.leads_to if (value or "").startswith("#") else self.loads).append((value or "").lstrip("#"))
            self.leads_to += re.findall(r"url\(#([^)]+)\)", value or "")
            self.loads += re.findall(r"url\((?!#)([^)]*)\)|(?:https?:)?//\S+", value or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)


@pytest.fixture(scope="module")
def whole() -> str:
    return as_html(everything(), AGAIN)


def svgs(text: str) -> list[str]:
    return re.findall(r'<svg role="img".*?</svg>', text, re.DOTALL)


def test_the_page_loads_nothing_and_runs_nothing(whole: str) -> None:
    page = Page(whole)
    assert page.loads == []
    assert {"script", "link", "iframe", "object", "embed", "img"} & {*page.tags} == set()
    assert "@import" not in whole
    assert "default-src 'none'" in whole


def test_the_page_is_well_formed_and_what_refers_leads_somewhere(whole: str) -> None:
    page = Page(whole)
    assert (page.open, page.crossed) == ([], [])
    assert len(page.ids) == len({*page.ids})
    assert {*page.leads_to} - {*page.ids} == set()
    for svg in svgs(whole):
        xml.etree.ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1))


def test_it_says_of_each_mode_what_the_table_says(whole: str) -> None:
    text = Page(whole).text
    for said in (
        "ssh-alerts: modes compared",
        "1,000 messages per second for 20 s in each of 2 rounds",
        "P50 from",
        "spark:default, Kedge's settings",
        "did not run: there is no javac here to compile its source with",
        "did not end: the driver has died (exit status 1)",
        "the feeder was the limit, 10 µs late",
        "not exact: 1 missing, 2 repeated, of 40 results",
        "the source ended after 1,200 messages",
        "nothing was stored or sent",
        "the best that Spark can do, not this topology",
        "kedge compare alerts.py --set 'path=a b.log' --rate 1000",
        "Linux x86_64",
    ):
        assert said.lower() in text.lower(), said


def test_it_has_a_plot_of_each_kind_and_of_a_kill_only_where_there_was_one(whole: str) -> None:
    assert [re.search(r'aria-label="([^"]*)"', svg)[1] for svg in svgs(whole)] == [  # type: ignore[index]
        "Latency by percentile of each mode",
        "Latency over time of each mode",
        "Latency around the kill in each mode",
        "Messages per second, of each mode",
        "CPU seconds per million messages, of each mode",
        "Memory of all processes, of each mode",
    ]
    peaceful = as_html(comparison(result(), result("embedded")), "again")
    assert "A kill in the middle" in whole
    assert "A kill in the middle" not in peaceful
    assert "around the kill" not in peaceful


def test_colours_of_plots_are_the_pages_so_that_they_can_be_seen_in_the_dark(whole: str) -> None:
    for svg in svgs(whole):
        assert re.findall(r"#[0-9a-fA-F]{6}", svg) == []
        assert "var(--text)" in svg
        assert re.search(r"var\(--series-\d\)", svg)
    style = whole[: whole.index("</style>")]
    used = {*re.findall(r"var\((--[\w-]+)\)", whole)}
    assert {name for name in used if f"{name}:" not in style} == set()
    assert "prefers-color-scheme:dark" in style


def test_words_in_plots_are_text_which_can_be_found_and_read_aloud(whole: str) -> None:
    percentiles, over_time, *_ = svgs(whole)
    assert re.findall(r">(50|90|99|99\.9)</text>", percentiles)[:2] == ["50", "90"]
    assert "percent of the results" in percentiles
    assert re.search(r">\d+ (?:µs|ms|s)</text>", over_time)


HOSTILE = "</td><script>alert(1)</script> $x_1$ \x1b[31m ü 日本 &amp;"


def test_what_a_name_or_an_error_says_is_text_in_the_page_and_in_its_plots_s11() -> None:
    shown = comparison(result("record", HOSTILE), failed("embedded", HOSTILE), notes=[HOSTILE], topology=HOSTILE)
    shown.settings["path"] = shown.machine["name"] = HOSTILE
    text = as_html(shown, HOSTILE)
    page = Page(text)
    assert "script" not in page.tags
    assert "\x1b" not in text
    assert (page.open, page.crossed) == ([], [])
    assert page.text.count("<script>alert(1)</script> $x_1$") >= 5
    assert plots.png(shown).startswith(b"\x89PNG")


def test_the_same_figures_give_the_same_page_whatever_the_users_own_settings_of_plots_are(whole: str) -> None:
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "svg.fonttype": "path"}):
        assert as_html(everything(), AGAIN) == whole
        assert matplotlib.rcParams["font.size"] == 30


@pytest.mark.parametrize(
    "shown",
    [
        comparison(),
        comparison(failed("record", "no")),
        comparison(result(latencies=[], arrivals=[], throughput_per_s=52_000.0)),
        comparison(result(count=1)),
        comparison(result(latencies=[0.0, 0.0], arrivals=[0.0, 0.0])),
        comparison(result(latencies=[1.0], arrivals=[])),
        comparison(result(kill=Kill("a worker", 10.0, None, None, None), latencies=[], arrivals=[])),
        Comparison("t", {}, {}, {}),
    ],
    ids=["no mode", "all failed", "no latencies", "one result", "no time at all", "no times", "killed", "no settings"],
)
def test_whatever_was_measured_there_is_a_report_of_it(shown: Comparison) -> None:
    page = Page(as_html(shown, AGAIN))
    assert (page.open, page.crossed) == ([], [])
    assert plots.png(shown).startswith(b"\x89PNG")


def test_it_says_that_there_was_a_kill_where_its_conditions_are() -> None:
    settings = {"rate": 1000.0, "seconds": 5.0, "rounds": 1, "kill": True, "values": ["password"], "warm_up_s": 2.0}
    text = Page(as_html(comparison(result("record"), settings=settings), AGAIN)).text
    assert "1,000 messages per second for 5 s in one round with a kill in the middle." in text
    assert "values set (--set) password" in text
    assert "they may be secrets" in text
    assert "seconds of warm-up before 2" in text


def test_a_plot_names_what_did_not_end_and_what_the_feeder_held_up() -> None:
    text = as_html(comparison(result("record", problem="it fell"), result("embedded", feeder_limited=True)), AGAIN)
    page = Page(text)
    for said in ("record, did not end", "embedded, the feeder was the limit"):
        assert page.text.count(said) == 2, said  # by the curves of each plot


def test_where_all_was_due_at_one_time_nothing_is_drawn_over_time() -> None:
    text = as_html(comparison(result("record"), result("embedded"), settings={"rate": None, "rounds": 2}), AGAIN)
    assert "Latency over time" not in text
    assert "All messages at once in each of 2 rounds" in Page(text).text


def test_a_report_of_many_results_stays_small() -> None:
    many = comparison(*(result(f"spark:{number}s", count=50_000, ms=number) for number in range(1, 9)))
    assert len(as_html(many, AGAIN)) < 1_000_000


# -- what is drawn


def test_the_curve_ends_in_the_maximum_and_never_falls() -> None:
    latencies = [float(number) for number in range(1, 2001)]
    xs, ys = plots.curve(latencies)
    assert (xs[0], ys[0], xs[-1], ys[-1]) == (1.0, 1.0, 2000.0, 2000.0)
    assert ys == sorted(ys)
    for share, wanted in ((0.5, 1000), (0.9, 1800), (0.99, 1980)):
        near = min(range(len(xs)), key=lambda at, share=share: abs(xs[at] - 1 / (1 - share)))  # type: ignore[misc]
        assert ys[near] == pytest.approx(wanted, rel=0.03)
    assert plots.curve([7.0]) == ([1.0], [7.0])


def test_a_moment_has_its_median_and_its_slowest_result() -> None:
    points = [(0.0, 1.0), (0.05, 5.0), (0.06, 2.0), (1.0, 9.0)]
    assert [*plots.binned(points, 0.5)] == [(0.25, 2.0, 5.0), (1.25, 9.0, 9.0)]


def test_a_row_looks_the_same_in_each_plot_and_rows_of_a_mode_differ_by_dashes() -> None:
    found = plots.looks_of(everything().modes)
    own, kedges = found["spark:default, Spark's own settings"], found["spark:default, Kedge's settings"]
    assert own.colour == kedges.colour
    assert own.dashes != kedges.dashes
    assert len({(one.colour, one.dashes) for one in found.values()}) == len(found)


def test_the_png_is_a_picture_in_which_each_mode_can_be_seen() -> None:
    shown = everything()
    picture = Image.open(io.BytesIO(plots.png(shown))).convert("RGB")
    assert picture.size == tuple(round(inches * plots.PNG_DPI) for inches in plots.PNG_IN)
    there = {colour for _, colour in picture.getcolors(1 << 24)}
    seen = {plots.looks_of(shown.modes)[one.title].colour for one in shown.modes if one.latencies}
    for number in seen:
        code = plots.SERIES[number][0]
        assert tuple(bytes.fromhex(code[1:])) in there, code


# -- its file


def test_a_report_takes_the_place_of_the_one_before_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "compare.html"
    path.write_text("old")
    path.chmod(0o640)
    write(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
    assert [*tmp_path.iterdir()] == [path]


def test_a_report_that_cant_be_written_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "compare.html"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(path, b"new")
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    there, link = tmp_path / "there.html", tmp_path / "link.html"
    link.symlink_to(there)
    write(link, b"new")
    assert (link.is_symlink(), there.read_bytes()) == (True, b"new")


def test_each_figure_of_a_table_carries_the_title_of_its_column_for_pages_too_narrow_for_columns(whole: str) -> None:
    tables = re.findall(r"<table>.*?</table>", whole, re.DOTALL)
    assert len(tables) == 2  # the figures, and the kill
    for table in tables:
        titles = re.findall(r"<th scope=\"col\"[^>]*>([^<]*)</th>", table)
        for row in re.findall(r"<tr[^>]*><th scope=\"row\".*?</tr>", table, re.DOTALL):
            if "colspan" not in row:  # it did not run
                assert ["mode", *re.findall(r'data-of="([^"]*)"', row)] == titles
    assert "attr(data-of)" in whole


def test_no_word_of_a_picture_is_cut_at_its_edge() -> None:
    rows = [
        result(title, title, ms=ms, kill=Kill("the driver", 10.0, gap, gap, None))
        for title, ms, gap in (
            ("Spark micro-batch, as soon as it can, tuned", 400.0, 700.0),
            ("Spark micro-batch, as soon as it can, Spark's defaults", 900.0, 14_000.0),
        )
    ]
    made = comparison(*rows)
    made.settings["kill"] = True
    picture = Image.open(io.BytesIO(plots.png(made))).convert("L")
    assert picture.crop((picture.width - 6, 0, picture.width, picture.height)).getextrema() == (255, 255)
