"""What a hand-over forgets, and removes: what is over by the floors, once all readers have passed it (D4, D5, E1)."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from handover_kit import (
    becomes,
    handed_over,
    message,
    numbers_stored,
    opened,
    own,
    say_done,
    says,
    segments_of,
    tuple_of,
)

from acker.floors import Floors
from topology.testing.sinks.driver import feed


async def test_what_is_over_is_forgotten_and_removed_once_readers_have_passed_it_D4(tmp_path: Path) -> None:
    floors = Floors((0,))
    async with opened(tmp_path, floors=floors) as bolt:
        for number in (1, 2, 3):
            await feed(bolt, [tuple_of(number)])
        assert len(segments_of(tmp_path)) == 3
        floors.announce(says(3, 3))
        await becomes(lambda: len(bolt._segments.remembered) == 1)
        assert len(segments_of(tmp_path)) == 3, "no reader has passed them"
        say_done(tmp_path, 3)
        await becomes(lambda: len(segments_of(tmp_path)) == 1)
        assert numbers_stored(tmp_path) == [3], "passed, and not over yet"


async def test_what_readers_have_passed_stays_while_its_message_may_come_again_D4(tmp_path: Path) -> None:
    floors = Floors((0,))
    async with opened(tmp_path, floors=floors) as bolt:
        await feed(bolt, [tuple_of(1)])
        await feed(bolt, [tuple_of(2)])
        say_done(tmp_path, 2)
        floors.announce(says(2, 1))
        await becomes(lambda: len(segments_of(tmp_path)) == 1)
        await feed(bolt, [tuple_of(1)])
    assert numbers_stored(tmp_path) == [1]


@pytest.mark.parametrize("roots", [(), (9,)], ids=["one message", "two messages"])
async def test_an_input_of_several_messages_is_kept_until_all_are_over_D15(
    roots: tuple[int, ...], tmp_path: Path
) -> None:
    floors = Floors((0,))
    async with opened(tmp_path, floors=floors) as bolt:
        await feed(bolt, [tuple_of(1, others=roots), tuple_of(2)])
        say_done(tmp_path, 1)
        floors.announce(says(9, *roots))
        if roots:
            await looked(bolt, floors)
            assert len(bolt._segments.remembered) == 2
            floors.announce(says(10))
        await becomes(lambda: not segments_of(tmp_path))


async def looked(bolt: Any, floors: Floors) -> None:
    """Returns once all was looked at by what the floors say now."""
    await becomes(lambda: all(one.looked == floors.version for one in [*bolt._segments.remembered._filed]))


async def test_a_dead_message_is_remembered_until_it_cannot_be_replayed_by_hand_E1(tmp_path: Path) -> None:
    floors, tup = Floors((0,)), tuple_of(1)
    async with opened(tmp_path, floors=floors) as bolt:
        await feed(bolt, [tup])
        say_done(tmp_path, 1)
        floors.announce(says(5, dead=[tup.origin]))
        await looked(bolt, floors)
        await feed(bolt, [tuple_of(1, 4)])
        assert numbers_stored(tmp_path) == [1]
        floors.announce(says(6))
        await becomes(lambda: not segments_of(tmp_path))


async def test_what_an_earlier_life_of_a_home_had_given_is_kept_until_it_has_caught_up_D4(tmp_path: Path) -> None:
    await handed_over(tmp_path, [1, 2])
    floors = Floors((0,))
    async with opened(tmp_path, floors=floors) as bolt:
        say_done(tmp_path, 2)
        floors.announce(says(8, life=2, caught_up=False))
        await looked(bolt, floors)
        await feed(bolt, [tuple_of(1, 9, life=2)])
        assert numbers_stored(tmp_path) == [1, 2]
        floors.announce(says(9, life=2))
        await becomes(lambda: not segments_of(tmp_path))


async def test_an_input_that_comes_again_under_another_number_is_over_with_that_D4(tmp_path: Path) -> None:
    floors = Floors((0,))
    async with opened(tmp_path, floors=floors) as bolt:
        await feed(bolt, [tuple_of(1)])
        await feed(bolt, [tuple_of(1, 7)])
        say_done(tmp_path, 1)
        floors.announce(says(6))
        await looked(bolt, floors)
        assert len(bolt._segments.remembered) == 1
        floors.announce(says(7))
        await becomes(lambda: not segments_of(tmp_path))


async def test_by_what_something_was_forgotten_is_known_after_a_restart_so_stale_tuples_are_refused_D5(
    tmp_path: Path,
) -> None:
    floors = Floors((0,))
    async with opened(tmp_path, floors=floors) as bolt:
        await feed(bolt, [tuple_of(1)])
        say_done(tmp_path, 1)
        floors.announce(says(1))
        await becomes(lambda: not segments_of(tmp_path))
    again = Floors((0,))
    async with opened(tmp_path, floors=again):
        assert again.refuses(message(1))
        assert not again.refuses(message(2))


async def test_numbers_go_on_where_they_were_though_all_segments_are_gone(tmp_path: Path) -> None:
    floors = Floors((0,))
    async with opened(tmp_path, floors=floors) as bolt:
        await feed(bolt, [tuple_of(1)])
        await feed(bolt, [tuple_of(2)])
        say_done(tmp_path, 2)
        floors.announce(says(2))
        await becomes(lambda: not segments_of(tmp_path))
    await handed_over(tmp_path, [3])
    assert [path.name for path in segments_of(tmp_path)] == ["seg-000000000002.arrow"]


async def test_folders_of_tasks_that_are_no_more_are_cleared_by_those_there_are(tmp_path: Path) -> None:
    await handed_over(tmp_path, range(40), 4)
    for task in range(4):
        say_done(tmp_path, 100, task)
    floors = [Floors((0,)), Floors((0,))]
    async with opened(tmp_path, 0, 2, floors[0]), opened(tmp_path, 1, 2, floors[1]):
        for one in floors:
            one.announce(says(40))
        await becomes(lambda: not segments_of(tmp_path))


async def test_what_is_over_and_unread_is_not_remembered_by_the_next_run(tmp_path: Path) -> None:
    """A backlog that Spark has to read costs no memory."""
    floors = Floors((0,))
    async with opened(tmp_path, floors=floors) as bolt:
        await feed(bolt, map(tuple_of, range(1, 101)))
        floors.announce(says(100))
        await becomes(lambda: own(tmp_path).kept().over > 0 and not len(bolt._segments.remembered))
    there = len(segments_of(tmp_path))
    assert there == own(tmp_path).kept().over
    async with opened(tmp_path) as bolt:
        assert len(bolt._segments.remembered) == 0
        say_done(tmp_path, there)
        await becomes(lambda: not segments_of(tmp_path))
