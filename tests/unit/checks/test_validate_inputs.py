"""Mistakes in what a bolt reads: streams, groupings, their fields, and what they are to state and determinism."""

import enum
from typing import Any

import pytest
from declaring_kit import (
    Count,
    CountAny,
    Declaring,
    Failure,
    Holding,
    Line,
    Lines,
    Malformed,
    Parse,
    Sink,
)

from topology import Bolt, Grouping, Input, Record, Topology
from topology.checks.declaration import mistakes
from topology.graph import Place
from topology.groupings import ByIdentity, Shuffle

# -- what is given as an input


def test_a_bolt_without_inputs_is_a_mistake() -> None:
    declaring = Declaring()
    declaring.bolt("alone", Sink())
    assert declaring.one().startswith("'alone': it has no input")


def test_what_is_no_input_is_said_with_the_grouping_to_choose() -> None:
    declaring = Declaring()
    lines = declaring.lines
    declaring.bolt("x", Sink(), lines, lines.shuffle, "lines", [lines.shuffle()], None, 3)
    assert declaring.said() == [
        "'x': a stream is not an input yet; choose a grouping: lines.shuffle()",
        "'x': a grouping is called; write lines.shuffle()",
        "'x': a name is not an input; use the handle of 'lines' with a grouping: lines.shuffle()",
        "'x': pass the inputs one by one, not as a list",
        "'x': NoneType is not an input; give a stream with a grouping: lines.shuffle()",
        "'x': int is not an input; give a stream with a grouping: lines.shuffle()",
    ]


def test_an_input_of_another_topology_is_a_mistake() -> None:
    declaring, other = Declaring(), Topology("other")
    declaring.bolt("x", Sink(), other.spout("lines", Lines()).shuffle())
    assert declaring.one() == "'x': lines.shuffle(): it is a stream of another topology, 'other'"


def test_where_several_classes_are_emitted_one_is_chosen() -> None:
    declaring = Declaring()
    declaring.bolt("x", Sink(), declaring.parse.shuffle())
    assert declaring.one() == (
        "'x': parse.shuffle(): it emits several classes; choose one: parse[Failure] or parse[Malformed]"
    )


def test_a_stream_that_nobody_emits_is_told_with_the_one_that_was_meant() -> None:
    class Failures(Record):
        x: int

    class Elsewhere(Record):
        x: int

    declaring = Declaring()
    declaring.bolt("x", Sink(), declaring.parse[Failures].shuffle(), declaring.parse[Elsewhere].all())
    assert declaring.said() == [
        "'x': parse[Failures].shuffle(): it emits no Failures; did you mean 'Failure'?",
        "'x': parse[Elsewhere].all(): it emits no Elsewhere; it emits Failure, Malformed",
    ]


def test_a_stream_of_another_class_of_the_same_name_is_told_by_its_module() -> None:
    twin: Any = type("Failure", (Record,), {"__annotations__": {"x": int}, "__module__": "else.where"})
    declaring = Declaring()
    declaring.bolt("x", Sink(), declaring.parse[twin].shuffle())
    assert declaring.one().endswith("it emits another class called Failure, of declaring_kit, not of else.where")


@pytest.mark.parametrize(("key", "said"), [("Failure", "by its class, parse[Failure]"), (3, "it emits no 3")])
def test_a_stream_chosen_by_anything_but_a_class_is_a_mistake(key: Any, said: str) -> None:
    declaring = Declaring()
    declaring.bolt("x", Sink(), declaring.parse[key].shuffle())
    assert said in declaring.one()


def test_a_stream_read_by_two_inputs_of_one_bolt_is_a_mistake_where_the_second_is_written() -> None:
    """A18: both deliveries would have one identity, and what the bolt emits for them one edge, which cancels."""
    declaring = Declaring()
    lines = declaring.lines
    first = lines.shuffle()
    second = lines.fields("text")
    third = lines[Line].all()
    declaring.bolt("x", Parse(), first, second, third)
    assert [mistake.line for mistake in mistakes(declaring.topology)] == [second.place.line, third.place.line]
    advice = (
        "it reads this stream already, by lines.shuffle(), and can't tell the two deliveries of a record apart; keep "
        "one of the two, or declare a second bolt for the other"
    )
    assert declaring.said() == [f"'x': lines.fields('text'): {advice}", f"'x': lines.all(): {advice}"]


def test_one_input_given_twice_is_a_mistake_as_well() -> None:
    declaring = Declaring()
    once = declaring.parse[Failure].fields("user")
    declaring.bolt("x", Count(), once, once)
    assert "reads this stream already, by parse[Failure].fields('user')" in declaring.one()


def test_two_streams_of_one_component_and_one_class_of_two_components_may_be_read_by_one_bolt() -> None:
    declaring = Declaring()
    other = declaring.bolt("other", Parse(), declaring.lines.shuffle())
    parse = declaring.parse
    declaring.bolt("x", Sink(), parse[Failure].shuffle(), parse[Malformed].shuffle(), other[Failure].shuffle())
    declaring.bolt("y", Sink(), parse[Failure].shuffle())
    assert declaring.said() == []


