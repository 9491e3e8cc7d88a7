"""The shape of a topology, and what a changed one may go on from (B11, F53)."""

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec
import pytest

from topology import Bolt, Config, Message, Record, RecordError, Spout, StartError, State, Topology
from topology.plan import plan
from topology.records import decoder, encode
from topology.storage.directory.shape import (
    FORMAT,
    TopologyShape,
    agreed,
    changes,
    components_in,
    following,
    left_in,
    names_in,
    shape_of,
    text_of,
    with_components,
)


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
    *,
    alert: Any = None,
    parse: str = "parse",
    tasks: int = 2,
    sinks: int = 1,
    stores: int = 1,
    by: str = "ip",
    durability: Any = "disk",
) -> Topology:
    topology = Topology("shapes", config=Config(max_pending=7, durability=durability))
    lines = topology.spout("lines", Lines())
    failures = topology.bolt(parse, Parse(), lines.shuffle())
    alerts = topology.bolt("alerts", alert or Alert(), failures.fields(by), tasks=tasks)
    for number in range(sinks):
        topology.bolt(f"store{number}", Sink(), alerts.shuffle(), tasks=stores)
    topology.validate()
    return topology


def shaped(topology: Topology, workers: int = 1) -> TopologyShape:
    return shape_of(plan(topology, workers))


def differences(new: Topology, old: Topology | None = None) -> list[tuple[str, bool]]:
    """What has changed, each with whether it is harmless, by way of the form that is kept."""
    kept: TopologyShape = json.loads(text_of(shaped(old or declared())))
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
        "kept": True,
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
    assert "'alerts' does not read parse[Failure] any more" in text
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


def test_tasks_matter_where_each_has_a_copy_and_nowhere_else() -> None:
    """B1: an identity is the same wherever it goes; state and journal move by slot, to whichever task has it."""
    assert differences(declared(tasks=3)) == [("'alerts' has 3 tasks in place of 2", True)]
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


class Old(Record):
    count: int
    last: str = ""


def older_and(name: str, *fields: Any) -> Any:
    """A record class that is `Old` with other fields; by the name of Old, as if it had been changed."""
    made = msgspec.defstruct("Old", [("count", int), ("last", str, ""), *fields], bases=(Record,), frozen=True)
    made.__qualname__ = name
    return made


def counting(kind: Any, *, recovery: Any = "checkpoint") -> Bolt:
    class Counting(Bolt):
        def process(self, failure: Failure, state: State[kind]) -> Iterator[Failure]:  # pyright: ignore[reportInvalidTypeForm]
            yield failure

    Counting.recovery, Counting.holds_max = recovery, 3
    return Counting()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("accept", [True, False])
def test_a_state_that_is_kept_is_not_read_as_another_type_however_the_last_run_ended(clean: bool, accept: bool) -> None:
    kept = text_of(shaped(declared()))
    with pytest.raises(StartError, match=r"the state of 'alerts' is int in place of tuple\[int, \.\.\.\]") as caught:
        agreed(kept, clean, shaped(declared(alert=counting(int))), accept_duplicates=accept)
    assert str(caught.value.code) == "K447"
    assert "kedge state export" in caught.value.next
    assert "--fresh" in caught.value.next


@pytest.mark.parametrize("recovery", ["replay", "none"])
def test_a_state_that_is_not_kept_may_be_of_another_type_once_everything_is_done(recovery: str) -> None:
    kept = text_of(shaped(declared(alert=counting(str, recovery=recovery))))
    (told,) = agreed(kept, True, shaped(declared(alert=counting(int, recovery=recovery))))
    assert "the state of 'alerts' is int in place of str" in told


def test_a_record_whose_last_fields_are_new_and_have_defaults_reads_what_is_kept() -> None:
    name = Old.__qualname__
    more = older_and(name, ("port", int, 22), ("port2", int | None, None))
    kept = text_of(shaped(declared(alert=counting(Old))))
    for clean in (True, False):
        (told,) = agreed(kept, clean, shaped(declared(alert=counting(more))))
        assert "the state of 'alerts' is Old(" in told
    assert decoder(more)(encode(Old(3, "x"))) == more(3, "x", 22, None)  # which is true of the bytes


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([("port", int)], "without a default, and so it is not read"),
        ([("port", int, 22), ("more", str)], "one of two without a default"),
    ],
)
def test_a_record_whose_last_fields_have_no_defaults_does_not(fields: list[Any], why: str) -> None:
    plain: Any = msgspec.defstruct("Old", [("count", int)], bases=(Record,), frozen=True)
    wanted = [("count", int), *((one[0], one[1]) for one in fields)]
    changed: Any = msgspec.defstruct("Old", wanted, bases=(Record,), frozen=True)
    with pytest.raises(StartError) as caught:
        agreed(text_of(shaped(declared(alert=counting(plain)))), True, shaped(declared(alert=counting(changed))))
    assert str(caught.value.code) == "K447", why
    with pytest.raises(RecordError):
        decoder(changed)(encode(plain(3)))


