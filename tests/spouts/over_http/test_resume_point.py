"""The place after which a later run begins: nothing before it is open, whatever the order of the ends."""

from hypothesis import given
from hypothesis import strategies as st

from spouts.http.resume_point import ResumePoint


def test_it_moves_only_over_messages_that_are_settled_without_a_gap() -> None:
    point = ResumePoint("0")
    for name in "123":
        point.came(name, name)
    point.came("/own", "")
    point.came("4", "4")
    seen = []
    for name in ("2", "1", "4", "unknown", "/own", "3"):
        point.settle(name)
        seen.append(point.after)
    assert seen == ["0", "2", "2", "2", "2", "4"]


def test_an_event_without_an_id_moves_it_nowhere() -> None:
    point = ResumePoint("")
    point.came("/a", "")
    point.settle("/a")
    assert point.after == ""


@given(st.permutations(range(1, 12)), st.integers(0, 11), st.integers(1, 11))
def test_all_up_to_it_are_settled_and_the_next_is_not(order: list[int], settled: int, came: int) -> None:
    point = ResumePoint("0")
    for number in range(1, came + 1):
        point.came(number, str(number))
    ended = {number for number in order[:settled] if number <= came}
    for number in order[:settled]:
        point.settle(number)
    after = int(point.after)
    assert {*range(1, after + 1)} <= ended
    assert after + 1 not in ended
    assert len(point._events) == came - after, "it keeps nothing of what is before it"