def test_a_sink_can_not_be_read() -> None:
    declaring = Declaring()
    sink = declaring.bolt("sink", Sink(), declaring.lines.shuffle())
    declaring.bolt("x", Sink(), sink.shuffle())
    assert declaring.one() == "'x': sink.shuffle(): it emits nothing that could be read"


def test_a_class_that_the_bolt_does_not_take_is_told_with_the_stream_that_it_takes() -> None:
    declaring = Declaring()
    declaring.bolt("a", Parse(), declaring.parse[Malformed].shuffle())
    declaring.bolt("b", Count(), declaring.parse[Malformed].global_())
    assert declaring.said() == [
        "'a': parse[Malformed].shuffle(): Parse takes Line, not Malformed",
        "'b': parse[Malformed].global_(): Count takes Failure, not Malformed; did you mean parse[Failure]?",
    ]


def test_a_made_up_input_may_name_nobody_or_make_a_cycle_and_either_is_told() -> None:
    declaring = Declaring()
    topology, place = declaring.topology, Place(__file__, 1)

    def made_up(name: str) -> Input[Any]:
        return Input(topology, name, Line, Shuffle(), place)

    class Pass(Bolt):
        def process(self, line: Line) -> list[Line]:
            return [line]

    declaring.bolt("a", Pass(), made_up("b"), declaring.lines.shuffle())
    declaring.bolt("b", Pass(), made_up("a"))
    declaring.bolt("self", Pass(), made_up("self"))
    declaring.bolt("c", Sink(), made_up("liens"), made_up("b"))
    advice = "remove one of the inputs, or read the returning records with a separate spout"
    round = f"so tuples would go round for ever; {advice}"
    assert sorted(declaring.said()) == [
        "'c': liens.shuffle(): there is no component of this name; did you mean 'lines'?",
        f"'self' reads what it emits itself, {round}",
        f"a cycle, a → b → a, {round}",
    ]


# -- groupings and their fields


def test_an_unknown_field_is_told_with_the_one_that_was_meant() -> None:
    declaring = Declaring()
    failures = declaring.parse[Failure]
    declaring.bolt("x", Sink(), failures.fields("sorce_ip", "user"))
    declaring.bolt("y", Sink(), failures.partial_key("User"), declaring.parse[Malformed].fields("quite.else"))
    assert declaring.said() == [
        "'x': parse[Failure].fields('sorce_ip', 'user'): Failure has no field 'sorce_ip'; did you mean 'source_ip'?",
        "'y': parse[Failure].partial_key('User'): Failure has no field 'User'; did you mean 'user'?",
        "'y': parse[Malformed].fields('quite.else'): Malformed has no field 'quite.else'; it has why",
    ]


def test_fields_names_fields_each_once_and_by_texts() -> None:
    declaring = Declaring()
    lines = declaring.lines
    for wrong in (lines.fields(), lines.fields("text", "text"), lines.fields(3), lines.partial_key(None)):
        declaring.bolt(f"x{len(declaring.topology.components)}", Sink(), wrong)
    assert [said.partition(": ")[2].partition("): ")[2] for said in declaring.said()] == [
        "name the fields whose values are the key; for one task that gets everything, use global_()",
        "'text' is named twice",
        "a field is named by a text, not by int",
        "a field is named by a text, not by NoneType",
    ]


def test_a_field_of_a_type_that_is_no_key_is_told_where_it_is_used_and_where_it_is_emitted() -> None:
    class Bag(Record):
        items: list[int]

    class Bags(Bolt):
        def process(self, line: Line) -> "list[Any]":
            return []

    Bags.process.__annotations__["return"] = list[Bag]
    declaring = Declaring()
    declaring.bolt("x", Sink(), declaring.bolt("bags", Bags(), declaring.lines.shuffle()).fields("items"))
    assert [said.partition("list[int]")[0] for said in declaring.said()] == [
        "'bags': Bag.items: ",
        "'x': bags.fields('items'): 'items' can't be a key: ",
    ]


class Nobody(Grouping):
    """Forgot to define `choose`."""


