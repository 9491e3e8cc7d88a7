"""Mistakes of a declaration: each is found, said in a sentence that names the cure, and all come in one error."""

import textwrap
from pathlib import Path
from typing import Any

import pytest
from declaring_kit import (
    Declaring,
    Failure,
    Holding,
    Line,
    Lines,
    Sink,
    Ticking,
    Waiting,
)

from topology import Bolt, DeclarationError, Record, Topology
from topology.checks.declaration import mistakes

# -- names (S6)

BAD_NAMES: list[Any] = [
    "",
    "a b",
    "../../x",
    "/etc/passwd",
    "a\0b",
    "a" * 65,
    "café",
    "а",
    "a.b",
    "a\n",
    None,
    3,
    ["a"],
    b"a",
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_a_name_that_could_be_anything_but_a_name_is_refused_S6(name: Any) -> None:
    declaring = Declaring()
    declaring.bolt(name, Sink(), declaring.lines.shuffle())
    assert "name" in declaring.one()
    topology: Any = Topology
    assert "the topology's name" in str(mistakes(topology(name))[0])


@pytest.mark.parametrize("name", ["a", "A-b_9", "-", "a" * 64])
def test_letters_digits_underscores_and_hyphens_make_a_name(name: str) -> None:
    declaring = Declaring()
    declaring.bolt(name, Sink(), declaring.lines.shuffle())
    assert declaring.said() == []


def test_a_name_that_is_not_possible_comes_with_one_that_is() -> None:
    declaring = Declaring()
    declaring.bolt("ssh alerts!", Sink(), declaring.lines.shuffle())
    assert declaring.one().endswith("like 'ssh-alerts'")


def test_a_name_with_line_ends_and_escapes_does_not_break_the_line_that_tells_of_it_S11() -> None:
    declaring = Declaring()
    declaring.spout("a\n\x1b[2J\u202e", Lines())
    assert len(declaring.said()) == 2
    assert all(said.isprintable() and "a\\n\\x1b[2J\\u202e" in said for said in declaring.said())


def test_a_record_class_is_named_like_a_stream_so_its_name_is_held_to_the_same_rule_S6() -> None:
    class Café(Record):
        x: int

    class Odd(Bolt):
        def process(self, line: Line) -> "list[Any]":
            return []

    Odd.process.__annotations__["return"] = list[Café]
    declaring = Declaring()
    declaring.bolt("odd", Odd(), declaring.lines.shuffle())
    assert "the record class Café: its name 'Café' is not possible" in declaring.one()


def test_a_name_that_comes_twice_is_told_with_the_place_of_the_first() -> None:
    declaring = Declaring()
    declaring.bolt("lines", Sink(), declaring.lines.shuffle())
    declaring.bolt("parse", Sink(), declaring.lines.shuffle())
    assert [said.partition(" in ")[0] for said in declaring.said()] == [
        f"{name!r}: a component of this name is declared already," for name in ("lines", "parse")
    ]
    first = mistakes(declaring.topology)[1]
    assert first.text.endswith(f"in line {first.line}")  # the kit declares all bolts in one line


# -- what is given as a component


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Sink, "Sink: give an instance, Sink()"),
        (Lines, "Lines: give an instance, Lines()"),
        (Lines(), "Lines is a spout; declare it by topology.spout(name, spout)"),
        (None, "None is not a bolt"),
        ("parse", "str is not a bolt"),
        (object(), "object is not a bolt"),
        (print, "print is a function; make it a bolt by the decorator @bolt"),
        (int, "int is a class, and not one of a bolt"),
    ],
    ids=lambda value: str(value).partition(" at ")[0][:30],
)
def test_what_is_no_bolt_is_said_with_what_to_do(given: Any, said: str) -> None:
    declaring = Declaring()
    handle = declaring.bolt("x", given, declaring.lines.shuffle())
    declaring.bolt("reader", Sink(), handle.fields("whatever"))
    assert declaring.one() == f"'x': {said}"  # and not a word of its reader, which can't be told about


def test_a_class_that_needs_arguments_is_shown_with_room_for_them() -> None:
    class Needy(Bolt):
        def __init__(self, path: str) -> None:
            self.path = path

    declaring = Declaring()
    declaring.bolt("x", Needy, declaring.lines.shuffle())
    assert declaring.one() == "'x': Needy: give an instance, Needy(…)"


