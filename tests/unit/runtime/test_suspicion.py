"""What a worker's own deaths say of its messages, and whose turn it is to try one: pure decisions (E7)."""

from collections.abc import Callable, Iterable
from typing import Any

from acker.identity import MessageId
from topology.runtime.poison.suspects import SuspectRange, suspicion
from topology.runtime.poison.turns import SETTLED_S, TurnsOfAll, TurnsOfOne
from topology.storage.values import Loaded, Mark, Span, Trial

TASK = ("numbers", 0)


def mark(position: Any, newest: Any, *done: Span, partition: str = "") -> Mark:
    return Mark(*TASK, partition, "e", position, done, newest)


def row(newest: Any, deaths: int, *, partition: str = "", running: bool = False) -> Trial:
    return Trial(*TASK, partition, "e", newest, deaths, running)


def loaded(*marks: Mark, trials: tuple[Trial, ...] = (), deaths: int = 1) -> Loaded:
    return Loaded(marks=marks, trials=trials, deaths=deaths)


def test_after_an_end_in_order_nobody_is_suspect_and_nothing_is_remembered() -> None:
    found = suspicion(loaded(mark(5, 9), trials=(row(9, 3), row(7, 2, running=True)), deaths=0), [TASK], killed=False)
    assert (found.lanes, found.tried) == ({}, {})
    assert set(found.rows.values()) == {None}
    assert len(found.rows) == 2


def test_a_first_death_only_notes_how_far_it_was_e8() -> None:
    found = suspicion(loaded(mark(5, 9)), [TASK], killed=False)
    assert found.lanes == {}
    assert [*found.rows.values()] == [row(9, 1)]


def test_what_was_under_way_in_two_deaths_is_suspect() -> None:
    found = suspicion(loaded(mark(8, 20), trials=(row(9, 1),), deaths=2), [TASK], killed=False)
    assert found.lanes == {TASK: {("", "e")}}
    assert set(found.rows.values()) == {row(20, 2), None}


def test_a_mark_beyond_all_that_was_under_way_at_the_death_before_begins_anew() -> None:
    found = suspicion(loaded(mark(10, 20), trials=(row(9, 1),), deaths=2), [TASK], killed=False)
    assert found.lanes == {}
    assert set(found.rows.values()) == {row(20, 1), None}


def test_names_have_no_order_so_the_same_newest_one_is_needed() -> None:
    moved = suspicion(loaded(mark("b", "d"), trials=(row("c", 1),), deaths=2), [TASK], killed=False)
    stands = suspicion(loaded(mark("c", "d"), trials=(row("c", 1),), deaths=2), [TASK], killed=False)
    assert (moved.lanes, stands.lanes) == ({}, {TASK: {("", "e")}})


def test_deaths_by_sigkill_take_twice_as_many() -> None:
    for deaths in range(1, 6):
        found = suspicion(loaded(mark(8, 20), trials=(row(9, deaths),), deaths=9), [TASK], killed=True)
        assert bool(found.lanes) == (deaths + 1 >= 4)


def test_a_task_without_any_mark_is_suspect_as_a_whole_in_its_second_death() -> None:
    first = suspicion(loaded(), [TASK], killed=False)
    (kept,) = [one for one in first.rows.values() if one is not None]
    second = suspicion(loaded(trials=(kept,), deaths=2), [TASK], killed=False)
    assert (first.lanes, second.lanes) == ({}, {TASK: {("", "")}})


def test_a_partition_with_nothing_to_do_holds_nobody_up_where_another_one_moves() -> None:
    idle = mark(9, 9, Span(9, 9), partition="idle")
    busy = mark(50, 60, partition="busy")
    trials = (row(9, 5, partition="idle"), row(40, 1, partition="busy"))
    assert suspicion(loaded(idle, busy, trials=trials, deaths=6), [TASK], killed=False).lanes == {}