def test_a_field_in_the_middle_is_another_type_though_it_has_a_default() -> None:
    between: Any = msgspec.defstruct(
        "Old", [("count", int), ("port", int, 22), ("last", str, "")], bases=(Record,), frozen=True
    )
    between.__qualname__ = Old.__qualname__
    with pytest.raises(StartError) as caught:
        agreed(text_of(shaped(declared(alert=counting(Old)))), True, shaped(declared(alert=counting(between))))
    assert str(caught.value.code) == "K447"
    with pytest.raises(RecordError):
        decoder(between)(encode(Old(3, "x")))


def left_by(without: Topology) -> str:
    """What is noted after a run that kept state of 'alerts', and one of this topology."""
    return text_of(following(text_of(shaped(declared())), shaped(without)))


@pytest.mark.parametrize("without", [Topology("shapes"), declared(alert=counting(int, recovery="none"))])
def test_state_of_a_bolt_that_is_there_again_is_not_read_as_another_type(without: Topology) -> None:
    kept = left_by(without)
    assert [*left_in(kept)] == ["alerts"]
    with pytest.raises(StartError, match=r"the state of 'alerts' is int in place of tuple\[int, \.\.\.\]") as caught:
        agreed(kept, True, shaped(declared(alert=counting(int))))
    assert str(caught.value.code) == "K447"
    (told,) = agreed(kept, True, shaped(declared()))
    assert "'alerts' resumes with the state that an earlier run has left" in told
    later = text_of(following(kept, shaped(without)))
    assert left_in(later) == left_in(kept), "however many runs later"
    assert left_in(text_of(following(kept, shaped(declared())))) == left_in(None) == {}


def test_what_was_noted_before_state_was_kept_is_no_state_that_can_not_be_read() -> None:
    kept: TopologyShape = json.loads(text_of(shaped(declared())))
    del kept["components"]["alerts"]["kept"]  # as earlier releases have written it
    (told,) = agreed(text_of(kept), True, shaped(declared(alert=counting(int))))
    assert "the state of 'alerts' is int" in told


def test_a_bolt_that_says_that_it_is_not_deterministic_from_now_on_keeps_its_identities_B2() -> None:
    class Asking(Parse):
        deterministic = False

    def topology(parse: Parse) -> Topology:
        declaring = Topology("shapes")
        lines = declaring.spout("lines", Lines())
        declaring.bolt("parse", parse, lines.fields("text"))
        return declaring

    text = "'parse' has process that is not deterministic in place of process"
    assert differences(topology(Asking()), topology(Parse())) == [(text, True)]
    assert [harmless for _, harmless in differences(topology(Parse()), topology(Asking()))] == [False]


def renamed(parse: str, alerts: str, *, by: str = "ip", tell: bool = True) -> Topology:
    """As `declared`, by other names; `tell`: it says what they were."""
    topology = Topology("shapes", config=Config(max_pending=7))
    lines = topology.spout("source", Lines(), renamed_from="lines" if tell else None)
    failures = topology.bolt(parse, Parse(), lines.shuffle(), renamed_from="parse" if tell else None)
    read = failures.fields(by)
    stream = topology.bolt(alerts, Alert(), read, tasks=2, renamed_from="alerts" if tell else None)
    topology.bolt("store0", Sink(), stream.shuffle())
    topology.validate()
    return topology


def test_a_component_that_says_what_it_was_called_is_the_same_one() -> None:
    assert differences(renamed("read", "alarms")) == []
    assert differences(renamed("read", "alarms", tell=False)) != []


def test_a_renamed_component_is_spoken_of_by_its_present_name() -> None:
    assert differences(renamed("read", "alarms", by="user")) == [
        ("'alarms' reads read[Failure] by fields('user') in place of fields('ip')", False)
    ]
    assert names_in(text_of(shaped(renamed("read", "alarms")))) == {
        "lines": "source",
        "parse": "read",
        "alerts": "alarms",
    }
    assert names_in(text_of(shaped(declared()))) == names_in(None) == names_in("damaged") == {}


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


