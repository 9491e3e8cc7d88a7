"""The shape of a topology, and what a changed one may go on from (B11, F53)."""

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec
import pytest

from topology import Bolt, Config, Message, Record, Spout, StartError, State, Topology
from topology.durable.shape import FORMAT, Shape, agreed, changes, shape_of, text_of
from topology.plan import plan


class Kind(Enum):
    SSH = "ssh"


class Line(Record):
    text: str
    kind: Kind


class Failure(Record):
    ip: str
    user: str


class Lines(Spout):
    async def poll(self, limit: int) -> list[Message[Line]]:
        return []


class Parse(Bolt):
    def process(self, line: Line) -> Iterator[Failure]:
        yield Failure(line.text, "")


class Alert(Bolt):
    def process(self, failure: Failure, state: State[tuple[int, ...]]) -> Iterator[Failure]:
        yield failure


class Sink(Bolt):
    def process(self, record: Record) -> None:
        return None


def declared(
    *, alert: Any = None, parse: str = "parse", tasks: int = 2, sinks: int = 1, stores: int = 1, by: str = "ip"
) -> Topology:
    topology = Topology("shapes", config=Config(max_pending=7))
    lines = topology.spout("lines", Lines())
    failures = topology.bolt(parse, Parse(), lines.shuffle())
    alerts = topology.bolt("alerts", alert or Alert(), failures.fields(by), tasks=tasks)
    for number in range(sinks):
        topology.bolt(f"store{number}", Sink(), alerts.shuffle(), tasks=stores)
    topology.validate()
    return topology


def shaped(topology: Topology, workers: int = 1) -> Shape:
    return shape_of(plan(topology, workers))


def differences(new: Topology, old: Topology | None = None) -> list[tuple[str, bool]]:
    """What has changed, each with whether it is harmless, by way of the form that is kept."""
    kept: Shape = json.loads(text_of(shaped(old or declared())))
    return [(one.text, one.harmless) for one in changes(kept, shaped(new))]


def test_the_shape_is_what_identities_and_keys_are_made_of_and_no_more() -> None:
    alerts = shaped(declared())["components"]["alerts"]
    assert alerts == {
        "kind": "bolt",
        "how": "state",
        "tasks": 2,
        "state": "tuple[int, Ellipsis]",
        "streams": {"Failure": {"ip": "str", "user": "str"}},
        "reads": {"parse[Failure]": {"grouping": "fields('ip')", "copies": False}},
    }
    assert shaped(declared(), workers=1) == shaped(declared(), workers=3)  # the placement is not in it


def test_the_same_topology_goes_on_without_a_word_however_the_last_run_ended() -> None:
    kept = text_of(shaped(declared()))
    for clean in (True, False):
        assert agreed(kept, clean, shaped(declared())) == []


def test_a_first_run_has_nothing_to_agree_with() -> None:
    assert agreed(None, False, shaped(declared())) == []


def test_what_is_only_added_goes_on_and_is_told() -> None:
    new = declared(sinks=2)
    assert differences(new) == [("bolt 'store1' is new", True)]
    (told,) = agreed(text_of(shaped(declared())), False, shaped(new))
    assert told == "the topology has changed, and what was in flight fits into it: bolt 'store1' is new"


def test_a_renamed_bolt_is_refused_while_something_is_in_flight_with_each_change_and_what_to_do() -> None:
    """F53: its outputs would have other identities, and be stored again."""
    kept = text_of(shaped(declared()))
    with pytest.raises(StartError) as caught:
        agreed(kept, False, shaped(declared(parse="read")))
    text = str(caught.value)
    assert "bolt 'parse' is gone" in text
    assert "'alerts' reads parse[Failure] no more" in text
    assert "is new" not in text  # what is only new is not what is wrong
    assert str(caught.value.code) == "K440"
    for way in ("kedge stop --drain", "--accept-duplicates", "--fresh"):
        assert way in caught.value.next


def test_after_a_clean_end_or_with_duplicates_accepted_anything_goes_and_says_so() -> None:
    kept, new = text_of(shaped(declared())), shaped(declared(parse="read"))
    (told,) = agreed(kept, True, new)
    assert told.startswith("the topology has changed since the last run, which had done all that it read: ")
    (told,) = agreed(kept, False, new, accept_duplicates=True)
    assert "may be stored twice (--accept-duplicates): bolt 'parse' is gone" in told


