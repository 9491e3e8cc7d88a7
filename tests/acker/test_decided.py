"""What a worker and its tasks know of decided checkpoints: what is refused, and what may be forgotten (D4, D5, P4)."""

from random import Random

from acker import frontier as module
from acker.frontier import NUMBER_BITS, Decided, Frontier, Note
from acker.roots import owner


def message(number: int, life: int = 1, home: int = 0) -> int:
    return owner(home, life) << 32 | number


def note(newest: int, *unfinished: int, life: int = 1, home: int = 0, dropped: tuple[int, ...] = ()) -> Note:
    of_life = frozenset(message(one, life, home) for one in unfinished)
    return Note((owner(home, life),), message(newest, life, home), of_life, frozenset(dropped))


def decided(checkpoint: int, *notes: Note) -> Decided:
    made = Decided()
    made.frontier = Frontier(checkpoint, dict(enumerate(notes)))
    return made


def test_at_first_nothing_is_refused_and_nothing_may_be_forgotten() -> None:
    none = Decided()
    assert not none.refuses(message(1))
    assert none.refuses_none(message(1, home=3), message(9, home=3))
    assert not none.has_done(message(1), message(1))
    assert not none.may_forget([message(1)], 5, 0)
    assert not none.is_earlier([message(1)], 0)
    assert (none.gathered, none.version, none.frontier.checkpoint) == (0, 0, 0)


def test_the_version_grows_with_each_decision() -> None:
    known = Decided()
    for checkpoint in (1, 2, 5):
        known.frontier = Frontier(checkpoint, {})
    assert (known.version, known.frontier.checkpoint) == (3, 5)


def test_what_a_decided_frontier_has_is_refused_and_what_came_before_it_was_gathered_is_forgotten_P4() -> None:
    known = decided(4, note(9, 5))
    assert known.refuses(message(3))
    assert not known.refuses(message(5))
    assert not known.refuses(message(3, life=2))
    assert known.may_forget([message(3), message(9)], 1, taken_at=3)
    assert not known.may_forget([message(3), message(5)], 1, taken_at=3)
    assert not known.may_forget([message(3)], 1, taken_at=4), "the worker had gathered"


def test_without_a_message_only_what_was_dropped_is_forgotten_however_late_somebody_asks_E1() -> None:
    known = decided(4, note(9, dropped=(7,)))
    known.frontier = Frontier(5, {0: note(9)})
    assert known.may_forget((), 7, 0)
    assert not known.may_forget((), 8, 0)
    assert not known.may_forget([message(12)], 7, 0), "it came again"


def test_origins_that_are_kept_in_mind_are_bounded(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "DROPPED_MAX", 2)
    known = decided(4, note(9, dropped=(1, 2)))
    known.frontier = Frontier(5, {0: note(9, dropped=(3,))})
    known.frontier = Frontier(6, {0: note(9)})
    assert [known.may_forget((), origin, 0) for origin in (1, 2, 3)] == [True, True, False]


def test_after_a_going_back_what_was_known_is_kept_until_what_is_open_then_is_done_and_what_is_open_after_that() -> (
    None
):
    """Another message may have the output now that was this one's: even one that was begun after the going back."""
    known = decided(4, note(9, 8))
    known.gathered = 5
    known.went_back()

    def forgets() -> bool:
        assert known.may_forget([message(9)], 1, taken_at=6), "it came after the going back"
        return known.may_forget([message(9)], 1, taken_at=5)

    for checkpoint, noted in (
        (7, note(9, 7)),  # 7 is open
        (8, note(12, 7, 12)),
        (9, note(12, 12)),  # and 12 after that
        (10, note(15, 12, 15)),
        (11, note(16, 15)),
        (12, note(17, 16)),  # and 16 after that: a timer may have begun it, which 12 has set
    ):
        known.frontier = Frontier(checkpoint, {0: noted})
        assert not forgets()
    known.frontier = Frontier(13, {0: note(17, 17)})
    assert forgets()


