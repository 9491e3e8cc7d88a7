"""The pure parts of sources on servers: settled numbers, the room for what waits, and what is given again."""

from random import Random

from spouts.broker.payload_room import FIRST_ASKED, WAITING_BYTES_MAX, PayloadRoom
from spouts.broker.ranges import DROPPED, RANGES_MAX, IntRanges
from spouts.broker.unconfirmed import Unconfirmed


def taken(unconfirmed: Unconfirmed, *numbers: int) -> None:
    for number in numbers:
        assert unconfirmed.is_new(("", number), None)


def settled(unconfirmed: Unconfirmed, *numbers: int) -> None:
    for number in numbers:
        unconfirmed.settle(("", number))


def test_a_set_of_ranges_has_what_a_set_of_ints_has() -> None:
    random = Random(5)
    for _ in range(50):
        ranges, wanted = IntRanges(), set[int]()
        for _ in range(60):
            first = random.randint(-20, 60)
            last = first + random.randint(-2, 6)
            ranges.add(first, last)
            wanted |= {*range(first, last + 1)}
            assert [number for number in range(-30, 80) if number in ranges] == sorted(wanted)
            missing = next(number for number in range(first, 100) if number not in wanted)
            assert ranges.first_missing(first) == missing


def test_numbers_that_come_in_order_are_one_range() -> None:
    ranges = IntRanges()
    for number in Random(2).sample(range(1_000), 1_000):
        ranges.add(number, number)
    assert len(ranges) == 1


def test_of_too_many_ranges_the_lowest_are_forgotten() -> None:
    ranges = IntRanges()
    for number in range(0, 2 * RANGES_MAX + 2, 2):
        ranges.add(number, number)
    assert len(ranges) == RANGES_MAX + 1 - DROPPED
    assert 0 not in ranges
    assert 2 * RANGES_MAX in ranges


def test_a_number_that_was_never_given_is_not_taken_for_a_settled_one() -> None:
    unconfirmed = Unconfirmed()
    taken(unconfirmed, 1, 2, 5)
    settled(unconfirmed, 1, 2, 5)
    assert [number for number in range(-2, 8) if unconfirmed.was_settled(("", number))] == [1, 2, 5]


def test_a_source_goes_on_at_the_first_number_that_is_not_settled() -> None:
    unconfirmed = Unconfirmed()
    assert unconfirmed.next_wanted("") is None
    unconfirmed.begins_at("", 1)
    assert unconfirmed.next_wanted("") == 1
    taken(unconfirmed, 1, 2, 5, 6)
    settled(unconfirmed, 1, 5, 6)
    assert unconfirmed.next_wanted("") == 2, "it is under way"
    settled(unconfirmed, 2)
    assert unconfirmed.next_wanted("") == 3, "it was not given"
    unconfirmed.nothing_between("", 2, 5)
    assert unconfirmed.next_wanted("") == 7
    assert unconfirmed.newest("") == 6


def test_a_message_under_way_is_not_settled_though_a_later_one_is() -> None:
    unconfirmed = Unconfirmed()
    taken(unconfirmed, 7, 8)
    settled(unconfirmed, 8)
    unconfirmed.nothing_between("", 6, 8)
    assert not unconfirmed.was_settled(("", 7))


def test_a_room_is_full_by_number_or_by_bytes() -> None:
    room, found = PayloadRoom(3), list[bool]()
    for change in (3, -1, WAITING_BYTES_MAX, -2, -1):
        if change == 3:
            for _ in range(3):
                room.enter(1)
        elif change < 0:
            room.leave(-change)
        else:
            room.enter(change)
        found.append(room.is_full)
    assert found == [True, False, True, True, False]
    assert room.bytes == 0


def test_few_messages_are_asked_for_until_their_size_is_known() -> None:
    room = PayloadRoom(2_000)
    assert room.limit() == FIRST_ASKED
    room.heard([10] * FIRST_ASKED)
    assert room.limit() == 2 * FIRST_ASKED
    for _ in range(7):
        room.heard([10])
    assert room.limit() == 2_000


def test_no_more_large_messages_are_asked_for_than_there_is_room_for() -> None:
    room = PayloadRoom(2_000)
    for _ in range(8):
        room.heard([10])
    room.heard([1024 * 1024])
    assert room.limit() == 64
    room.enter(WAITING_BYTES_MAX - 1)
    assert room.limit() == 1
    room.leave(1)
    for _ in range(200):
        room.heard([10] * 128)
    assert room.limit() == 2_000, "large ones are not expected for ever"