# -- another durability


OTHERS = [("disk", "process"), ("disk", "checkpoint"), ("process", "disk"), ("checkpoint", "disk")]


@pytest.mark.parametrize(("was", "now"), OTHERS)
def test_a_durability_that_names_outputs_otherwise_is_refused_while_something_is_in_flight_and_told_how_to_go_on(
    was: str, now: str
) -> None:
    kept = text_of(shaped(declared(durability=was)))
    with pytest.raises(StartError) as caught:
        agreed(kept, False, shaped(declared(durability=now)))
    assert str(caught.value) == (
        "the last run was not done with all that it had read, and durability is "
        f"{now!r} in place of {was!r}, which gives the outputs of 'alerts' other names"
    )
    assert str(caught.value.code) == "K484"
    assert caught.value.next.startswith(
        f"run once more with --config durability={was}, and end it by kedge stop --drain;"
    )
    assert "--accept-duplicates" in caught.value.next


@pytest.mark.parametrize(("was", "now"), OTHERS)
def test_another_durability_goes_on_after_a_clean_end_and_if_duplicates_are_accepted(was: str, now: str) -> None:
    kept, new = text_of(shaped(declared(durability=was))), shaped(declared(durability=now))
    (told,) = agreed(kept, True, new)
    assert told.startswith(
        "the topology has changed since the last run, which had done all that it read: durability is"
    )
    (told,) = agreed(kept, False, new, accept_duplicates=True)
    assert "what was in flight may be stored twice (--accept-duplicates): durability is" in told


@pytest.mark.parametrize(("was", "now"), [("process", "checkpoint"), ("checkpoint", "process"), ("process", "process")])
def test_durabilities_that_name_outputs_alike_follow_each_other_without_a_word(was: str, now: str) -> None:
    assert agreed(text_of(shaped(declared(durability=was))), False, shaped(declared(durability=now))) == []


def test_a_durability_makes_no_difference_where_no_bolt_with_state_emits() -> None:
    class Silent(Bolt):
        def process(self, failure: Failure, state: State[int]) -> None:
            state.set(1)

    def quiet(durability: Any) -> TopologyShape:
        topology = Topology("quiet", Config(durability=durability))
        topology.bolt(
            "count", Silent(), topology.bolt("parse", Parse(), topology.spout("lines", Lines()).shuffle()).fields("ip")
        )
        return shaped(topology)

    assert agreed(text_of(quiet("disk")), False, quiet("checkpoint")) == []


def test_a_shape_without_a_durability_is_one_of_disk() -> None:
    assert "durability" not in shaped(declared())
    kept = json.loads(text_of(shaped(declared(durability="process"))))
    assert kept.pop("durability") == "process"
    assert changes(kept, shaped(declared())) == []


def test_a_change_of_durability_beside_others_is_listed_with_them() -> None:
    kept = text_of(shaped(declared()))
    with pytest.raises(StartError) as caught:
        agreed(kept, False, shaped(declared(durability="process", by="user")))
    assert str(caught.value.code) == "K440"
    assert "durability is 'process'" in str(caught.value)
    assert "by fields('user') in place of fields('ip')" in str(caught.value)


def test_what_is_put_into_a_directory_keeps_its_durability() -> None:
    kept = text_of(shaped(declared(durability="process")))
    assert json.loads(with_components(kept, components_in(kept), {}))["durability"] == "process"
    assert json.loads(with_components(None, components_in(kept), {})).keys() == {"format", "components"}


def test_of_a_checkpoint_it_is_said_so_and_no_advice_is_given_that_would_not_go_with_it() -> None:
    """A run that begins from one can't be drained instead, and --fresh does not go with --from."""
    kept, renamed = text_of(shaped(declared())), shaped(declared(parse="read"))
    with pytest.raises(StartError, match="has changed since checkpoint 'noon', which has messages in flight") as told:
        agreed(kept, False, renamed, checkpoint="noon")
    assert str(told.value.code) == "K440"
    with pytest.raises(StartError, match="the topology of checkpoint 'noon' was noted by another version") as unread:
        agreed("{", False, renamed, checkpoint="noon")
    for error in (told.value, unread.value):
        assert "--fresh" not in error.next
        assert "begin from it once with" in error.next
        assert "--accept-duplicates" in error.next
    (said,) = agreed(kept, True, renamed, checkpoint="noon")
    assert "since checkpoint 'noon', in which nothing is in flight" in said