@pytest.mark.parametrize(
    ("grouping", "said"),
    [
        (Nobody(), "Nobody defines no `choose(self, record, tasks)`"),
        (Nobody, "give an instance, Nobody()"),
        (None, "NoneType does not derive from Grouping"),
        (lambda record, tasks: [0], "function does not derive from Grouping"),
        (Shuffle(), "this grouping is a method of the stream: shuffle()"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_custom_grouping_is_an_instance_that_defines_choose(grouping: Any, said: str) -> None:
    declaring = Declaring()
    declaring.bolt("x", Sink(), declaring.lines.custom(grouping))
    assert declaring.one().endswith(said)


def test_direct_needs_an_emitter_that_names_the_task() -> None:
    declaring = Declaring()
    held = declaring.bolt("held", Holding(), declaring.lines.shuffle())
    declaring.bolt("a", Sink(), declaring.lines.direct())
    declaring.bolt("b", Sink(), declaring.parse[Failure].direct())
    declaring.bolt("c", Sink(), held.direct())
    assert [said[:40] for said in declaring.said()] == [
        "'a': lines.direct(): a spout can't name ",
        "'b': parse[Failure].direct(): the task i",
    ]


# -- state and determinism


@pytest.mark.parametrize("grouping", ["shuffle", "local_or_shuffle", "all", "direct", "partial_key", "custom"])
def test_state_behind_a_grouping_that_is_no_key_is_refused_D8(grouping: str) -> None:
    class Own(Grouping):
        def choose(self, record: Any, tasks: int) -> list[int]:
            return [0]

    arguments: dict[str, list[Any]] = {"partial_key": ["why"], "custom": [Own()]}
    declaring = Declaring()
    held = declaring.bolt("held", Holding(), declaring.lines.shuffle())
    declaring.bolt("x", CountAny(), getattr(held, grouping)(*arguments.get(grouping, [])))
    assert "CountAny keeps state, but a replay may reach a task without that state" in declaring.one()


def test_state_behind_fields_or_global_is_right_D8() -> None:
    declaring = Declaring()
    declaring.bolt("a", CountAny(), declaring.lines.fields("text"))
    declaring.bolt("b", CountAny(), declaring.lines.global_(), declaring.parse[Failure].global_())
    assert declaring.said() == []


class Level(enum.Enum):
    LOW = "low"


class Keys(Record):
    text: str
    number: int
    ratio: float
    maybe: str | None
    level: Level
    pair: tuple[str, int]
    pairs: tuple[str, ...]


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (["text"], ["maybe"], True),
        (["text", "number"], ["maybe", "number"], True),
        (["pair"], ["pair"], True),
        (["text"], ["number"], False),
        (["number"], ["ratio"], False),
        (["text"], ["level"], False),
        (["text", "number"], ["number", "text"], False),
        (["text", "number"], ["pair"], False),
        (["pair"], ["pairs"], False),
        (["text"], [], False),
    ],
    ids=str,
)
def test_the_inputs_of_a_state_agree_in_number_and_types_of_key_fields_D8(
    one: list[str], other: list[str], agree: bool
) -> None:
    class Keyed(Bolt):
        def process(self, line: Line) -> "list[Any]":
            return []

    Keyed.process.__annotations__["return"] = list[Keys]
    declaring = Declaring()
    keyed, also = (declaring.bolt(name, Keyed(), declaring.lines.shuffle()) for name in ("keyed", "also"))
    second = also.fields(*other) if other else also.global_()
    declaring.bolt("x", CountAny(), keyed.fields(*one), second)
    assert agree == (declaring.said() == [])
    assert agree or "must agree" in declaring.one()
    assert len(one) == len(other) or "the state's key has" in declaring.one()


def test_a_state_of_a_type_that_can_not_be_stored_is_refused() -> None:
    class Tally(Bolt):
        def process(self, line: Line, state: Any) -> None:
            """Keeps a dict."""

    from topology import State

    Tally.process.__annotations__["state"] = State[dict[str, int]]
    declaring = Declaring()
    declaring.bolt("x", Tally(), declaring.lines.global_())
    assert "Tally keeps a state of a type that can't be stored: dict[str, int]" in declaring.one()


class Guess(Bolt):
    deterministic = False

    def process(self, record: Record) -> None:
        """Asks a clock, say."""


def test_a_bolt_that_is_not_deterministic_reads_by_what_a_replay_meets_again_B2() -> None:
    class Own(Grouping):
        def choose(self, record: Any, tasks: int) -> list[int]:
            return [0]

    declaring = Declaring()
    held = declaring.bolt("held", Holding(), declaring.lines.shuffle())
    for number, right in enumerate((held.shuffle(), held.local_or_shuffle(), held.fields("why"), held.global_())):
        declaring.bolt(f"right{number}", Guess(), right)
    for number, wrong in enumerate((held.all(), held.direct(), held.partial_key("why"), held.custom(Own()))):
        declaring.bolt(f"wrong{number}", Guess(), wrong)
    said = "Guess is not deterministic, so a replay must reach the same task as before; use "
    assert [one.partition(said)[::2] for one in declaring.said()] == [
        (f"'wrong{number}': held.{grouping}: ", "shuffle(), fields(…) or global_()")
        for number, grouping in enumerate(("all()", "direct()", "partial_key('why')", "custom(Own)"))
    ]


def test_a_grouping_of_the_plans_own_is_not_for_declaring() -> None:
    declaring = Declaring()
    made: Any = Input(declaring.topology, "lines", Line, ByIdentity(), Place("", 0))
    declaring.bolt("x", Sink(), made)
    assert declaring.said() == []  # harmless: a pure function of the identity
