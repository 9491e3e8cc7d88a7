"""The picture of a checkpoint is what its script draws, and shows what a coordinator does."""

import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from snippets import ROOT

PICTURE = ROOT / "docs" / "images" / "checkpoint.svg"


@pytest.fixture(scope="module")
def drawing() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs"))
    import draw_checkpoint

    yield draw_checkpoint
    sys.path.remove(str(ROOT / "docs"))


def test_the_picture_is_what_the_script_draws(drawing: ModuleType) -> None:
    assert PICTURE.read_text("utf-8") == drawing.picture(), "draw it: .venv/bin/python docs/draw_checkpoint.py"


def test_each_order_and_answer_of_a_checkpoint_is_drawn_at_both_workers(drawing: ModuleType) -> None:
    happened = [*drawing.rows(drawing.events())]
    undrawn = {what for what, _ in happened} - drawing.ARROWS.keys() - drawing.BOXES.keys()
    assert undrawn == {"settled"}, "the end of the last step"
    assert all(sorted(workers) == [0, 1] for what, workers in happened if what != "decide")
    assert [what for what, _ in happened if what in drawing.BOXES] == [*drawing.BOXES]


def test_the_steps_have_the_numbers_of_the_page(drawing: ModuleType) -> None:
    page = (ROOT / "docs/explanation/durability.md").read_text("utf-8")
    assert "(../images/checkpoint.svg)" in page
    names = [re.split("[ ,]+", text)[1] for text in drawing.STEPS.values()]
    assert re.findall(r"^\d\. \*\*(\w+)\.\*\*", page, re.MULTILINE) == [name.capitalize() for name in names]
