"""The pictures on the pages of concepts and of time are what their script draws, and show what the groupings do."""

import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from snippets import ROOT

IMAGES = ROOT / "docs" / "images"
PAGE = (ROOT / "docs" / "concepts.md").read_text("utf-8")


@pytest.fixture(scope="module")
def drawing() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs"))
    import draw_concepts

    yield draw_concepts
    sys.path.remove(str(ROOT / "docs"))


def test_the_pictures_are_what_the_script_draws(drawing: ModuleType) -> None:
    made = drawing.pictures()
    stale = [name for name, content in made.items() if (IMAGES / name).read_text("utf-8") != content]
    assert stale == [], "draw them again: .venv/bin/python docs/draw_concepts.py"
    there = {one.name for one in IMAGES.iterdir() if one.name.startswith(drawing.BEGINNINGS)}
    assert there == set(made)


def test_every_picture_is_on_its_page(drawing: ModuleType) -> None:
    both = PAGE + (ROOT / "docs" / "time.md").read_text("utf-8")
    assert [name for name in drawing.pictures() if f"(images/{name})" not in both] == []


def got(picture: str) -> list[list[str]]:
    """What each task of a picture gets, as its title says for those who can't see it."""
    (title,) = re.findall("<title>(.*?)</title>", picture)
    return [[] if one == "nothing" else one.split(", ") for one in re.findall(r"task \d gets ([^;]+)", title)]


def test_each_grouping_is_drawn_as_its_paragraph_says(drawing: ModuleType) -> None:
    tasks = {name: got(picture) for name, picture in drawing.groupings().items()}
    assert [len(one) for one in tasks["shuffle"]] == [2, 2, 2]
    assert [len(one) for one in tasks["local-or-shuffle"]] == [2, 2, 0]
    assert tasks["all"] == [["to", "be"]] * 3
    assert [len(one) for one in tasks["global"]] == [6, 0, 0]
    for word in set(drawing.WORDS):
        assert len([one for one in tasks["fields"] if word in one]) == 1
        assert len([one for one in tasks["partial-key"] if word in one]) <= 2
    assert any(len([one for one in tasks["partial-key"] if word in one]) == 2 for word in drawing.WORDS)
    assert tasks["custom"][2] == ["not"]


def test_the_grouping_of_the_page_is_the_one_that_is_drawn(drawing: ModuleType) -> None:
    assert inspect.getsource(drawing.Watched).strip() in PAGE


def test_the_slots_of_the_page_are_those_of_the_picture(drawing: ModuleType) -> None:
    (slot,) = re.findall(r"slot   (\d+), which is task 0's", PAGE)
    assert f">{slot}</text>" in drawing.slots()
