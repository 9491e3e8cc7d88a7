"""The quick ways of `Floors`: `has_done`, by which a whole row is forgotten (D4), and `refuses_none`, by which a whole
slice is taken (D5), say yes only where the slow ones do."""

from hypothesis import given
from hypothesis import strategies as st

from acker.floors import Floors
from acker.progress import Progress
from acker.roots import owner

LIFE = owner(3, 7)
MESSAGES = st.integers(0, 60).map(lambda number: LIFE << 32 | number)


@given(st.lists(st.tuples(MESSAGES, st.frozensets(MESSAGES, max_size=5)), min_size=1), MESSAGES, MESSAGES)
def test_a_row_that_is_done_as_a_whole_has_only_messages_that_are_over_d4(
    said: list[tuple[int, frozenset[int]]], one: int, other: int
) -> None:
    floors = Floors([3])
    for newest, unfinished in said:
        floors.announce(Progress(newest, unfinished, first=LIFE))
        first, last = sorted((one, other))
        each = [floors.are_over((message,), 1) for message in range(first, last + 1)]
        assert floors.has_done(first, last) in (False, all(each))
        now = floors.announced()[0]
        if now.newest >= last and not any(message <= last for message in now.unfinished):
            assert floors.has_done(first, last), "nothing before it is open"


def test_messages_of_an_earlier_life_are_not_told_of_in_the_quick_way_d17() -> None:
    floors = Floors([3])
    floors.announce(Progress(LIFE << 32 | 9, frozenset(), first=LIFE))
    before = owner(3, 6) << 32
    assert not floors.has_done(before | 1, before | 2)
    assert not floors.has_done(before | 1, LIFE << 32 | 2)


@given(st.lists(st.tuples(MESSAGES, st.frozensets(MESSAGES, max_size=2))), MESSAGES, MESSAGES)
def test_a_slice_that_is_taken_as_a_whole_has_no_message_that_is_refused_d5(
    said: list[tuple[int, frozenset[int]]], one: int, other: int
) -> None:
    floors = Floors([3])
    first, last = sorted((one, other))
    assert not floors.refuses_none(first, last), "who has heard nothing can't say"
    for newest, refused in said:
        floors.announce(Progress(newest, frozenset(), first=LIFE, refused=refused))
        each = [floors.refuses(message) for message in range(first, last + 1)]
        assert floors.refuses_none(first, last) in (False, not any(each))
        now = floors.announced()[0]
        if not now.refused and first > now.newest:
            assert floors.refuses_none(first, last)
        assert not floors.refuses_none(owner(3, 6) << 32 | 1, LIFE << 32 | 99), "of another life"
