"""Marks: the oldest message that is not done, and spans of what is done above it (E3, E4)."""

from collections.abc import Sequence

import pytest

from acker.identity import MessageId
from acker.marks import AHEAD_MAX, RECENT_MAX, Lane, Marks, Reached


def lane_of(ids: Sequence[MessageId], loaded: Reached | None = None) -> Lane:
    lane = Lane(loaded)
    assert lane.new(ids) == len(ids)
    lane.add(ids)
    return lane


def test_an_epoch_that_has_given_nothing_has_no_mark() -> None:
    assert Lane().reached() is None
    assert Lane(Reached(3, ((5, 9),), 9)).reached() is None, "what was loaded stands"


def test_where_all_is_done_the_mark_is_the_newest_which_is_done() -> None:
    assert lane_of([4, 5, 9]).reached() == Reached(9, ((9, 9),), 9)
    assert lane_of(["a", "b"]).reached() == Reached("b", (("b", "b"),), "b")


@pytest.mark.parametrize(
    ("unfinished", "expected"),
    [
        ([3], Reached(3, ((4, 30),), 30)),
        ([30], Reached(30, (), 30)),
        ([9, 3], Reached(3, ((4, 4), (12, 30)), 30)),
        ([3, 4, 9, 30], Reached(3, ((12, 12),), 30)),
        ([4, 9, 12, 30], Reached(4, (), 30)),
    ],
)
def test_the_mark_is_the_oldest_unfinished_int_and_the_others_that_were_given_after_it_are_done_E3(
    unfinished: list[int], expected: Reached
) -> None:
    assert lane_of([1, 3, 4, 9, 12, 30]).reached(unfinished) == expected


def test_before_the_ints_that_are_remembered_all_between_two_unfinished_ones_is_done() -> None:
    lane, polls = Lane(), RECENT_MAX // 2 + 2
    for number in range(0, 20 * polls, 20):
        lane.add([number, number + 7])
    unfinished = [0, 20, 40, 47, 60]  # the first two polls are not remembered
    last = 20 * (polls - 1) + 7
    assert lane.reached(unfinished) == Reached(0, ((1, 19), (21, 39), (67, last)), last)


def test_of_ints_that_are_done_none_is_remembered_once_a_mark_was_asked_for() -> None:
    lane = lane_of([*range(0, 1_000, 10)])
    assert lane.reached() == Reached(990, ((990, 990),), 990)
    lane.add([1_000, 1_010])
    assert lane.reached([500, 1_010]) == Reached(500, ((501, 1_009),), 1_010), "all between: it was forgotten"


def test_ints_that_are_not_done_any_more_stand_before_those_that_are_remembered() -> None:
    """As when the run goes back: the marks before have forgotten what was done."""
    lane = lane_of([10, 20, 30, 40])
    lane.add([50, 60])
    assert lane.reached([50]) == Reached(50, ((60, 60),), 60)
    assert lane.reached([20, 50]) == Reached(20, ((21, 49), (60, 60)), 60)


def test_there_is_at_most_one_span_more_than_there_are_unfinished_messages_E4() -> None:
    reached = lane_of(range(100_000)).reached([*range(0, 100_000, 1_000)])
    assert reached is not None
    assert len(reached.done) == 100


def test_names_stand_alone_in_the_order_of_their_emission() -> None:
    lane = lane_of(["z", "y", "x", "w"])
    assert lane.reached(["y", "w"]) == Reached("y", (("x", "x"),), "w")


def test_names_that_are_done_before_the_oldest_unfinished_one_are_forgotten_once_that_is_stored() -> None:
    lane = lane_of([f"name {n}" for n in range(1_000)])
    assert lane.reached(["name 999"]) == Reached("name 999", (), "name 999")
    assert lane.new(["name 1"]) == 0
    lane.stored()
    assert lane.new(["name 1"]) == 1, "a message of its own now"
    assert lane.new(["name 999"]) == 0


