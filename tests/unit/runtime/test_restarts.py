"""When a worker begins again, when it was too often, and who is judged to live: pure decisions, on made-up times."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.runtime.os_process.restarts import (
    AGAIN_S,
    BACKOFF_MAX_S,
    BLOCKED_S,
    LOOK_S,
    SILENT_S,
    STARTING_S,
    WINDOW_S,
    Health,
    Restarts,
    Vigil,
)


def test_the_first_restart_is_at_once_and_further_ones_wait_twice_as_long_each_up_to_five_seconds() -> None:
    restarts = Restarts(10)
    waits = [restarts.died(1, float(second)) for second in range(10)]
    assert waits == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_one_death_more_than_allowed_within_a_minute_is_too_many() -> None:
    restarts = Restarts(2)
    assert [restarts.died(1, 0.0), restarts.died(1, 1.0)] == [0.0, 0.1]
    assert restarts.died(1, 59.9) is None
    assert restarts.total == 3


def test_deaths_of_all_workers_count_but_each_backs_off_on_its_own() -> None:
    restarts = Restarts(3)
    assert [restarts.died(worker, 0.0) for worker in (0, 1, 2)] == [0.0, 0.0, 0.0]
    assert restarts.died(3, 1.0) is None


def test_with_none_allowed_the_first_death_is_too_many() -> None:
    restarts = Restarts(0)
    assert restarts.died(1, 0.0) is None
    assert restarts.verdict("was killed by SIGSEGV") == (
        "worker 1 was killed by SIGSEGV, and max_restarts = 0 allows no restart"
    )


@pytest.mark.parametrize(
    ("workers", "text"),
    [
        ((1, 1, 1), "worker 1 died 3 times within a minute; the last time it ended with status 13"),
        ((0, 1, 2), "workers died 3 times within a minute; the last one, worker 2, ended with status 13"),
    ],
)
def test_the_verdict_names_who_died_and_how(workers: tuple[int, ...], text: str) -> None:
    restarts = Restarts(2)
    assert [restarts.died(worker, 0.0) for worker in workers][-1] is None
    assert restarts.verdict("ended with status 13") == text


@given(st.integers(0, 12), st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 30.0)), min_size=1, max_size=60))
def test_a_worker_may_begin_again_exactly_where_its_deaths_fit_into_the_window(
    most: int, deaths: list[tuple[int, float]]
) -> None:
    restarts, now, times = Restarts(most), 0.0, list[tuple[float, int]]()
    for worker, gap in deaths:
        now += gap
        times.append((now, worker))
        recent = [one for at, one in times if now - at < WINDOW_S]
        wait = restarts.died(worker, now)
        assert (wait is None) == (len(recent) > most)
        if wait is not None:
            assert 0.0 <= wait <= BACKOFF_MAX_S
            assert (wait == 0.0) == (recent.count(worker) == 1)


# -- who lives


def vigil(*, blocked_timeout_s: float = 120.0, start: bool = True) -> Vigil:
    """One that watches worker 1, which has begun at 0."""
    one = Vigil(blocked_timeout_s, 0.0)
    one.expect(1, 0.0)
    one.beat(1, 0.0, "", 0.0)
    if start:
        one.started(1, 0.0)
    return one


def looks(
    one: Vigil, since: float, until: float, beat: bool = True, blocked: bool = False
) -> list[tuple[float, Health]]:
    """Looks at it as often as a supervisor does; it beats before each look, perhaps blocked since then."""
    found = []
    for count in range(1, round((until - since) / LOOK_S) + 1):
        now = since + count * LOOK_S
        if beat:
            one.beat(1, now - since if blocked else 0.0, "component 'slow'", now)
        found += [(now, health) for _, health, _ in one.look(now)]
    return found


def test_a_worker_that_beats_is_well() -> None:
    assert looks(vigil(), 0.0, 60.0) == []


def test_a_worker_is_silent_after_three_seconds_without_a_beat() -> None:
    found = looks(vigil(), 0.0, 10.0, beat=False)
    assert found[0] == (SILENT_S + LOOK_S, Health.SILENT)


@pytest.mark.parametrize("beaten_s", [0.0, 2.0])
def test_before_its_tasks_run_a_worker_may_be_silent_for_longer_as_an_import_may_hold_all_its_threads(
    beaten_s: float,
) -> None:
    one = vigil(start=False)
    looks(one, 0.0, beaten_s)
    found = looks(one, beaten_s, beaten_s + STARTING_S + 1.0, beat=False)
    assert found[0] == (beaten_s + STARTING_S + LOOK_S, Health.SILENT)


def test_silence_counts_anew_from_the_start_of_the_tasks() -> None:
    one = vigil(start=False)
    assert looks(one, 0.0, 10.0, beat=False) == []
    one.started(1, 10.0)
    found = looks(one, 10.0, 15.0, beat=False)
    assert found[0] == (10.0 + SILENT_S + LOOK_S, Health.SILENT)


def test_a_worker_that_has_ended_is_not_looked_at() -> None:
    one = vigil()
    one.forget(1)
    assert looks(one, 0.0, 10.0, beat=False) == []


def test_a_blocked_loop_is_told_after_five_seconds_and_again_each_thirty_f8() -> None:
    found = looks(vigil(), 0.0, 100.0, blocked=True)
    assert {health for _, health in found} == {Health.SLOW}
    assert found[0][0] == BLOCKED_S + LOOK_S
    assert [after - before for (before, _), (after, _) in pairwise(found)] == [AGAIN_S] * 3


def test_a_loop_that_turns_again_and_blocks_again_is_told_again() -> None:
    one = vigil()
    assert len(looks(one, 0.0, 6.0, blocked=True)) == 1
    assert looks(one, 6.0, 8.0) == []
    assert len(looks(one, 8.0, 14.0, blocked=True)) == 1


def test_a_loop_that_is_blocked_for_longer_than_allowed_is_given_up_with_its_place() -> None:
    one = vigil(blocked_timeout_s=8.0)
    found = looks(one, 0.0, 8.25, blocked=True)
    assert [health for _, health in found] == [Health.SLOW, Health.BLOCKED]
    one.beat(1, 9.0, "component 'slow'", 9.0)
    assert one.look(9.0)[0][2] == "its loop has been blocked for 9 s, in component 'slow'"


def test_before_its_tasks_run_a_worker_may_block_as_long_as_it_likes() -> None:
    one = vigil(blocked_timeout_s=8.0, start=False)
    assert looks(one, 0.0, 60.0, blocked=True) == []
    one.started(1, 60.0)
    assert looks(one, 60.0, 64.0, blocked=True) == []


def test_a_look_that_is_late_gives_everybody_their_time_anew_f4() -> None:
    one = vigil()
    assert looks(one, 0.0, 2.0, beat=False) == []
    assert one.look(40.0) == []
    assert one.pauses == 1
    found = looks(one, 40.0, 44.0, beat=False)
    assert found[0] == (40.0 + SILENT_S + LOOK_S, Health.SILENT)


def test_a_look_that_is_a_little_late_changes_nothing() -> None:
    one = vigil()
    assert looks(one, 0.0, 2.5, beat=False) == []
    assert [health for _, health, _ in one.look(3.7)] == [Health.SILENT]
    assert one.pauses == 0


def test_a_worker_that_was_paused_with_its_supervisor_is_not_blamed_for_it_f5() -> None:
    one = vigil(blocked_timeout_s=8.0)
    assert one.look(600.0) == []
    one.beat(1, 600.0, "anywhere", 600.1)  # its loop has not turned since, and says so first
    assert one.look(600.25) == []
    one.beat(1, 0.0, "", 600.3)
    assert one.look(600.5) == []


def test_what_is_waited_for_spends_no_restart_however_often_it_is_tried_f15_f16() -> None:
    """Soon at first, as most of it is over soon; then each five seconds; and from the beginning after a while."""
    restarts = Restarts(1)
    found = [restarts.died(0, now * 5.0, outside=True) for now in range(10)]
    assert found == [0.5, 1.0, 2.0, 4.0, *[5.0] * 6]
    assert restarts.died(1, 45.0, outside=True) == 0.5
    assert restarts.died(0, 200.0, outside=True) == 0.5
    assert restarts.total == 0
    assert restarts.died(0, 201.0) == 0.0
