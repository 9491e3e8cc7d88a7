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


def promises(page: str) -> list[str]:
    """The rows of a page's table of promises, with each link as the file that it leads to."""
    text = (ROOT / page).read_text("utf-8")
    table = text[text.index("| promise |") :].split("\n\n")[0]
    found = table.replace("[order](order.md)", "order").splitlines()
    return [
        re.sub(r"\]\(([^)#]+)", lambda link: f"]({(ROOT / page).parent.joinpath(link[1]).resolve()}", one)
        for one in found
    ]


def test_the_readme_promises_what_the_page_on_guarantees_does_by_the_same_tests() -> None:
    assert promises("README.md") == promises("docs/explanation/guarantees.md")
    assert len(promises("README.md")) > 6