def test_after_a_going_back_all_that_was_known_is_kept_until_all_homes_have_caught_up_D4() -> None:
    """The messages that the last life of a home had read come again, under numbers that no frontier has yet."""
    known = decided(4, note(9), note(9, home=1))
    known.gathered = 5
    known.went_back()
    for checkpoint in range(6, 16):
        known.frontier = Frontier(checkpoint, {0: note(9), 1: note(9, home=1, life=2)._replace(catches_up=True)})
        assert not known.may_forget([message(9)], 1, taken_at=5)
    for checkpoint in (16, 17, 18):
        known.frontier = Frontier(checkpoint, {0: note(9), 1: note(20, 20, home=1, life=2)})
        assert not known.may_forget([message(9)], 1, taken_at=5)
    for checkpoint in (19, 20, 21):
        assert not known.may_forget([message(9)], 1, taken_at=5)
        known.frontier = Frontier(checkpoint, {0: note(9), 1: note(30, home=1, life=2)})
    assert known.may_forget([message(9)], 1, taken_at=5)


def test_a_second_going_back_begins_to_wait_again() -> None:
    known = decided(4, note(9))
    known.gathered = 5
    known.went_back()
    known.frontier = Frontier(6, {0: note(9)})
    known.gathered = 7
    known.went_back()
    for checkpoint in (8, 9, 10):
        known.frontier = Frontier(checkpoint, {0: note(9)})
        assert not known.may_forget([message(9)], 1, taken_at=6)
        assert known.is_held(6)
    known.frontier = Frontier(11, {0: note(9)})
    assert known.may_forget([message(9)], 1, taken_at=6)
    assert not known.is_held(6)


def test_a_message_is_of_an_earlier_life_only_where_its_home_was_noted_after_it_came() -> None:
    known = decided(4, note(9, life=2))
    assert known.is_earlier([message(3, life=2), message(3)], 2)
    assert not known.is_earlier([message(3)], 3)
    assert not known.is_earlier([message(30, life=2)], 2)


def test_the_fast_checks_never_say_more_than_the_others() -> None:
    for seed in range(300):
        random = Random(seed)
        notes = [
            note(random.randint(0, 12), *random.sample(range(12), random.randint(0, 4)), home=home)
            for home in range(random.randint(0, 2))
        ]
        if notes:
            lost = frozenset(message(random.randint(1, 14)) for _ in range(random.choice([0, 0, 2])))
            notes[0] = notes[0]._replace(lost=lost, unfinished=notes[0].unfinished | lost)
        known = decided(1, *notes)
        if random.random() < 0.5:
            known.ends(owner(random.randint(1, 3), 1))
        for _ in range(20):
            home, other = random.randrange(3), random.randrange(3)
            first, last = sorted(message(random.randint(1, 14), home=one) for one in (home, other))
            if known.refuses_none(first, last):
                assert not any(known.refuses(one) for one in {first, last, *range(first, min(last, first + 20) + 1)})
            for one in {first, last}:
                assert not known.refuses(one) or one <= known.newest.get(one >> 32, -1), f"seed {seed}"
            if home == other and known.has_done(first, last):
                assert all(map(known.refuses, range(first, last + 1))), f"seed {seed}"


def test_tuples_of_a_life_that_is_over_and_of_what_it_has_lost_are_refused_D5_P9() -> None:
    known = decided(4, note(9), Note((owner(1, 1),), message(0, home=1), lost=frozenset({message(2, home=1)})))
    assert not known.refuses(message(12))
    known.ends(owner(0, 1))
    assert known.refuses(message(12))
    assert known.refuses(message(2, home=1)), "it stands for a message of that life"
    assert not known.refuses(message(12, life=2))
    assert not known.refuses_none(message(12), message(12))
    assert known.newest[owner(0, 1)] >= message(12), "the hot path looks at it"


def test_a_life_that_begins_under_the_number_of_one_that_is_over_is_believed_A20() -> None:
    known = decided(4, note(9))
    known.ends(owner(0, 1))
    known.begins(owner(0, 1))
    assert not known.refuses(message(3))
    assert not known.refuses(message(12))


