"""How far a task of a source may be ahead of its marks, and when a life has caught up with the ones before. Rule D4."""

from random import Random

import pytest

from acker.marks import Reached
from topology.runtime.tasks.read_ahead import AHEAD_MAX, AHEAD_MIN, ReadAhead

AT = ("", "")


def reached(newest: int | str, position: int | str | None = None) -> Reached:
    return Reached(newest if position is None else position, (), newest)


def catching_up(ahead: int, **before: Reached) -> ReadAhead:
    line = ReadAhead(on=True)
    line.resume(ahead, {(partition, ""): one for partition, one in before.items()})
    return line


@pytest.mark.parametrize("seed", range(200))
def test_whatever_becomes_durable_no_more_was_emitted_beyond_its_marks_than_it_says(seed: int) -> None:
    random = Random(seed)
    line, given = ReadAhead(on=True), 0
    resumed = random.choice((0, 0, 64, 3_000))
    if resumed:
        line.resume(resumed, {})
    durable = [(0, resumed)]  # commits that may be the one that a next life finds: messages up to its marks, its line
    for _ in range(300):
        if random.random() < 0.6:
            given += random.randint(0, max(0, min(128, line.room(given))))
        else:
            line.gather(given)
            durable.append((given, line.ahead))
            given += random.randint(0, max(0, min(128, line.room(given))))  # while it is under way
            if random.random() < 0.8:
                line.kept()
                durable = durable[-1:]
            else:
                line.not_kept()  # or it is, and nobody knows
        assert all(given - marks <= ahead for marks, ahead in durable), f"seed {seed}"


def test_a_task_that_never_began_gives_nothing_before_its_line_is_kept() -> None:
    line = ReadAhead(on=True)
    assert line.room(0) == 0
    assert line.is_short(0)
    assert line.gather(0)
    assert not line.is_short(0), "a commit is under way"
    line.kept()
    assert line.room(0) == AHEAD_MIN


def test_a_fast_source_is_allowed_more_with_each_commit_and_a_slow_one_less() -> None:
    line, given, commits = ReadAhead(on=True), 0, 0
    while line.ahead < AHEAD_MAX:
        line.gather(given)
        line.kept()
        given += line.room(given) // 2
        commits += 1
    assert commits < 14
    for _ in range(12):
        line.gather(given)
        line.kept()
    assert line.ahead == AHEAD_MIN
    assert not line.gather(given), "nothing more to be kept"


def test_where_nobody_remembers_nothing_is_held_or_kept() -> None:
    line = ReadAhead(on=False)
    line.resume(64, {AT: reached(9)})
    assert line.room(10**9) > 0
    assert not line.gather(10**9)
    assert not line.is_short(10**9)
    assert line.has_caught_up((), ended=False)


def test_caught_up_is_who_has_given_as_many_beyond_the_newest_of_each_partition_as_a_life_before_might_have() -> None:
    line = catching_up(10, a=reached(100, 90), b=reached(7))
    line.adds(("a", ""), range(95, 111), 16)
    line.adds(("b", ""), range(8, 17), 9)
    assert not line.has_caught_up([("a", ""), ("b", "")], ended=False)
    line.adds(("b", ""), [17], 1)
    assert line.has_caught_up([("a", ""), ("b", "")], ended=False)


def test_of_a_partition_without_a_mark_and_of_another_epoch_all_messages_count() -> None:
    line = catching_up(10, a=reached(100))
    line.adds(("a", "recreated"), range(10), 10)
    line.adds(("new", ""), range(10), 10)
    assert line.has_caught_up([("a", "recreated"), ("new", "")], ended=False)


def test_names_count_from_the_newest_on_or_where_all_was_done_from_whatever_comes() -> None:
    line = catching_up(2, a=reached("m3", "m1"), b=reached("z"))
    line.adds(("a", ""), ["m1", "m2"], 2)
    line.adds(("b", ""), ["z1", "z2"], 2)
    assert not line.has_caught_up([("a", ""), ("b", "")], ended=False)
    line.adds(("a", ""), ["m2b", "m3", "m4"], 2)
    assert not line.has_caught_up([("a", ""), ("b", "")], ended=False)
    line.adds(("a", ""), ["m5"], 1)
    assert line.has_caught_up([("a", ""), ("b", "")], ended=False)


def test_what_is_given_and_not_emitted_does_not_count() -> None:
    line = catching_up(2, a=reached(5))
    line.adds(("a", ""), [6, 7, 8], 1)
    assert not line.has_caught_up([("a", "")], ended=False)


def test_a_source_that_has_ended_has_given_all() -> None:
    line = catching_up(1_000, a=reached(5))
    assert not line.has_caught_up([], ended=False), "and one that has named no partition yet has not"
    assert line.has_caught_up([], ended=True)


def test_the_allowance_does_not_shrink_before_this_life_has_caught_up() -> None:
    line = catching_up(1_000, a=reached(5))
    for given in range(3):
        line.gather(given)
        line.kept()
    assert line.ahead == 1_000
    line.adds(("a", ""), range(6, 1_006), 1_000)
    assert line.has_caught_up([("a", "")], ended=False)
    line.gather(1_003)
    line.kept()
    for _ in range(6):
        line.gather(1_003)
        line.kept()
    assert line.ahead == AHEAD_MIN
