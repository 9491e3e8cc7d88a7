"""The picture on the page about acking tells the truth: its numbers are read out of it and computed anew."""

import re
from functools import reduce
from itertools import pairwise
from operator import xor
from xml.etree import ElementTree

import pytest
from snippets import ROOT

from acker.ledger import Ledger, Tree

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = ElementTree.parse(ROOT / "docs/explanation/acking.svg").getroot()
STEPS = [group for group in PICTURE.iter(f"{SVG}g") if group.get("class") == "step"]


def texts(step: ElementTree.Element, kind: str) -> list[str]:
    return [one.text or "" for one in step.iter(f"{SVG}text") if one.get("class") == kind]


def number(step: ElementTree.Element) -> int:
    """The ledger's number after a step."""
    (text,) = texts(step, "number")
    return int(text, 16)


def edges(step: ElementTree.Element, kind: str) -> list[int]:
    """The edges that are shown as under way ('on') or processed ('done')."""
    groups = (one for one in step.iter(f"{SVG}g") if one.get("class") == kind)
    return [int(text, 16) for group in groups for text in texts(group, "edge")]


def hexadecimals(text: str) -> list[int]:
    return [int(one, 16) for one in re.findall(r"\b[0-9A-F]{2}\b", text)]


def test_the_picture_has_four_steps_and_ends_at_zero() -> None:
    assert [f"{number(step):02X}" for step in STEPS] == ["A7", "65", "3C", "00"]


@pytest.mark.parametrize("step", STEPS)
def test_the_number_is_the_xor_of_the_edges_that_are_shown_under_way(step: ElementTree.Element) -> None:
    assert reduce(xor, edges(step, "on"), 0) == number(step)


@pytest.mark.parametrize("step", STEPS)
def test_the_squares_are_the_bits_of_the_number(step: ElementTree.Element) -> None:
    squares = [one.get("class", "") for one in step.iter(f"{SVG}rect") if "bit" in one.get("class", "")]
    assert "".join("1" if "one" in one else "0" for one in squares) == f"{number(step):08b}"


def test_each_sum_is_right_and_goes_on_from_the_step_before() -> None:
    for before, step in pairwise(STEPS):
        (terms,) = (hexadecimals(text) for text in texts(step, "sum"))
        assert terms[0] == number(before)
        assert reduce(xor, terms) == number(step)


def test_the_acks_are_what_a_task_sends_and_the_ledger_comes_to_the_same_end() -> None:
    acks = [hexadecimals(text)[-1] for step in STEPS for text in texts(step, "small") if text.startswith("ack: ")]
    sums = [hexadecimals(text) for step in STEPS for text in texts(step, "small") if "=" in text]
    assert len(sums) == 1
    assert all(reduce(xor, terms[:-1]) == terms[-1] for terms in sums)
    ledger = Ledger(timeout_s=30.0, now=0.0)
    ledger.begin(Tree(root=64, value=number(STEPS[0])))
    assert [ledger.ack(64, value) is not None for value in acks] == [False, False, True]
