"""Workers that stand still while they have state, and are given up: who had a store is gone before the next one has
it, and nothing of what it had in hand is committed after (D6, A15). And timers that come due while nobody is there."""

import os
import signal
import sqlite3
import time
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from chaos_kit import HASTY, Run, running, seeded, wait_for
from proc_kit import opened, state_of
from tallied_kit import tallied_exactly

TALLIED = Path(__file__).with_name("tallied.py")
TIMED = Path(__file__).with_name("timed.py")
RECORDS = 12_000
PACED: dict[str, Any] = {"program": TALLIED, "count": RECORDS, "rate": 2_000}


def store_of(folder: Path, pid: int) -> str:
    """The file with the state of this worker."""
    (found,) = [one for one in opened(pid) if one.startswith(str(folder / "state")) and one.endswith(".db")]
    return found


def stopped_at_work(run: Run, pid: int) -> None:
    """Stops it while it has something in hand: others' messages wait for it then."""
    assert run.stopped_in_flight(lambda: pid) == pid


@pytest.mark.parametrize("durability", ["disk", pytest.param("process", marks=pytest.mark.slow)])
def test_a_stopped_worker_is_reaped_before_its_successor_has_its_store_and_commits_nothing_more_d6_a15(
    folder: Path, durability: str
) -> None:
    with running(folder, **PACED, command=HASTY, config={"durability": durability}) as run:
        for _ in range(2):
            run.until_all_work()
            run.until_done(1_000)
            pid = run.without_spout()
            file = store_of(folder, pid)
            stopped_at_work(run, pid)
            looks, deadline = 0, time.monotonic() + 60
            while not (successors := [one for one in run.workers() if one != pid and file in opened(one)]):
                looks += 1
                assert time.monotonic() < deadline, run.said()
            left = state_of(pid)  # asked after the successor was seen: a state that is there now was there then
            assert left == "", f"{successors} have {file}, and {pid} is there still: {left!r}, after {looks} looks"
            run.until_said(rf"worker \d \(pid {pid}\) was killed, as it gave no sign of life for ")
            with pytest.raises(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        outcome = run.ended().well()
    tallied_exactly(folder, RECORDS)
    assert outcome.figures["restarts"] == 2
    assert outcome.total("replayed") > 0


@pytest.mark.slow
def test_a_worker_that_outlives_its_run_is_ended_before_the_next_run_has_its_store_d6(folder: Path) -> None:
    """Stopped, so that it can't notice that its supervisor was killed; its guard or the next run kills it."""
    with running(folder, **PACED) as run:
        run.until_all_work()
        run.until_done(1_000)
        zombie = run.without_spout()
        stopped_at_work(run, zombie)
        (other,) = {*run.workers()} - {zombie}
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()
        wait_for(lambda: state_of(other) in ("", "Z"), "the end of the other worker")
        with running(folder, **PACED) as early:
            early.until_all_work()
            assert state_of(zombie) in ("", "Z"), "two processes had the store"
            early.ended().well()
    tallied_exactly(folder, RECORDS)


# -- timers


def rung(folder: Path) -> list[tuple[int, int, int, datetime]]:
    """n, key, count and time of all that fired; nothing where there is no table yet."""
    with closing(sqlite3.connect(folder / "store.db")) as store:
        try:
            rows = store.execute("SELECT n, key, count, at FROM rung ORDER BY at").fetchall()
        except sqlite3.OperationalError:
            return []
    return [(n, key, count, datetime.fromisoformat(at)) for n, key, count, at in rows]


@pytest.mark.slow
@pytest.mark.parametrize(("durability", "seed"), [("disk", 801), ("process", 802)])
def test_timers_that_came_due_while_nobody_was_there_fire_at_once_and_once_b10(
    folder: Path, durability: str, seed: int
) -> None:
    """A worker is killed while all timers are to come, then everything; the next run begins when they are overdue."""
    random, records, after_s = seeded(seed), 4_000, 8.0
    values: dict[str, Any] = {
        "program": TIMED,
        "command": HASTY,
        "config": {"durability": durability},
        "count": records,
        "after_s": after_s,
    }
    with running(folder, rate=500, **values) as run:
        run.until_all_work()
        run.until_done(random.randint(300, 500))
        run.told(run.kill_in_flight(random.choice(sorted(run.workers()))))
        run.until_all_work()
        run.until_done(random.randint(300, 500))
        fired = {n for n, *_ in rung(folder)}
        run.kill_all()
        overdue_from = datetime.now().astimezone() + timedelta(seconds=after_s)
        overdue = min(done for _, done, _ in run.books().values()) // 2  # they are done mostly in their order
    wait_for(lambda: datetime.now().astimezone() > overdue_from, "the last of the timers to be due")
    with running(folder, rate=2_000, **values) as run:
        outcome = run.ended().well()
    rows = rung(folder)
    assert sorted(n for n, *_ in rows) == [*range(records)], "each fires once"
    for key in range(97):
        counts = [count for _, of, count, _ in rows if of == key]
        assert sorted(counts) == [*range(1, len(counts) + 1)], f"key {key} has counted {counts}"
    assert "; the last run was interrupted" in outcome.said
    late = [at for n, _, _, at in rows if at > overdue_from and n < overdue and n not in fired]
    assert len(late) > 50, "few were overdue"
    print(f"{len(late)} of {len(rows)} were overdue, and fired within {(late[-1] - late[0]).total_seconds():.2f} s")
    others = [at for n, _, _, at in rows if n >= records - 100]
    assert late[-1] < min(others), "they have waited for timers that were set after them"
