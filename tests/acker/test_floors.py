"""What a worker knows of all homes' messages: what is stale, and what may be forgotten. Rules A20, D4, D5, D15,
D17, E1."""

import pytest

from acker.floors import Floors
from acker.progress import Progress
from acker.roots import owner


def message(home: int, incarnation: int, number: int) -> int:
    return owner(home, incarnation) << 32 | number


def says(
    home: int, incarnation: int, newest: int, *unfinished: int, dead: tuple[int, ...] = (), caught_up: bool = True
) -> Progress:
    return Progress(
        message(home, incarnation, newest),
        frozenset(message(home, incarnation, number) for number in unfinished),
        first=owner(home, incarnation),
        dead=frozenset(dead),
        caught_up=caught_up,
    )


def heard(*progress: Progress, homes: tuple[int, ...] = (0,)) -> Floors:
    floors = Floors(homes)
    for one in progress:
        floors.announce(one)
    return floors


def test_where_there_are_no_homes_nothing_is_refused_and_nothing_is_over() -> None:
    floors = heard(says(0, 1, 9), homes=())
    assert not floors.refuses(message(0, 1, 3))
    assert not floors.are_over((message(0, 1, 3),), 7)


def test_a_message_of_the_present_life_is_over_once_it_is_announced_as_done_D4() -> None:
    floors = heard(says(0, 1, 9, 4))
    assert [floors.are_over((message(0, 1, number),), 7) for number in (3, 4, 9, 10)] == [True, False, True, False]
    assert [floors.refuses(message(0, 1, number)) for number in (3, 4, 9, 10)] == [True, False, True, False]


def test_what_an_earlier_life_has_left_is_refused_at_once_and_over_once_its_home_has_caught_up_D4_D5() -> None:
    floors, old = heard(says(0, 5, 0, caught_up=False)), message(0, 3, 8)
    assert floors.refuses(old)
    assert not floors.are_over((old,), 7)
    assert floors.is_earlier((old,))
    floors.announce(says(0, 5, 20))
    assert floors.are_over((old,), 7)


def test_of_an_earlier_life_counted_round_too_D4_A7() -> None:
    floors = heard(says(0, 1, 0, caught_up=False))
    assert floors.refuses(message(0, 4095, 8))
    assert not floors.are_over((message(0, 4095, 8),), 7)


def test_a_life_whose_numbers_were_spent_is_still_the_same_life_A7() -> None:
    renewed = Progress(message(0, 6, 4), frozenset({message(0, 5, 2**32 - 2)}), first=owner(0, 5), caught_up=False)
    floors = heard(renewed)
    assert floors.are_over((message(0, 5, 2**32 - 1),), 7)
    assert not floors.are_over((message(0, 5, 2**32 - 2),), 7)
    assert floors.are_over((message(0, 6, 4),), 7)
    assert not floors.is_earlier((message(0, 5, 7),))


def test_what_belongs_to_several_messages_is_over_once_all_are_and_refused_for_any_D15() -> None:
    floors = heard(says(0, 1, 9), says(1, 1, 9, 4), homes=(0, 1))
    assert not floors.are_over((message(0, 1, 3), message(1, 1, 4)), 7)
    assert floors.are_over((message(0, 1, 3), message(1, 1, 5)), 7)


def test_no_earlier_life_is_over_before_all_homes_have_caught_up_D17() -> None:
    floors = heard(says(0, 5, 1), says(1, 5, 1, caught_up=False), homes=(0, 1))
    assert not floors.are_over((message(0, 3, 8),), 7)
    floors.announce(says(1, 5, 2))
    assert floors.are_over((message(0, 3, 8),), 7)


def test_a_home_that_lives_on_has_to_be_done_with_what_it_had_emitted_before_it_knew_D17() -> None:
    floors = heard(says(0, 5, 1), says(1, 3, 9, 9), homes=(0, 1))
    assert not floors.are_over((message(0, 3, 8),), 7)
    floors.announce(says(1, 3, 20, 19)._replace(settled=frozenset({owner(0, 5)})))
    assert floors.are_over((message(0, 3, 8),), 7)
    floors.announce(says(0, 8, 0))
    assert not floors.are_over((message(0, 3, 8),), 7), "it has died once more"


def test_what_is_dead_is_kept_by_its_origin_and_of_several_all_while_any_is_dead_E1() -> None:
    floors, old = heard(says(0, 5, 1, dead=(7,))), message(0, 3, 8)
    assert not floors.are_over((old,), 7)
    assert floors.are_over((old,), 8)
    assert not floors.are_over((old, message(0, 5, 1)), 8)
    assert not floors.are_over((old, old), 8), "a sub-root, named twice, stands for several"
    assert not floors.are_over((message(0, 5, 1),), 7), "it was given again in this life, as after --fresh, and is done"
    assert floors.are_over((message(0, 5, 1),), 8)
    floors.announce(says(0, 5, 2))
    assert floors.are_over((old,), 7)