def test_a_run_that_goes_back_before_a_mark_is_stored_knows_what_an_earlier_run_had_finished_P2() -> None:
    """The source has given all of it again; the mark that has passed it was given up."""
    lane = Lane(Reached("a", (("b", "b"), ("c", "c")), "d"))
    assert lane.new(["a"]) == 1
    lane.add(["a"])
    assert lane.before("b")
    assert lane.before("c")
    lane.add(["d"])
    lane.reached(["d"])
    lane.reopen(["a"])
    assert lane.reached(["a", "d"]) == Reached("a", (("b", "b"), ("c", "c")), "d")
    lane.stored()
    assert lane.reached(["a", "d"]) == Reached("a", (("b", "b"), ("c", "c")), "d")


def test_a_finished_name_that_is_emitted_again_before_the_mark_is_stored_is_not_forgotten_with_it() -> None:
    lane = lane_of(["a", "b"])
    lane.reached(["b"])
    assert lane.again("a")
    lane.add(["a"])
    lane.stored()
    assert lane.reached(["a"]) == Reached("a", (), "a")


@pytest.mark.parametrize("ids", [[3], [2, 4], [3, 3]])
def test_an_int_that_is_not_above_the_last_one_is_not_new(ids: list[int]) -> None:
    lane = lane_of([1, 3])
    assert lane.new(ids) == 0
    assert not lane.before(ids[0])
    assert not lane.again(ids[0])


def test_of_a_poll_that_repeats_an_id_what_comes_before_that_is_new() -> None:
    lane = Lane()
    assert lane.new([1, 2, 2, 3]) == 2
    assert lane.new(["a", "b", "a"]) == 2
    assert lane.new([5, 4]) == 1


def test_what_was_done_by_an_earlier_run_is_not_new_and_what_was_not_is() -> None:
    loaded = Reached(5, ((7, 8), (10, 12)), 13)
    lane = Lane(loaded)
    ids = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    emitted, at = list[int](), 0
    while at < len(ids):
        count = lane.new(ids, at)
        if count:
            lane.add(ids[at : at + count])
            emitted += ids[at : at + count]
        else:
            assert lane.before(ids[at])
        at += count or 1
    assert emitted == [5, 6, 9, 13, 14]
    assert lane.reached() == Reached(14, ((14, 14),), 14)


def test_what_the_source_has_not_given_again_yet_is_still_done_E4() -> None:
    lane = Lane(Reached(5, ((7, 8), (10, 12)), 13))
    lane.add([5])
    assert lane.reached([5]) == Reached(5, ((7, 8), (10, 12)), 13)
    assert lane.reached() == Reached(5, ((5, 5), (7, 8), (10, 12)), 13), "6 is not"
    lane.add([6])
    assert lane.before(7)
    assert lane.reached([6]) == Reached(6, ((7, 7), (8, 8), (10, 12)), 13)


def test_ints_below_the_position_are_done_though_a_source_begins_before_it() -> None:
    lane = Lane(Reached(5, (), 5))
    assert lane.new([0, 1]) == 0
    assert lane.before(0)
    assert lane.before(4)
    assert lane.reached() is None, "the position does not go back"
    assert lane.new([5]) == 1


def test_names_that_an_earlier_run_has_done_are_passed_over_once() -> None:
    lane = Lane(Reached("b", (("c", "c"),), "d"))
    assert lane.new(["b", "c", "d"]) == 1
    lane.add(["b"])
    assert lane.before("c")
    assert not lane.before("c")
    assert lane.new(["d"]) == 1


def test_no_mark_waits_for_what_is_no_id() -> None:
    lane = Lane()
    ids: list[MessageId] = [1, None, 2.5, "a"]  # type: ignore[list-item]  # what a spout gives, nobody checks
    assert lane.new(ids) == 4
    lane.add(ids)
    assert lane.reached([None, 2.5]) == Reached("a", (("a", "a"),), "a")  # type: ignore[list-item]


def test_only_marks_that_have_changed_are_given() -> None:
    marks = Marks()
    for partition in ("p", "q"):
        marks.lane(partition, "1").add([1, 2])
    found = marks.reached({("p", "1"): [2]})
    assert found == {("p", "1"): Reached(2, (), 2), ("q", "1"): Reached(2, ((2, 2),), 2)}
    marks.note_stored(found, [("p", "1"), ("q", "1")])
    assert marks.reached({("p", "1"): [2]}) == {}
    assert marks.reached({}) == {("p", "1"): Reached(2, ((2, 2),), 2)}


