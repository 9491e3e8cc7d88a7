"""The README's pictures: the live view is a screen that `docs/pictures.py` has seen, and says what the view says today.

`tests/cli/test_graph.py` holds the pictures of graphs.
"""

import importlib.util
import re
from types import ModuleType
from xml.etree import ElementTree

import pyte
import pytest
from snippets import ROOT

from topology.cli.output.table import COLUMNS

SVG = "{http://www.w3.org/2000/svg}"
LIVE = ROOT / "docs/images/live-view.svg"
MAKE = "make it again: python docs/pictures.py"


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_pictures", ROOT / "docs" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(svg: str) -> list[str]:
    """All texts of a picture, in their order, with plain spaces."""
    return [(one.text or "").replace("\xa0", " ") for one in written(svg)]


def written(svg: str) -> list[ElementTree.Element]:
    """The elements of a picture that hold text; Rich writes one for each line's end, too."""
    return [one for one in ElementTree.fromstring(svg).iter(f"{SVG}text") if (one.text or "").strip(" \n")]


def test_the_live_view_in_the_readme_has_the_columns_that_the_command_shows() -> None:
    shown = [re.split(r" {2,}", text.strip()) for text in texts(LIVE.read_text("utf-8"))]
    assert [column.title for column in COLUMNS] in shown, MAKE


def test_the_live_view_in_the_readme_shows_a_worker_that_died_and_came_back() -> None:
    shown = "\n".join(texts(LIVE.read_text("utf-8")))
    assert "was killed by SIGKILL" in shown
    assert "is back as pid" in shown
    assert re.search(r"1 death\b", shown)


def test_a_picture_of_a_screen_refers_to_nothing_elsewhere(pictures: ModuleType) -> None:
    for svg in (LIVE.read_text("utf-8"), pictures.svg(pyte.Screen(20, 2))):
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\"'\s]+", svg) == []
        assert re.findall(r"url\((?!#)", svg) == []


def test_a_picture_keeps_each_line_of_a_screen_with_its_colours_and_faint_text(pictures: ModuleType) -> None:
    screen = pyte.Screen(30, 2)
    faint = b"\x1b[2mold\x1b[0m".replace(pictures.FAINT, pictures.BLINK)
    pyte.ByteStream(screen).feed(b"\x1b[33m<warning>\x1b[0m plain\r\n" + faint)
    svg = pictures.svg(screen)
    title, *lines = texts(svg)
    assert (title, lines) == ("kedge demo", ["<warning>", " plain", "old"])
    classes = [one.get("class") for one in written(svg)][1:]
    fills = dict(re.findall(r"\.(live-r\d+) \{ fill: (#[0-9a-f]{6})", svg))
    yellow, plain, old = (fills[str(one)] for one in classes)
    assert yellow == "#fbbf24"
    assert len({yellow, plain, old}) == 3
