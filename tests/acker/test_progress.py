"""Progress: the messages of a home that are done, by the newest and the few that are not (D4, E4)."""

from hypothesis import given
from hypothesis import strategies as st

from acker.progress import Progress
from acker.roots import message_of, owner, pack

HOME = owner(3, 9)


def message(number: int, home: int = HOME) -> int:
    return message_of(pack(home, number, 0))


@given(st.sets(st.integers(1, 60)), st.integers(0, 60))
def test_a_message_is_done_when_it_has_begun_and_is_not_among_the_unfinished(unfinished: set[int], newest: int) -> None:
    progress = Progress(message(newest), frozenset(message(number) for number in unfinished))
    done = {number for number in range(1, 70) if progress.covers(message(number))}
    assert done == set(range(1, newest + 1)) - unfinished


def test_messages_of_an_earlier_incarnation_are_done_but_for_the_unfinished() -> None:
    old = message(2**32 - 1, owner(3, 8))
    assert Progress(message(1), frozenset()).covers(old)
    assert not Progress(message(1), frozenset([old])).covers(old)


def test_messages_of_a_later_incarnation_are_not_done() -> None:
    assert not Progress(message(2**32 - 1), frozenset()).covers(message(1, owner(3, 10)))
