"""Workers that are killed, or end themselves: what is stored is exact each time, and the kills are shown to have hit.

F1 once on all 200,000 records, which is much of the time that this takes. The others on fewer: the fault is the same,
and the count as exact. A worker with neither spout nor sink is killed twenty times by F38.
"""

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from chaos_kit import DROPS, HASTY, RECORDS, WORDS, Kill, Run, exactly, hit, resumed_at, rows, running, seeded
from proc_kit import left_over

KILLS = 5
FEWER = 8_000

Victim = Callable[[Run, Random], int]


def without_spout(run: Run, _: Random) -> int:
    return run.without_spout()


def with_sink(run: Run, _: Random) -> int:
    return run.with_sink()


def any_worker(run: Run, random: Random) -> int:
    run.until(lambda: len(run.with_spout()) == 2, "two workers with spouts")
    return random.choice(run.with_spout())


def killed(run: Run, victim: Victim, steps: list[int], random: Random) -> list[Kill]:
    """Kills a worker each time that so many messages are done since all worked after the last kill."""
    kills = []
    for step in steps:
        run.until_all_work()
        run.until_done(step)
        kills.append(run.kill_in_flight(victim(run, random)))
        print(f"killed after {step:,} messages more: {kills[-1]}")
    return [run.told(one) for one in kills]


@pytest.mark.parametrize(
    ("layout", "victim", "seed", "count"),
    [pytest.param("apart", with_sink, 102, RECORDS, marks=pytest.mark.slow), ("both", any_worker, 103, RECORDS // 5)],
    ids=["the-sink", "either-of-two-with-spouts"],
)
def test_rows_are_exact_after_five_kills_at_random_points_f1(
    folder: Path, layout: str, victim: Victim, seed: int, count: int
) -> None:
    random = seeded(seed)
    steps = [random.randint(count // 40, count // 8) for _ in range(KILLS)]
    with running(folder, layout=layout, count=count) as run:
        kills = killed(run, victim, steps, random)
        outcome = run.ended().well()
    exactly(folder, count)
    hit(kills, outcome)
    if layout != "both":  # nobody who had a ledger has died, so that nothing is missing in these figures
        assert all(one.told and not one.own for one in kills)
        assert outcome.total("replayed") >= sum(one.told for one in kills)
        assert outcome.total("emitted") == outcome.total("acked")


@pytest.mark.slow
def test_a_worker_that_has_both_spout_and_sink_can_be_killed_f1(folder: Path) -> None:
    """Its source is read on from what was kept, and the sink drops what it knows. 8,000 records; killed twice, or until
    a sink has met what it knew, as mostly the first one has: what is stored may be kept as done, too, and what one
    process has dropped the next one does not tell."""
    random = seeded(104)
    kills: list[Kill] = []
    with running(folder, count=FEWER) as run:
        while len(kills) < 2 or (not (DROPS in run.said() and resumed_at(folder)[-1]) and len(kills) < 6):
            run.until_all_work()
            run.until_done(random.randint(300, 900))
            pid = run.stopped_in_flight(run.with_sink)
            last = rows(folder) // WORDS
            kills.append(run.kill(pid))
            begun = len(resumed_at(folder))
            run.until(lambda begun=begun: len(resumed_at(folder)) > begun, "a new process")
            print(f"{kills[-1]}: {last:,} were stored, and it goes on at {resumed_at(folder)[-1]:,}")
            run.until_all_work()
            run.until_done(200)  # of which a sink that knows them has told by now
        outcome = run.ended().well()
    exactly(folder, FEWER)
    hit(kills, outcome)
    assert DROPS in outcome.said
    assert "'numbers' is read again from its last kept position" in outcome.said
    assert resumed_at(folder)[-1] > 0


@pytest.mark.slow
def test_one_worker_can_be_killed_twenty_times_in_one_run_f38(folder: Path) -> None:
    """No session of a new process is taken for a gap in an old one. 50,000 records; neither spout nor sink is on it, so
    that only the others can tell what was in flight to it: a kill that hit nothing does not count as one of the
    twenty."""
    random = seeded(105)
    config = {"max_restarts": 25, "max_pending": 300}
    kills: list[Kill] = []
    with running(folder, command=HASTY, config=config, count=50_000) as run:
        while sum(one.told > 0 for one in kills) < 20:
            kills += killed(run, without_spout, [random.randint(100, 900)], random)
        outcome = run.ended().well()
    exactly(folder, 50_000)
    hit([one for one in kills if one.told], outcome, restarts=len(kills))
    assert "one of its links broke" not in outcome.said


# -- bolts that end their process, and one that only tries


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "words"),
    [("_exit", "ended with status 1"), ("segfault", "was killed by SIGSEGV"), ("abort", "was killed by SIGABRT")],
)
def test_a_bolt_that_ends_its_process_once_costs_a_restart_and_no_row_f6(
    folder: Path, trouble: str, words: str
) -> None:
    with running(folder, count=FEWER, layout="apart", trouble=trouble, at=FEWER // 2) as run:
        outcome = run.ended().well()
    exactly(folder, FEWER)
    assert outcome.figures["restarts"] == 1
    assert words in outcome.said
    assert outcome.total("replayed") > 0 or run.read() > FEWER, "the record that it met was in flight at least"


def test_a_bolt_that_raises_system_exit_fails_that_tuple_only_f6(folder: Path) -> None:
    with running(folder, count=FEWER, layout="apart", trouble="exit", at=FEWER // 2) as run:
        outcome = run.ended()
    exactly(folder, FEWER)
    assert (outcome.status, outcome.figures["restarts"]) == (0, 0), outcome.said
    assert (outcome.total("failed"), outcome.total("replayed"), outcome.total("dead")) == (1, 1, 0)


def test_a_record_that_ends_its_process_once_too_often_ends_the_run_with_a_clear_sentence_f12(folder: Path) -> None:
    with running(folder, count=FEWER, trouble="always _exit", at=FEWER // 4, config={"max_restarts": 1}) as run:
        outcome = run.ended()
    assert outcome.status == 1
    assert re.search(
        r"died 2 times within a minute; .*ended with status 1\n  next: fix the cause, or raise", outcome.said
    )
    assert outcome.figures["restarts"] == 2
    assert left_over(folder) == []
