"""What a task of a hand-over remembers: by pair and content, forgotten segment by segment, once all of it is over."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from handover_kit import message, says

from acker.floors import Floors
from acker.progress import Progress
from acker.roots import owner
from bridge.handover.dedup import Filed, SegmentIdentities, pair_of


def pairs(*numbers: int) -> list[bytes]:
    return [pair_of(number, number + 1) for number in numbers]


def test_a_pair_is_known_with_each_content_that_it_had_and_with_no_other_B2() -> None:
    remembered = SegmentIdentities()
    (pair,) = pairs(1)
    assert remembered.add(Filed(0, 0, [pair], [message(1)]), [10]) == []
    assert remembered.add(Filed(0, 1, [pair, pair], [message(1)] * 2), [11, 12]) == [pair, pair]
    assert [remembered.holds(pair, content) for content in (10, 11, 12, 13)] == [True, True, True, False]
    assert not remembered.holds(pairs(2)[0], 10)


def test_a_segment_with_messages_of_two_homes_is_over_when_both_say_so_D15() -> None:
    floors, remembered = Floors((0, 1)), SegmentIdentities()
    remembered.add(Filed(0, 0, pairs(1, 2, 3), [message(1), message(5, home=1), message(3)]), [0, 0, 0])
    floors.announce(says(9))
    floors.announce(Progress(message(4, home=1), frozenset(), first=owner(1, 1)))
    assert remembered.forget(floors, 100) == ([], False)
    floors.announce(Progress(message(5, home=1), frozenset(), first=owner(1, 1)))
    over, more = remembered.forget(floors, 100)
    assert ([filed.number for filed in over], more, len(remembered)) == ([0], False, 0)


def test_a_look_is_bounded_and_the_next_goes_on_where_it_was() -> None:
    floors, remembered = Floors((0,)), SegmentIdentities()
    floors.announce(says(100))
    for number in range(4):
        numbers = range(number * 10, number * 10 + 10)
        remembered.add(Filed(0, number, pairs(*numbers), [(message(one), message(one)) for one in numbers]), [0] * 10)
    found: list[list[int]] = []
    more = True
    while more:
        over, more = remembered.forget(floors, 15)
        found.append([filed.number for filed in over])
    assert sorted(one for part in found for one in part) == [0, 1, 2, 3]
    assert len(found) >= 3, "fifteen at once, of forty"
    assert len(remembered) == 0


def test_what_is_not_over_is_looked_at_again_only_when_there_is_news() -> None:
    floors, remembered = Floors((0,)), SegmentIdentities()
    filed = Filed(0, 0, pairs(1, 2), [(message(1),), (message(2), message(3))])
    remembered.add(filed, [0, 0])
    floors.announce(says(2))
    remembered.forget(floors, 100)
    assert (filed.at, filed.looked) == (1, floors.version)
    floors.announce(says(3))
    assert remembered.forget(floors, 100) == ([filed], False)