def test_tasks_matter_where_there_is_state_or_each_has_a_copy_and_nowhere_else() -> None:
    """B1: an identity is the same wherever it goes."""
    assert differences(declared(tasks=3)) == [("'alerts' has 3 tasks in place of 2", False)]
    assert differences(declared(stores=3)) == [("'store0' has 3 tasks in place of 1", True)]

    def broadcast(tasks: int) -> Topology:
        topology = Topology("shapes")
        lines = topology.spout("lines", Lines())
        topology.bolt("sink", Sink(), lines.all(), tasks=tasks)
        return topology

    assert differences(broadcast(1), broadcast(2)) == [("'sink' has 1 task in place of 2", False)]


def test_the_fields_of_a_grouping_are_the_keys_of_a_state() -> None:
    assert differences(declared(by="user")) == [
        ("'alerts' reads parse[Failure] by fields('user') in place of fields('ip')", False)
    ]


def test_another_grouping_before_a_bolt_without_state_changes_no_identity() -> None:
    def grouped(how: str) -> Topology:
        topology = Topology("shapes")
        lines = topology.spout("lines", Lines())
        topology.bolt("sink", Sink(), getattr(lines, how)(), tasks=2)
        return topology

    assert differences(grouped("global_"), grouped("shuffle")) == [
        ("'sink' reads lines[Line] by global_() in place of shuffle()", True)
    ]
    assert [harmless for _, harmless in differences(grouped("all"), grouped("shuffle"))] == [False]


def test_another_type_of_state_and_no_state_any_more_are_told() -> None:
    class Counted(Bolt):
        def process(self, failure: Failure, state: State[int]) -> Iterator[Failure]:
            yield failure

    class Plain(Bolt):
        def process(self, failure: Failure) -> Iterator[Failure]:
            yield failure

    assert differences(declared(alert=Counted())) == [
        ("the state of 'alerts' is int in place of tuple[int, ...]", False)
    ]
    assert differences(declared(alert=Plain())) == [("'alerts' has process in place of process with state", False)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"ip": str, "user": str, "port": int}, ["field 'port' of Failure is new"]),
        ({"ip": str}, ["field 'user' of Failure is gone"]),
        ({"ip": bytes, "user": str}, ["field 'ip' of Failure is bytes in place of str"]),
        ({"user": str, "ip": str}, ["the fields of Failure stand in another order"]),
    ],
)
def test_a_changed_field_is_told_once_by_its_name(fields: dict[str, type], told: list[str]) -> None:
    """Both `parse` and `alerts` emit it, and one sentence is enough."""
    other: Any = msgspec.defstruct("Failure", [*fields.items()], bases=(Record,), frozen=True, array_like=True)

    class ParseOther(Bolt):
        def process(self, line: Line) -> Iterator[other]:  # pyright: ignore[reportInvalidTypeForm]
            yield other()

    class AlertOther(Bolt):
        def process(self, failure: other, state: State[tuple[int, ...]]) -> Iterator[other]:  # pyright: ignore[reportInvalidTypeForm]
            yield failure

    def changed() -> Topology:
        topology = Topology("shapes")
        lines = topology.spout("lines", Lines())
        failures = topology.bolt("parse", ParseOther(), lines.shuffle())
        by = "ip" if "ip" in fields else "user"
        alerts = topology.bolt("alerts", AlertOther(), failures.fields(by), tasks=2)
        topology.bolt("store0", Sink(), alerts.shuffle())
        return topology

    assert differences(changed()) == [(one, False) for one in told]


def test_a_spout_in_place_of_a_bolt_is_told() -> None:
    class Failing(Spout):
        async def poll(self, limit: int) -> list[Message[Failure]]:
            return []

    topology = Topology("shapes")
    failures = topology.spout("parse", Failing())
    topology.bolt("store0", Sink(), failures.shuffle())
    assert ("'parse' is a spout in place of a bolt", False) in differences(topology)


def test_many_changes_are_counted_and_not_all_listed() -> None:
    kept = text_of(shaped(declared(sinks=30)))
    with pytest.raises(StartError, match=r"and 20 more changes\n"):
        agreed(kept, False, shaped(declared(sinks=0)))


@pytest.mark.parametrize(
    "kept", ["", "null", "[]", '{"format": 2}', '{"format": 1, "components": {"a": {}}}', "[" * 99999]
)
def test_what_another_version_has_noted_is_refused_and_never_guessed_at(kept: str) -> None:
    with pytest.raises(StartError, match="another version of Kedge") as caught:
        agreed(kept, False, shaped(declared()))
    assert str(caught.value.code) == "K441"
    (told,) = agreed(kept, False, shaped(declared()), accept_duplicates=True)
    assert "can't be compared: what was in flight may be stored twice" in told
    (told,) = agreed(kept, True, shaped(declared()))  # nothing was in flight, so nothing need be compared
    assert told.endswith("; that run had done all that it read")
    assert FORMAT == 1