def test_a_message_whose_trial_was_under_way_is_blamed_for_the_death() -> None:
    trials = (row(8, 2, running=True),)
    for killed, deaths in ((False, 3.0), (True, 2.5)):
        found = suspicion(loaded(mark(8, 20), trials=trials, deaths=3), [TASK], killed=killed)
        assert found.tried == {("numbers", 0, "", "e", 8): deaths}
        assert found.lanes == {TASK: {("", "e")}}
        assert found.rows[("numbers", 0, "", "e", 8)] is None, "or the death in the trial of another one is laid to it"


def test_rows_of_tasks_that_run_elsewhere_now_are_forgotten() -> None:
    found = suspicion(loaded(trials=(row(8, 2, running=True),)), [("others", 0)], killed=False)
    assert found.tried == {}
    assert found.rows[("numbers", 0, "", "e", 8)] is None


# -- who is a suspect among what comes again


def taken(zone: SuspectRange, ids: Iterable[MessageId]) -> list[MessageId]:
    """The messages that the zone takes, until it says that it has the last one."""
    found: list[MessageId] = []
    for one in ids:
        found.append(one)
        if zone.take(one):
            break
    return found


def test_suspects_are_those_up_to_the_newest_of_the_mark_and_the_few_that_may_have_been_given_since() -> None:
    """Or everything that a worker has ever read would be tried one by one, after some kills from outside."""
    assert taken(SuspectRange(50, 4_000, 3), range(40, 1_000)) == [*range(40, 51), 51, 52]
    assert taken(SuspectRange(50, 4_000, 3), range(0, 1_000, 20)) == [0, 20, 40, 60, 80, 100]


def test_names_that_never_come_again_bound_nobody_for_ever() -> None:
    names = [f"name {number}" for number in range(1_000)]
    assert taken(SuspectRange("name 5", 400, 3), names) == names[:8]
    assert taken(SuspectRange("gone", 400, 3), names) == names[:400]


def test_where_nothing_is_kept_yet_the_few_that_may_have_been_given_are_suspects() -> None:
    assert taken(SuspectRange(None, 256, 256), range(1_000)) == [*range(256)]


# -- turns


def counted_from(first: float) -> Callable[[], float]:
    """A clock that is at 0 once, and then at `first`."""
    times = iter((0.0,))
    return lambda: next(times, first)


def test_no_turn_begins_before_a_worker_that_has_come_back_has_read_again_what_it_may_have_died_of() -> None:
    granted: list[int] = []
    now = [0.0]
    turns = TurnsOfAll(granted.append, lambda: True, lambda: now[0])
    now[0] = 5.0
    turns.begun()
    turns.wanted(1)
    now[0] += SETTLED_S / 2
    turns.look()
    assert granted == []
    now[0] += SETTLED_S / 2
    turns.look()
    assert granted == [1]


def test_one_at_a_time_has_its_turn_in_the_order_of_asking_and_only_when_all_run() -> None:
    granted: list[int] = []
    ready = [False]
    turns = TurnsOfAll(granted.append, lambda: ready[0], counted_from(SETTLED_S))
    for owner in (3, 1, 3, 2):
        turns.wanted(owner)
    assert granted == []
    ready[0] = True
    turns.look()
    turns.look()
    assert granted == [3]
    turns.over(1)  # it does not want it any more
    turns.over(3)
    assert granted == [3, 2]
    turns.over(2)
    turns.look()
    assert granted == [3, 2]


def test_a_worker_in_the_same_process_asks_and_gives_back_by_itself() -> None:
    ones: dict[int, TurnsOfOne] = {}
    turns = TurnsOfAll(lambda owner: ones[owner].granted(), lambda: True, counted_from(SETTLED_S))
    ones |= {owner: turns.of(owner) for owner in (1, 2)}
    had: list[int] = []
    ones[1].want(lambda: had.append(1))
    ones[2].want(lambda: had.append(2))
    assert had == [1]
    ones[1].over()
    assert had == [1, 2]