def test_what_looks_like_a_bolt_but_is_none_is_told_to_derive_from_it() -> None:
    class Duck:
        def process(self, line: Line) -> None:
            """Has no `open` and no `close`."""

    declaring = Declaring()
    declaring.bolt("x", Duck(), declaring.lines.shuffle())
    assert declaring.one() == "'x': Duck is not a bolt; derive it from Bolt"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Lines, "Lines: give an instance, Lines()"),
        (Sink(), "Sink is a bolt; declare it by topology.bolt(name, bolt, input)"),
        (None, "None is not a spout"),
        (7, "int is not a spout"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_spout_is_said_with_what_to_do(given: Any, said: str) -> None:
    declaring = Declaring()
    handle = declaring.spout("x", given)
    declaring.bolt("reader", Sink(), handle.shuffle())
    assert declaring.one() == f"'x': {said}"


def test_a_topology_without_spouts_is_a_mistake_of_the_topology() -> None:
    (mistake,) = mistakes(Topology("empty"))
    assert mistake.text.startswith("it has no spout")
    assert mistake.file == __file__


def test_a_spout_that_nobody_reads_is_a_mistake() -> None:
    declaring = Declaring()
    declaring.spout("idle", Lines())
    assert declaring.one().startswith("'idle': no bolt reads this spout")


def test_a_config_that_is_none_is_a_mistake() -> None:
    assert "config is a Config(…), not a dict" in Declaring(config={"max_pending": 5}).one()


# -- options


def test_a_class_attribute_that_is_no_such_choice_is_a_mistake() -> None:
    class Odd(Sink):
        """Its attribute is set below, where no type checker looks."""

    odd: Any = Odd
    odd.deterministic = "no"
    declaring = Declaring()
    declaring.bolt("x", Odd(), declaring.lines.shuffle())
    assert declaring.said() == ["'x': Odd.deterministic is True or False, not 'no'"]


@pytest.mark.parametrize("value", [0, -1, 1025, 1.0, True, "2", None, [1]])
def test_tasks_is_a_whole_number_from_1_to_the_number_of_slots(value: Any) -> None:
    declaring = Declaring()
    declaring.bolt("x", Sink(), declaring.spout("more", Lines(), tasks=value).shuffle(), tasks=value)
    assert declaring.said() == [
        f"{name!r}: tasks is a whole number from 1 to 1,024, not {value!r}" for name in ("more", "x")
    ]


@pytest.mark.parametrize("value", [0, -1, 10_001, 2.0, True, "2", None])
def test_concurrency_is_a_whole_number_within_a_bound(value: Any) -> None:
    declaring = Declaring()
    declaring.bolt("x", Waiting(), declaring.lines.shuffle(), concurrency=value)
    assert declaring.one() == f"'x': concurrency is a whole number from 1 to 10,000, not {value!r}"


def test_concurrency_is_for_what_waits() -> None:
    declaring = Declaring()
    for name, bolt in (("a", Sink()), ("b", Holding()), ("c", Waiting())):
        declaring.bolt(name, bolt, declaring.lines.shuffle(), concurrency=2)
    assert [said.partition("side by side, and ")[2] for said in declaring.said()] == [
        "the `process` of Sink never waits; write async def process, or leave concurrency out",
        "the `execute` of Holding never waits; write async def execute, or leave concurrency out",
    ]


@pytest.mark.parametrize("every", ["10", "soon", "0s", 10, True])
def test_every_is_a_duration(every: Any) -> None:
    declaring = Declaring()
    declaring.bolt("x", Ticking(), declaring.lines.shuffle(), every=every)
    assert declaring.one().startswith("'x': every: a duration is")


def test_every_and_tick_come_together() -> None:
    declaring = Declaring()
    declaring.bolt("a", Ticking(), declaring.lines.shuffle())
    declaring.bolt("b", Sink(), declaring.lines.shuffle(), every="10s")
    declaring.bolt("c", Ticking(), declaring.lines.shuffle(), every="10s")
    assert declaring.said() == [
        """'a': Ticking defines `tick`, but `every` is missing; pass every="10s\"""",
        "'b': every='10s' calls tick(self, now), which Sink does not define",
    ]


# -- record classes


def test_a_record_class_that_the_wire_can_not_carry_is_told_of_once() -> None:
    class Bad(Record):
        a: list[int]
        b: dict[str, int]

    class Emits(Bolt):
        def process(self, line: Line) -> "list[Any]":
            return []

    Emits.process.__annotations__["return"] = list[Bad]
    declaring = Declaring()
    declaring.bolt("x", Emits(), declaring.lines.shuffle())
    declaring.bolt("y", Emits(), declaring.lines.shuffle())
    assert [said.partition(": list")[0].partition(": dict")[0] for said in declaring.said()] == [
        "'x': Bad.a",
        "'x': Bad.b",
    ]


def test_two_record_classes_of_one_name_in_one_component_are_refused() -> None:
    twin: Any = type("Failure", (Record,), {"__annotations__": {"x": int}, "__module__": "else.where"})

    class Both(Bolt):
        def process(self, line: Line) -> "list[Any]":
            return []

    Both.process.__annotations__["return"] = list[Failure | twin]
    declaring = Declaring()
    declaring.bolt("x", Both(), declaring.lines.shuffle())
    assert declaring.one() == (
        "'x': it emits two classes called Failure, of declaring_kit and of else.where; streams are distinguished by "
        "this name, so rename one"
    )


# -- all of them together


def test_mistakes_come_in_the_order_of_the_source_each_with_file_and_line(tmp_path: Path) -> None:
    source = tmp_path / "wrong.py"
    source.write_text(
        textwrap.dedent(
            """\
            from declaring_kit import Lines, Sink
            from topology import Topology

            topology = Topology("x y")
            lines = topology.spout("lines", Lines(), tasks=0)
            early = lines.fields("txet")
            topology.bolt("no input", Sink())
            topology.bolt(
                "late",
                Sink(),
                early,
                lines.fields(
                    "nubmer",
                ),
            )
            """
        )
    )
    names: dict[str, Any] = {}
    exec(compile(source.read_text(), str(source), "exec"), names)  # noqa: S102 - the test's own text
    found = [(mistake.file, mistake.line) for mistake in mistakes(names["topology"])]
    assert found == [(str(source), line) for line in (4, 5, 6, 7, 7, 12, 12)]


def test_validate_raises_one_error_with_all_mistakes_and_nothing_where_there_is_none() -> None:
    Declaring().topology.validate()
    declaring = Declaring()
    declaring.bolt("a b", Sink())
    with pytest.raises(DeclarationError, match="topology 'declaring' has 2 mistakes:\n") as raised:
        declaring.topology.validate()
    assert [mistake.text for mistake in raised.value.mistakes] == declaring.said()
    assert len(str(raised.value).splitlines()) == 3


def test_validating_changes_nothing_and_says_the_same_again() -> None:
    declaring = Declaring()
    declaring.bolt("x", Sink, declaring.parse.shuffle())
    assert declaring.said() == declaring.said() != []