def test_names_that_the_source_is_to_hear_of_stay_in_the_mark_until_it_has_given_something_more_P11() -> None:
    """A crash may come between the decision and the broker's hearing of it: it gives them again, in any order."""
    lane = lane_of(["a", "b", "c"])
    assert lane.reached(["b"], ["a", "c"]) == Reached("b", (("a", "a"), ("c", "c")), "c")
    assert lane.reached([], ["b"]) == Reached("c", (("c", "c"), ("a", "a"), ("b", "b")), "c")
    assert lane.reached() == Reached("c", (("c", "c"), ("a", "a"), ("b", "b")), "c"), "a run that ends keeps them"
    lane.add(["d"])
    assert lane.reached(["d"]) == Reached("d", (), "d")
    later = Lane(Reached("c", (("c", "c"), ("a", "a"), ("b", "b")), "c"))
    assert later.new(["b"]) == later.new(["a"]) == 0
    assert later.before("b")
    assert later.before("a")


def test_names_that_an_earlier_run_has_finished_are_forgotten_when_many_others_have_come() -> None:
    lane = Lane(Reached("c", (("c", "c"), ("a", "a")), "c"))
    lane.add([f"name {n}" for n in range(AHEAD_MAX)])
    assert lane.reached() == Reached(
        f"name {AHEAD_MAX - 1}", ((f"name {AHEAD_MAX - 1}",) * 2,), f"name {AHEAD_MAX - 1}"
    )


def test_an_epoch_that_is_over_is_forgotten_once_its_mark_is_kept_C2() -> None:
    marks = Marks()
    marks.lane("p", "1").add([1, 2])
    marks.lane("p", "2").add([1])
    now = [("p", "2")]
    assert marks.note_stored(marks.reached({("p", "1"): [1]}), now) == [], "1 is not done"
    found = marks.reached({})
    marks.lane("p", "1").add([3])
    assert marks.note_stored(found, now) == [], "it has given something since"
    assert marks.note_stored(marks.reached({}), now) == [("p", "1")]


def test_what_was_loaded_counts_for_its_own_epoch_alone_C2() -> None:
    marks = Marks({("p", "1"): Reached(5, ((5, 5),), 5)})
    assert marks.lane("p", "1").new([3]) == 0
    assert marks.lane("p", "2").new([3]) == 1
    assert marks.lane("q", "1").new([3]) == 1


def test_names_that_an_earlier_run_had_under_way_and_that_have_not_come_again_are_not_taken_for_done_B11() -> None:
    """Only what was given up to its newest is known to be all that it had read."""
    marks = Marks({("p", "1"): Reached("a", (("b", "b"),), "c")})
    lane = marks.lane("p", "1")
    lane.add(["a"])
    assert marks.reached({}) == {("p", "1"): Reached("a", (("a", "a"), ("b", "b")), "c")}
    assert lane.new(["b"]) == 0
    assert lane.before("b")
    lane.add(["c"])
    assert marks.reached({}) == {("p", "1"): Reached("c", (("c", "c"),), "c")}


def test_a_name_that_is_open_again_keeps_its_place_and_forgotten_ones_come_first_P2() -> None:
    """A source resumes at the position and reads on from there: what is done behind it must be in the spans."""
    marks = Marks()
    lane = marks.lane("p", "1")
    lane.add(["a", "b", "c", "d"])
    assert marks.reached({("p", "1"): ["b", "d"]}) == {("p", "1"): Reached("b", (("c", "c"),), "d")}, "a is forgotten"
    lane.reopen(["a", "c"])
    assert marks.reached({("p", "1"): ["a", "b", "c", "d"]}) == {("p", "1"): Reached("a", (), "d")}
    assert marks.reached({("p", "1"): ["b", "d"]}) == {("p", "1"): Reached("b", (("c", "c"),), "d")}