def test_a_worker_that_is_no_home_any_more_has_only_earlier_lives() -> None:
    floors, gone = heard(says(0, 5, 1, caught_up=False)), message(3, 4, 8)
    floors.restore([says(3, 4, 2)])
    assert floors.refuses(gone)
    assert floors.is_earlier((gone,))
    assert not floors.are_over((gone,), 7)
    floors.announce(says(0, 5, 2))
    assert floors.are_over((gone,), 7)


def test_what_is_restored_refuses_but_ends_no_earlier_life_D5() -> None:
    floors = Floors((0,))
    floors.restore([says(0, 3, 9, 4, dead=(7,))])
    assert floors.refuses(message(0, 3, 8))
    assert floors.are_over((message(0, 3, 8),), 8)
    assert not floors.refuses(message(0, 3, 4))
    assert not floors.are_over((message(0, 1, 8),), 8)
    floors.announce(says(0, 5, 1))
    assert floors.are_over((message(0, 1, 8),), 7)


def test_what_a_home_has_said_before_and_what_an_earlier_life_says_is_no_news_D5() -> None:
    floors = heard(says(0, 5, 9))
    for old in (says(0, 5, 8, 3), says(0, 5, 9), says(0, 4, 20, 3)):
        assert not floors.announce(old)
    floors.restore([says(0, 5, 9, 3), says(0, 4, 20, 3)])
    assert floors.announced() == [says(0, 5, 9)]


LATER = (1, 100, 1023, 1024, 2047, 2048, 2049, 3000, 3071, 3072, 4095, 4096, 4097, 8192, 20_000)


@pytest.mark.parametrize("later", LATER)
def test_a_life_is_believed_however_many_lives_after_the_one_that_is_restored_A20(later: int) -> None:
    floors = Floors((0,))
    floors.restore([says(0, 10, 500)])
    assert floors.announce(says(0, 10 + later, 3))
    assert not floors.refuses(message(0, 10 + later, 4))
    assert floors.refuses(message(0, 10 + later, 3))


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("restored_first", [False, True])
@pytest.mark.parametrize("later", [one for one in LATER if one % 4096])
def test_a_life_that_is_told_of_is_not_refused_before_it_has_said_anything_A20(
    later: int, restored_first: bool, new: bool
) -> None:
    floors, present = Floors((0,)), owner(0, 10 + later)
    if restored_first:
        floors.restore([says(0, 10, 500, 4, dead=(7,))])
    floors.begins(0, present, new=new)
    if not restored_first:
        floors.restore([says(0, 10, 500, 4, dead=(7,))])
    assert not floors.refuses(message(0, 10 + later, 1))
    assert not floors.has_done(message(0, 10 + later, 1), message(0, 10 + later, 1))
    assert floors.dead == {7}
    assert not floors.announce(says(0, 10, 501)), "another life says that"
    assert floors.announce(says(0, 10 + later, 3))
    assert floors.refuses(message(0, 10 + later, 3))


def test_a_life_of_ones_own_is_not_that_of_4096_lives_before_A20() -> None:
    floors = Floors((0,))
    floors.begins(0, owner(0, 4106), new=True)
    floors.restore([says(0, 10, 500)])
    assert not floors.refuses(message(0, 4106, 1))


def test_a_life_that_has_ended_is_not_the_next_one_though_their_owners_are_equal_A20() -> None:
    floors = heard(says(0, 10, 500))
    floors.begins(0, owner(0, 10))
    floors.begins(0, owner(0, 10))  # a link was lost, and the same life is joined again
    assert floors.refuses(message(0, 10, 500))
    floors.ends(owner(0, 9))  # word of an earlier one comes late
    floors.ends(owner(0, 10))
    floors.begins(0, owner(0, 4106))
    assert not floors.refuses(message(0, 4106, 1))
    assert floors.announce(says(0, 4106, 3))


@pytest.mark.parametrize("later", [2048, 2049, 3000, 3071, 7000, 10_000])
def test_what_belongs_to_a_life_long_ago_is_over_once_its_home_has_caught_up_A20(later: int) -> None:
    floors, old = Floors((0,)), message(0, 10, 8)
    floors.begins(0, owner(0, 10 + later), new=True)
    floors.announce(says(0, 10 + later, 9, caught_up=False))
    assert not floors.are_over((old,), 7)
    assert floors.is_earlier((old,))
    floors.announce(says(0, 10 + later, 20))
    assert floors.are_over((old,), 7)


@pytest.mark.parametrize("later", [2, 1000, 2048, 3000])
def test_a_home_that_lives_on_is_one_however_many_lives_others_have_had_D17_A20(later: int) -> None:
    floors = heard(says(1, 10, 9, 9), homes=(0, 1))
    floors.begins(0, owner(0, 10 + later))
    floors.announce(says(0, 10 + later, 1))
    assert not floors.are_over((message(0, 9, 8),), 7), "the other home has not settled"
    floors.announce(says(1, 10, 20)._replace(settled=frozenset({owner(0, 10 + later)})))
    assert floors.are_over((message(0, 9, 8),), 7)
