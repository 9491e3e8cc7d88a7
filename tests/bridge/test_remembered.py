"""What a task of a hand-over remembers: by pair and content, forgotten segment by segment, once all of it is done."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from handover_kit import decide, message, note

from acker.frontier import Decided
from bridge.handover.dedup import Filed, SegmentIdentities, Waited, pair_of

AT_FIRST = Waited(0, 0)


def pairs(*numbers: int) -> list[bytes]:
    return [pair_of(number, number + 1) for number in numbers]


def earlier(number: int, *numbers: int) -> Filed:
    """A segment that an earlier process has left."""
    return Filed(0, number, pairs(*numbers), None, AT_FIRST)


def test_a_pair_is_known_with_each_content_that_it_had_and_with_no_other_B2() -> None:
    remembered = SegmentIdentities()
    (pair,) = pairs(1)
    assert remembered.add(Filed(0, 0, [pair], [message(1)], AT_FIRST), [10]) == []
    assert remembered.add(Filed(0, 1, [pair, pair], [message(1)] * 2, AT_FIRST), [11, 12]) == [pair, pair]
    assert [remembered.holds(pair, content) for content in (10, 11, 12, 13)] == [True, True, True, False]
    assert not remembered.holds(pairs(2)[0], 10)


def test_all_contents_of_a_pair_are_kept_until_its_last_arrival_is_done_B2_D4() -> None:
    decided, remembered = Decided(), SegmentIdentities()
    (pair,) = pairs(1)
    remembered.add(Filed(0, 0, [pair], [message(1)], AT_FIRST), [10])
    remembered.add(Filed(0, 1, [pair], [message(7)], AT_FIRST), [11])
    decide(decided, note(6))
    assert remembered.forget(decided, 100) == ([], False)
    assert remembered.holds(pair, 10)
    decide(decided, note(7))
    assert len(remembered.forget(decided, 100)[0]) == 2


def test_a_segment_with_messages_of_two_homes_is_done_when_both_are_D15() -> None:
    decided, remembered = Decided(), SegmentIdentities()
    remembered.add(Filed(0, 0, pairs(1, 2, 3), [message(1), message(5, home=1), message(3)], AT_FIRST), [0, 0, 0])
    decide(decided, note(9), note(4, home=1))
    assert remembered.forget(decided, 100) == ([], False)
    decide(decided, note(9), note(5, home=1))
    over, more = remembered.forget(decided, 100)
    assert ([filed.number for filed in over], more, len(remembered)) == ([0], False, 0)


@pytest.mark.parametrize("several", [False, True])
def test_what_was_taken_after_the_worker_had_gathered_is_kept_until_the_next_decision_P4(several: bool) -> None:
    decided, remembered = Decided(), SegmentIdentities()
    messages = [(message(1), message(2))] if several else [message(1)]
    remembered.add(Filed(0, 0, pairs(1), messages, Waited(1, 1)), [0])
    decide(decided, note(9))
    assert remembered.forget(decided, 100) == ([], False)
    decide(decided, note(9))
    assert len(remembered.forget(decided, 100)[0]) == 1


def test_a_known_pair_counts_under_its_last_arrival_also_for_when_it_was_taken_P4() -> None:
    decided, remembered = Decided(), SegmentIdentities()
    remembered.add(Filed(0, 0, pairs(1, 2), [message(1), message(2)], AT_FIRST), [0, 0])
    remembered.again(pairs(2)[0], (message(7),), Waited(2, 2))
    for newest, kept in ((6, 2), (7, 2), (7, 0)):
        decide(decided, note(newest))
        remembered.forget(decided, 100)
        assert len(remembered) == kept


def test_a_look_is_bounded_and_the_next_goes_on_where_it_was() -> None:
    decided, remembered = Decided(), SegmentIdentities()
    decide(decided, note(100))
    for number in range(4):
        numbers = range(number * 10, number * 10 + 10)
        several = [(message(one), message(one)) for one in numbers]
        remembered.add(Filed(0, number, pairs(*numbers), several, AT_FIRST), [0] * 10)
    found: list[list[int]] = []
    more = True
    while more:
        over, more = remembered.forget(decided, 15)
        found.append([filed.number for filed in over])
    assert sorted(one for part in found for one in part) == [0, 1, 2, 3]
    assert len(found) >= 3, "fifteen at once, of forty"
    assert len(remembered) == 0


def test_what_is_not_done_is_looked_at_again_only_after_a_decision() -> None:
    decided, remembered = Decided(), SegmentIdentities()
    filed = Filed(0, 0, pairs(1, 2), [(message(1),), (message(2), message(3))], AT_FIRST)
    remembered.add(filed, [0, 0])
    decide(decided, note(2))
    remembered.forget(decided, 100)
    assert (filed.at, filed.looked) == (1, decided.version)
    decide(decided, note(3))
    assert remembered.forget(decided, 100) == ([filed], False)


def test_what_an_earlier_process_has_left_goes_once_all_of_it_has_come_again_D4() -> None:
    decided, remembered = Decided(), SegmentIdentities()
    filed = earlier(0, 1, 2)
    remembered.add(filed, [10, 11])
    decide(decided, note(9))
    assert remembered.forget(decided, 100) == ([], False)
    for at, pair in enumerate(pairs(1, 2)):
        assert remembered.holds(pair, 10 + at)
        remembered.again(pair, (message(20 + at),), Waited(decided.gathered, decided.gathered))
        decide(decided, note(20 + at))
        assert remembered.forget(decided, 100) == ([filed] if at else [], False)


def test_what_an_earlier_process_has_left_of_a_dropped_letter_goes_though_the_look_is_late_E1() -> None:
    decided, remembered = Decided(), SegmentIdentities()
    remembered.add(earlier(0, 1), [10])
    decide(decided, note(9, dropped=[1]))
    decide(decided, note(9))
    assert len(remembered.forget(decided, 100)[0]) == 1


def test_beyond_the_bound_the_oldest_go_that_wait_for_earlier_lives_and_no_others() -> None:
    decided, remembered = Decided(), SegmentIdentities(most=5)
    first, second = earlier(3, 1, 2), earlier(8, 3, 4)
    gone, waits = (
        Filed(0, 9, pairs(5, 6), [message(5), message(6)], AT_FIRST),
        Filed(0, 10, pairs(7, 8), [message(80)] * 2, AT_FIRST),
    )
    for filed in (first, second, gone, waits):
        remembered.add(filed, [0] * 2)
    over, _ = remembered.forget(decided, 100)
    assert (over, len(remembered), remembered.squeezed) == ([first, second], 4, 4)
    remembered.add(Filed(0, 11, pairs(9, 10), [message(81)] * 2, AT_FIRST), [0] * 2)
    for _ in range(2):  # only then it is certain that the life was there before
        assert remembered.forget(decided, 100) == ([], False)
        decide(decided, note(70, life=2))
    assert remembered.forget(decided, 100)[0] == [gone]
