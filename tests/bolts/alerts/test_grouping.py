"""Which alerts are one message: `AlertGroups`, with times that are passed in."""

from alert_kit import Incident

from bolts.alerts.grouping import TOGETHER_MAX, AlertGroups
from bolts.sinks.http.parcels import HeldOutput, Parcel


def alert(group: str, kind: str = "") -> HeldOutput:
    return HeldOutput("key", b"", Incident("api", "down"), group=group, kind=kind)


def groups_of(*names: str, wait_s: float = 10.0, merges: bool = True) -> AlertGroups:
    groups = AlertGroups(wait_s, merges)
    for name in names:
        groups.add(alert(name), 0.0)
    return groups


def to_all(origin: str) -> bool:
    return True


def taken(parcel: Parcel | None) -> list[str]:
    return [output.group for output in parcel.outputs] if parcel is not None else []


def test_a_group_waits_from_its_first_alert_on() -> None:
    groups = groups_of("a")
    groups.add(alert("a"), 9.0)
    assert groups.due_at(to_all) == 10.0
    assert groups.take(9.9, False, to_all) is None
    assert taken(groups.take(10.0, False, to_all)) == ["a", "a"]
    assert groups.due_at(to_all) is None


def test_each_group_is_a_message_of_its_own() -> None:
    groups = groups_of("a", "b", "a")
    assert taken(groups.take(10.0, False, to_all)) == ["a", "a"]
    assert taken(groups.take(10.0, False, to_all)) == ["b"]


def test_while_a_message_is_under_way_its_group_waits_and_others_do_not() -> None:
    groups = groups_of("a", "b")
    first = groups.take(10.0, False, to_all)
    assert first is not None
    groups.add(alert("a"), 10.0)
    assert taken(groups.take(30.0, False, to_all)) == ["b"]
    assert groups.take(30.0, False, to_all) is None
    assert groups.due_at(to_all) is None
    groups.finished(first)
    assert groups.due_at(to_all) == 20.0
    assert taken(groups.take(30.0, False, to_all)) == ["a"]


def test_what_exceeds_the_limit_is_one_message_of_all_due_groups() -> None:
    groups = groups_of("a", "b", "c")
    groups.add(alert("d"), 5.0)
    first = groups.take(10.0, True, to_all)
    assert taken(first) == ["a", "b", "c"], "d is not due"
    assert first is not None
    groups.add(alert("b"), 10.0)
    assert groups.due_at(to_all) == 15.0, "b is under way"


def test_groups_whose_names_mean_something_are_never_merged() -> None:
    groups = groups_of("a", "b", merges=False)
    assert taken(groups.take(10.0, True, to_all)) == ["a"]


def test_a_message_has_one_kind_and_the_order_stays() -> None:
    groups = AlertGroups(0.0, False)
    for kind in ("trigger", "trigger", "resolve", "trigger"):
        groups.add(alert("a", kind), 0.0)
    kinds = []
    while (parcel := groups.take(0.0, False, to_all)) is not None:
        kinds.append([output.kind for output in parcel.outputs])
        groups.finished(parcel)
    assert kinds == [["trigger", "trigger"], ["resolve"], ["trigger"]]


def test_a_message_has_a_bounded_number_of_alerts() -> None:
    groups = groups_of(*["a"] * (TOGETHER_MAX + 5), *["b"] * 10)
    first = groups.take(10.0, True, to_all)
    assert first is not None
    assert len(first.outputs) == TOGETHER_MAX
    groups.finished(first)
    assert len(taken(groups.take(10.0, True, to_all))) == 15


def test_once_the_inputs_have_ended_nothing_waits_for_more() -> None:
    groups = groups_of("a", "b")
    groups.hurry()
    assert taken(groups.take(0.1, False, to_all)) == ["a"]
    assert taken(groups.take(0.1, False, to_all)) == ["b"]


def test_while_the_channel_is_away_nothing_is_due() -> None:
    groups = groups_of("a")
    assert groups.due_at(lambda origin: False) is None
    assert groups.due_at(to_all) == 10.0


def test_those_that_wait_too_long_are_given_back() -> None:
    groups = groups_of("a", "a", "b")
    for number, output in enumerate([*groups._groups["a"].outputs, *groups._groups["b"].outputs]):
        output.taken_at = float(number)
    assert [output.taken_at for output in groups.expired(lambda output: output.taken_at <= 1.0)] == [0.0, 1.0]
    assert taken(groups.take(10.0, True, to_all)) == ["b"]
