"""Every figure that a page tells is one of `benchmarks/results`, and says which (see `told_figures`)."""

from pathlib import Path

import pytest
from told_figures import blocks, is_rounded, measured, section, wrong

ROOT = Path(__file__).resolve().parents[2]
PAGES = [  # and the section that is held, where it is not the whole page
    ("README.md", "## How fast"),
    ("docs/fraud.md", "## How fast"),
    ("docs/how-to/spark.md", "## Choose a way"),
    ("docs/how-to/tune.md", ""),
    ("docs/when-to-use-what.md", ""),
    ("docs/explanation/speed.md", ""),
    *((str(page.relative_to(ROOT)), "") for page in sorted((ROOT / "docs" / "coming-from").glob("*.md"))),
]


@pytest.mark.parametrize(("page", "heading"), PAGES, ids=[page for page, _ in PAGES])
def test_each_figure_of_a_page_is_measured_and_says_where(page: str, heading: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [*wrong(page, section(text, heading) if heading else text)] == []


# -- the test itself


def told(text: str) -> list[str]:
    return [*wrong("page.md", text)]


def test_a_figure_without_a_source_is_found_wherever_it_stands() -> None:
    for text in (
        "It took 0.17 ms.",
        "- so: 38,000 payments a second",
        "- so: 38,000 payments per second",
        "| a | 12 ms |\n|---|---|",
        "a 1.4 × b",
        "3/s",
        "9 lines per second",
    ):
        assert "has no <!-- figures" in told(f"# A\n\n{text}\n")[0], text
    assert told("# A\n\nTwo of 3 examples, `10 ms`, [page](x/12-ms.md).\n\n```\n7 ms\n```\n") == []


def test_a_figure_that_its_file_does_not_have_is_found() -> None:
    source = "<!-- figures: - peers/identity:kedge -->\n"
    exact = measured("peers/identity:kedge")
    assert told(f"{source}On 2 cores {exact:,.0f} lines a second.") == []
    assert told(f"{source}On 2 cores {exact * 1.02:,.0f} lines a second.")[0].startswith("page.md:2: says ")


def test_a_number_more_than_there_are_sources_is_found() -> None:
    assert told("<!-- figures: - -->\n5 ms and 7 ms")[0] == "page.md:2: 2 numbers (5 7), and 1 sources"


def test_a_table_that_mixes_machines_is_found_and_a_paragraph_may() -> None:
    one, other = "peers/identity:kedge", "bridge/handover-records-per-s"
    figures = [f"{measured(name):.0f}" for name in (one, other)]
    row = f"<!-- figures: {one} {other} -->\n| {figures[0]}/s | {figures[1]}/s |\n"
    assert "mixes machines" in told(row)[0]
    assert told(row.replace("|", "")) == []


def test_a_result_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LookupError, match="0 results of peers are called 'identity:storm'"):
        told("<!-- figures: peers/identity:storm -->\n5/s")


def test_a_number_is_as_exact_as_it_is_written() -> None:
    assert is_rounded("117,000", 117_341)
    assert not is_rounded("118,000", 117_341)
    assert is_rounded("1.0", 0.996)
    assert not is_rounded("1.0", 1.06)
    assert not is_rounded("100", 110)
    assert is_rounded("11", 11.11)


def test_blocks_are_told_apart_as_a_reader_sees_them() -> None:
    text = "a\nb\n\n<!-- figures: x\n  y -->\n| c |\n| d |\n\n- e\n  f\n- g\n"
    assert [(one.line, one.text, one.sources) for one in blocks(text)] == [
        (1, "a\nb", None),
        (6, "| c |\n| d |", "x y"),
        (9, "- e\n  f", None),
        (11, "- g", None),
    ]
