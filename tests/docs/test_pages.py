"""The pages build without a warning, links lead somewhere, and figures are right."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from snippets import ROOT, pages

from topology import Config
from topology.cli.main import COMMANDS

ACKING = (ROOT / "docs/explanation/acking.md").read_text("utf-8")
AT_THE_ROOT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "SUPPORT.md", "examples/README.md")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages, built as `make docs` builds them; every warning is an error."""
    to = tmp_path_factory.mktemp("html")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-d", f"{to}/.trees", "docs", str(to)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    if ran.returncode:
        pytest.fail(ran.stderr, pytrace=False)
    return to


def test_the_pages_build_without_a_warning(built: Path) -> None:
    assert (built / "index.html").exists()


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("reference/command-line.html", [*(f"kedge {name}" for name in COMMANDS), "--workers"]),
        ("reference/configuration.html", [*(field.name for field in fields(Config)), "open trees a spout task"]),
        ("reference/topology.html", ["local_or_shuffle", "Equal values of these fields go to the same task"]),
        ("reference/testing.html", ["run_bolt", "ScriptedSpout"]),
    ],
)
def test_the_reference_says_what_the_code_says(built: Path, page: str, words: list[str]) -> None:
    text = re.sub(r"<[^>]+>", "", (built / page).read_text("utf-8"))
    assert [word for word in words if word not in text] == []


def test_no_page_asks_the_network_for_anything(built: Path) -> None:
    loaded = re.compile(r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["'](?:https?:)?//[^"']+""")
    assert [page.name for page in built.rglob("*.html") if loaded.search(page.read_text("utf-8"))] == []


@pytest.mark.parametrize("page", [*pages(), *AT_THE_ROOT])
def test_every_link_to_a_file_leads_to_one(page: str) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)[^)]*\)", text)
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


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
