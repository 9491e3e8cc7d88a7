"""Links lead somewhere, figures are right, and each page ends with a line end."""

import re

import pytest
from snippets import ROOT, pages

ACKING = (ROOT / "docs/explanation/acking.md").read_text("utf-8")
AT_THE_ROOT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "SUPPORT.md", "examples/README.md")


@pytest.mark.parametrize("page", [*pages(), *AT_THE_ROOT])
def test_every_link_to_a_file_leads_to_one(page: str) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)[^)]*\)", text)
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("page", [*pages(), *AT_THE_ROOT])
def test_every_page_ends_with_one_line_end(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert text.rstrip() + "\n" == text


def test_every_figure_of_the_page_on_acking_is_the_xor_that_it_is_said_to_be() -> None:
    sums = re.findall(r"`([0-9A-F]{2}(?: \^ [0-9A-F]{2})+)`[^`|]*(?:=|is) `([0-9A-F]{2})`", ACKING)
    sums += [(right, left) for left, right in re.findall(r"`([0-9A-F]{2})`, which is `([^`]+)`", ACKING)]
    assert len(sums) == 5
    for terms, total in sums:
        assert f"{xor(terms.split(' ^ ')):02X}" == total, f"{terms} = {total}"


def xor(terms: list[str]) -> int:
    value = 0
    for term in terms:
        value ^= int(term, 16)
    return value


def section(page: str, heading: str) -> str:
    return (ROOT / page).read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_readme_makes_three_promises_and_links_the_page_that_has_their_limits_and_tests() -> None:
    promises = section("README.md", "Three promises")
    assert len(re.findall(r"^\d\. ", promises, re.MULTILINE)) == 3
    assert "(docs/explanation/guarantees.md)" in promises


def test_every_promise_that_the_table_of_guarantees_keeps_names_its_test() -> None:
    text = (ROOT / "docs/explanation/guarantees.md").read_text("utf-8")
    table = text[text.index("| promise |") :].split("\n\n")[0]
    cells = [cell.strip() for row in table.splitlines()[2:] for cell in row.strip("|").split("|")[1:]]
    kept = [cell for cell in cells if cell.startswith("yes")]
    assert len(kept) > 12
    assert [cell for cell in kept if "/tests/" not in cell] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 130


INDEX = (ROOT / "docs/index.md").read_text("utf-8")
LISTED = [
    name
    for tree in re.findall(r"```\{toctree\}\n(.*?)```", INDEX, re.DOTALL)
    for name in tree.splitlines()
    if name and not name.startswith(":")
]


@pytest.mark.parametrize("name", LISTED)
def test_every_page_of_the_index_has_a_link_with_a_sentence(name: str) -> None:
    assert re.search(rf"^- \[[^\]]+\]\({re.escape(name)}\.md\): \S.*\S", INDEX, re.MULTILINE), name


def test_the_index_begins_as_the_readme_does() -> None:
    assert INDEX.startswith("```{include} ../README.md\n")
