"""What one home announces ends something only when all that may begin sub-trees have said they heard it. Rule D17."""

from acker.agreed_floors import AgreedFloors
from acker.progress import Progress
from acker.roots import owner


def message(home: int, number: int, incarnation: int = 1) -> int:
    return owner(home, incarnation) << 32 | number


def says(home: int, newest: int, number: int, *heard: int, incarnation: int = 1) -> Progress:
    first = owner(home, incarnation)
    return Progress(first << 32 | newest, frozenset(), first, number=number, heard=frozenset(heard))


def test_what_is_done_is_refused_at_once_and_over_once_each_beginner_has_heard_it_D5_D17() -> None:
    floors, one = AgreedFloors((0, 1, 2), beginners=(1, 2)), message(0, 7)
    floors.announce(says(0, 9, 4))
    floors.announce(says(1, 0, 1, message(0, 4)))
    floors.announce(says(2, 0, 1, message(0, 3)))
    assert floors.refuses(one)
    assert not floors.are_over((one,), 5)
    floors.announce(says(2, 0, 1, message(0, 4)))
    assert floors.are_over((one,), 5)


def test_what_homes_say_is_agreed_though_they_always_have_news_before_all_have_heard_it_D17() -> None:
    floors = AgreedFloors((0, 1), beginners=(1,))
    for number in range(1, 50):
        floors.announce(says(0, number, number))
        floors.announce(says(1, number, number, message(0, max(number - 1, 1))))
    assert floors.are_over((message(0, 40),), 5)
    assert not floors.are_over((message(0, 49),), 5)


def test_a_beginner_that_has_heard_of_a_later_life_knows_all_that_an_earlier_one_has_said_D17() -> None:
    floors = AgreedFloors((0, 1), beginners=(1,))
    floors.announce(says(0, 9, 4))
    floors.announce(says(1, 0, 1, message(0, 1, incarnation=2)))
    assert floors.are_over((message(0, 7),), 5)


def test_what_a_beginner_has_heard_in_an_earlier_life_is_void_once_another_one_speaks_D17() -> None:
    floors = AgreedFloors((0, 1), beginners=(1,))
    floors.announce(says(1, 0, 1, message(0, 4)))
    floors.announce(says(1, 0, 1, incarnation=2))
    floors.announce(says(0, 9, 4))
    assert not floors.are_over((message(0, 7),), 5)
