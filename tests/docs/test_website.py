"""The pages as HTML: built without a warning, as `make docs` builds them, and readable.

The build begins with the first test of this folder, and goes on while snippets, before these tests, wait for a demo.
"""

import html
import re
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
from snippets import ROOT

from topology import Config
from topology.cli.main import COMMANDS

DESCRIBED = re.compile(r"^\.\. auto(?:class|function|exception):: (\S+)", re.MULTILINE)
DOCSTRINGS = re.compile(r"<dd><p>(.+?)</p>", re.DOTALL)
LIMIT_S = 300.0  # for one build of the pages, on a slow machine


def plain(written: str) -> str:
    """Its words, without marks."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>|`", "", written))


@pytest.mark.slow
def test_the_pages_build_without_a_warning(built: Path) -> None:
    assert (built / "index.html").exists()


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("reference/command-line.html", [*(f"kedge {name}" for name in COMMANDS), "--workers"]),
        ("reference/configuration.html", [*(field.name for field in fields(Config)), "Open trees per spout task"]),
        ("reference/topology.html", ["local_or_shuffle", "Send equal values of these fields to the same task"]),
        ("reference/testing.html", ["run_bolt", "ScriptedSpout"]),
    ],
)
def test_the_reference_says_what_the_code_says(built: Path, page: str, words: list[str]) -> None:
    text = re.sub(r"<[^>]+>", "", (built / page).read_text("utf-8"))
    assert [word for word in words if word not in text] == []


REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.parametrize(
    "page", [page.stem for page in sorted(REFERENCE.glob("*.md")) if DESCRIBED.search(page.read_text("utf-8"))]
)
def test_all_that_the_reference_names_is_there_with_its_docstring(built: Path, page: str) -> None:
    written = (built / "reference" / f"{page}.html").read_text("utf-8")
    shown = plain(written)
    for name in DESCRIBED.findall((REFERENCE / f"{page}.md").read_text("utf-8")):
        assert f'id="{name}"' in written, name
        module, _, attribute = name.rpartition(".")
        said = (getattr(import_module(module), attribute).__doc__ or "").strip()
        assert said, name
        assert plain(html.escape(" ".join(said.split()[:4]), quote=False)) in shown, name


@pytest.mark.slow
def test_the_pages_build_without_spark_and_the_other_extras_and_say_the_same(tmp_path: Path, built: Path) -> None:
    """Which are not imported here, as where they are not installed."""
    absent = "autodoc_mock_imports=numpy,pandas,psycopg,pyarrow,pyspark"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-D", absent]
    made = subprocess.run(
        [*command, "-d", tmp_path / "trees", "docs", tmp_path / "html"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (made.returncode, made.stderr) == (0, "")
    page = "reference/bridge.html"
    assert DOCSTRINGS.findall((tmp_path / "html" / page).read_text("utf-8")) == DOCSTRINGS.findall(
        (built / page).read_text("utf-8")
    )


@pytest.mark.parametrize(
    "unreadable",
    [
        r"\*args, \*\*kwargs",
        r"<(?:factory|function)",
        r"~[a-z_]+\.",
        r" at 0x",
        r"^ ?(?:async )?def \w+\(.*\) -> None: *\w",
    ],
)
def test_signatures_and_examples_of_the_reference_can_be_read(built: Path, unreadable: str) -> None:
    for page in (built / "reference").glob("*.html"):
        text = html.unescape(re.sub(r"<[^>]+>", "", page.read_text("utf-8")))
        assert re.findall(unreadable, text, re.MULTILINE) == [], page.name


@pytest.mark.parametrize("page", ["topology", "spouts", "bolts", "testing", "configuration"])
def test_numbers_of_rules_which_no_page_explains_are_left_out(built: Path, page: str) -> None:
    text = re.sub(r"<[^>]+>", "", (built / f"reference/{page}.html").read_text("utf-8"))
    assert re.findall(r".*\([A-E]\d+\b.*", text) == []


def test_no_page_asks_the_network_for_anything(built: Path) -> None:
    loaded = re.compile(r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["'](?:https?:)?//[^"']+""")
    assert [page.name for page in built.rglob("*.html") if loaded.search(page.read_text("utf-8"))] == []
