"""The pages of the internals name files that exist: a module that moves takes its name on the pages along."""

import re
from pathlib import PurePosixPath

import pytest
from snippets import ROOT

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/internals").glob("*.md"))
FILES = {
    path.relative_to(ROOT).as_posix()
    for folder in ("acker", "topology", "spouts", "bolts", "bridge", "tests", "docs")
    for path in (ROOT / folder).rglob("*.py")
}
ENDS = {"/".join(PurePosixPath(file).parts[-many:]) for file in FILES for many in range(1, 8)}  # links/peer.py, say
PATH = re.compile(r"`([\w./-]+\.py)`")


@pytest.mark.parametrize("page", PAGES)
def test_each_file_that_a_page_names_exists(page: str) -> None:
    named = PATH.findall((ROOT / page).read_text("utf-8"))
    assert [file for file in named if file not in ENDS] == []


def test_pages_name_files() -> None:
    texts = [(ROOT / page).read_text("utf-8") for page in PAGES]
    assert sum(len(PATH.findall(text)) for text in texts) > 100


@pytest.mark.parametrize("page", [page for page in PAGES if not page.endswith("/index.md")])
def test_each_page_is_in_the_index_of_the_internals(page: str) -> None:
    index = (ROOT / "docs/internals/index.md").read_text("utf-8")
    assert f"({PurePosixPath(page).name})" in index
    assert f"\n{PurePosixPath(page).stem}\n" in index