def test_an_input_that_belongs_to_no_tree_never_comes_again() -> None:
    known = decided(4, note(9))
    assert known.may_forget([0], 5, taken_at=3)
    assert known.may_forget([0], 5, taken_at=4)
    assert not known.may_forget([0, message(12)], 5, taken_at=3)
    assert not known.is_earlier([0], 0)
    assert not known.refuses(0)


def test_a_life_whose_number_has_come_round_is_believed_though_one_of_that_number_is_over_A20() -> None:
    known = decided(4, note(9), note(9, home=1))
    known.ends(owner(0, 1))
    assert known.refuses(message(30))
    known.begins(owner(0, 1))
    assert not known.refuses(message(3)), "nothing is decided of this life"
    assert not known.refuses_none(message(1, home=1), message(3, home=1))
    assert known.refuses(message(3, home=1)), "what is known of others stays"
    assert known.newest == {owner(1, 1): message(9, home=1)}


def test_only_messages_up_to_the_newest_that_may_be_refused_are_looked_at_after_a_death() -> None:
    known = decided(4, note(9), note(7, home=1)._replace(lost=frozenset({message(12, home=1)})))
    known.ends(owner(2, 1))
    assert known.refuses(message(12, home=1))
    assert known.newest[owner(1, 1)] == message(12, home=1)
    assert known.newest[owner(0, 1)] == message(9)
    assert known.refuses_none(message(13, home=1), message(20, home=1))
    known.ends(owner(1, 1))
    assert known.refuses(message(12, home=1)), "it is of a life that is over"


def test_an_input_of_a_lost_sub_root_is_kept_though_later_frontiers_do_not_name_it_D15() -> None:
    """Its messages come again under another sub-root, and it is known by its name until then."""
    sub_root = message(5)
    known = decided(4, note(9, 5)._replace(lost=frozenset({sub_root})))
    known.frontier = Frontier(5, {0: note(20)})
    assert not known.may_forget([sub_root], 3, taken_at=1)
    assert not known.has_done(message(4), message(6))
    assert known.has_done(message(6), message(9))
    assert known.refuses(sub_root)
    assert known.is_earlier([sub_root], taken_at=1), "so a bound may end it"
    known.frontier = Frontier(6, {0: note(20, dropped=(3,))})
    assert known.may_forget([sub_root], 3, taken_at=1), "it comes never again"


def test_a_life_is_over_with_all_owners_that_it_has_taken_P9() -> None:
    """Its link has the first one; its messages have had the second since its numbers were used up."""
    first, second = owner(1, 1), owner(1, 2)
    decided = Decided()
    decided.frontier = Frontier(1, {1: Note((first, second), second << NUMBER_BITS | 9)})
    decided.ends(first)
    decided.frontier = Frontier(2, {1: Note((owner(1, 3),), owner(1, 3) << NUMBER_BITS | 1)})
    assert decided.refuses(second << NUMBER_BITS | 5)
    assert decided.refuses(first << NUMBER_BITS | 5)
    assert not decided.refuses(owner(1, 3) << NUMBER_BITS | 5)


def test_a_worker_that_begins_in_a_run_that_goes_on_refuses_what_all_others_refuse_D5() -> None:
    done, over = owner(0, 1) << NUMBER_BITS | 5, owner(1, 1) << NUMBER_BITS | 5
    decided = Decided()
    decided.resume(Frontier(7, {0: Note((owner(0, 1),), done)}), [owner(1, 1)])
    assert [decided.refuses(message) for message in (done, done + 1, over)] == [True, False, True]
    assert decided.gathered == 7


def test_all_messages_of_an_owner_that_is_used_up_may_be_refused_though_its_successor_has_a_lower_number() -> None:
    """Lives are numbered up to 4,096, and then from the first again (A20)."""
    used_up, present = owner(0, 4_095), owner(0, 1)
    known = Decided()
    known.frontier = Frontier(4, {0: Note((used_up, present), present << NUMBER_BITS | 9)})
    late = used_up << NUMBER_BITS | 7_000
    assert known.refuses(late)
    assert late <= known.newest[used_up]
    assert known.newest[present] == present << NUMBER_BITS | 9
