"""What a topology says of its companions, of bolts that remember their inputs and of spouts that end last: mistakes are
found, and told with the rest."""

from pathlib import Path
from typing import Any, Never

import pytest
from declaring_kit import Count, Declaring, Failure, Lines, Parse, Sink

from topology import Bolt, Collector, Companion, Launch, Topology, Tuple
from topology.checks.declaration import mistakes
from topology.groupings import ByIdentity, Fields
from topology.plan import plan


class Helper(Companion):
    def __init__(self, name: Any = "helper", starting_s: Any = 1.0) -> None:
        self.name, self.starting_s = name, starting_s

    def launch(self, folder: Path) -> Launch:
        return Launch(("true",), {}, b"a secret")


class Keeps(Bolt):
    def execute(self, tup: Tuple[Failure], out: Collector[Never]) -> None:
        """Keeps it."""


def said(*companions: Any) -> list[str]:
    topology = Topology("beside")
    topology.bolt("sink", Sink(), topology.spout("lines", Lines()).shuffle())
    for one in companions:
        topology.companion(one)
    assert topology.companions == [*companions]
    found = mistakes(topology)
    assert {str(one.code) for one in found} <= {"K237"}
    assert {Path(one.file).name for one in found} <= {Path(__file__).name}
    return [one.text for one in found]


def test_companions_with_names_of_their_own_are_fine() -> None:
    assert said(Helper("one"), Helper("two"), Helper("sink", 0.5)) == []


def test_a_name_that_is_there_already_is_told_with_its_place() -> None:
    (text,) = said(Helper(), Helper("other"), Helper())
    assert text.startswith("a companion 'helper' is declared already, in line ")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "x" * 65, None, 7])
def test_a_name_that_is_no_file_name_is_told(name: Any) -> None:
    (text,) = said(Helper(name))
    assert text.startswith("a companion's name")


def test_a_companion_without_a_name_is_told() -> None:
    class Nameless(Companion):
        def launch(self, folder: Path) -> Launch:
            return Launch(("true",), {})

    assert said(Nameless()) == ["a companion's name is a text, not NoneType"]


@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), float("nan"), "1", None, True])
def test_a_start_that_may_take_no_number_of_seconds_is_told(seconds: Any) -> None:
    assert said(Helper(starting_s=seconds)) == [f"Helper.starting_s is a number of seconds above 0, not {seconds!r}"]


@pytest.mark.parametrize("given", [Helper, None, "helper", Sink()])
def test_what_is_no_companion_is_told(given: Any) -> None:
    (text,) = said(given)
    assert text.endswith("is no companion; pass an instance of a Companion subclass")


def test_what_a_companion_is_given_is_not_shown() -> None:
    """S15: keys may be in it."""
    assert "secret" not in repr(Helper().launch(Path()))


# -- bolts that remember, spouts that end last


def declared(bolt: Any, **attributes: Any) -> Declaring:
    for name, value in attributes.items():
        setattr(bolt, name, value)
    declaring = Declaring()
    declaring.bolt("x", bolt, declaring.parse[Failure].fields("user"))
    return declaring


def test_only_a_bolt_with_execute_remembers_its_inputs_itself() -> None:
    assert declared(Keeps(), remembers=True).said() == []
    for bolt in (Sink(), Count()):
        text = (
            f"'x': {type(bolt).__name__}.remembers is True, and only a bolt with `execute` remembers its inputs itself"
        )
        assert declared(bolt, remembers=True).one() == f"{text}; leave it out"


def test_remembers_is_yes_or_no() -> None:
    assert declared(Keeps(), remembers="yes").one() == "'x': Keeps.remembers is True or False, not 'yes'"


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_ends_last_is_yes_or_no(value: Any) -> None:
    topology = Topology("last")
    spout = Lines()
    spout.ends_last = value  # type: ignore[misc]
    topology.bolt("sink", Sink(), topology.spout("lines", spout).shuffle())
    (mistake,) = mistakes(topology)
    assert mistake.text == f"'lines': Lines.ends_last is True or False, not {value!r}"
    assert str(mistake.code) == "K238"


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "8", None])
def test_reads_ahead_is_a_whole_number_from_1_on(value: Any) -> None:
    topology = Topology("ahead")
    spout = Lines()
    spout.reads_ahead = value  # type: ignore[misc]
    topology.bolt("sink", Sink(), topology.spout("lines", spout).shuffle())
    (mistake,) = mistakes(topology)
    assert mistake.text == f"'lines': Lines.reads_ahead is a whole number from 1 on, not {value!r}"
    assert str(mistake.code) == "K248"


def test_what_shuffle_deals_to_a_bolt_that_remembers_goes_by_identity() -> None:
    """So that a replay meets the task that knows it."""
    for remembers, grouping in ((True, ByIdentity()), (False, None)):
        topology = Topology("dealt")
        bolt: Any = Keeps()
        bolt.remembers = remembers
        failures = topology.bolt("parse", Parse(), topology.spout("lines", Lines()).shuffle())[Failure]
        topology.bolt("x", bolt, failures.shuffle(), tasks=3)
        dealt = next(one.grouping for one in plan(topology).subscriptions if one.subscriber == "x")
        assert (dealt == grouping) is remembers
    topology = Topology("dealt")
    failures = topology.bolt("parse", Parse(), topology.spout("lines", Lines()).shuffle())[Failure]
    bolt = Keeps()
    bolt.remembers = True
    topology.bolt("x", bolt, failures.fields("user"), tasks=3)
    dealt = next(one.grouping for one in plan(topology).subscriptions if one.subscriber == "x")
    assert dealt == Fields(("user",))
