"""The SSH alerts, while workers are killed and then the whole run: the addresses are those of a run that nobody
disturbs, each alert is true of the log, and none is there twice.

What is replayed comes later than what was not, so that an alert may tell of another five failures of its burst than
those that an undisturbed run counts (the order of a key's inputs holds until something is replayed). So it is checked
against the log itself, by the plain function that the example's own test has.
"""

import os
import signal
import sqlite3
import sys
import time
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from chaos_kit import HASTY, Kill, Run, running, seeded
from proc_kit import opened

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `examples` is not installed

from examples.auth_log import auth_log, write
from tests.examples.ssh_oracle import expected, failure_in, year_found

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "examples" / "ssh_alerts.py"
LINES = 20_000
RATE = 2_500
TRIES = 3  # kills of one worker, until one hits messages


class Stored(NamedTuple):
    source_ip: str
    failures: int
    first_at: datetime
    last_at: datetime


def stored(folder: Path) -> list[Stored]:
    """All alerts; none where there is no table yet."""
    with closing(sqlite3.connect(folder / "store.db")) as store:
        try:
            rows = store.execute("SELECT source_ip, failures, first_at, last_at FROM brute_force").fetchall()
        except sqlite3.OperationalError:
            return []
    return [Stored(ip, count, *map(datetime.fromisoformat, times)) for ip, count, *times in rows]


def untrue(alerts: list[Stored], lines: list[str], reference: datetime) -> list[Stored]:
    """Those that are not so: there have to be so many failures of this address from its first to its last one, which
    are within a minute."""
    failures: dict[str, list[tuple[datetime, int]]] = {}
    for line in lines:
        found, at = failure_in(line), year_found(line[:15], reference)
        if found is not None and at is not None:
            failures.setdefault(found[0], []).append((at, found[1]))

    def is_true(one: Stored) -> bool:
        mine = [(at, count) for at, count in failures.get(one.source_ip, []) if one.first_at <= at <= one.last_at]
        times = {at for at, _ in mine}
        return (
            {one.first_at, one.last_at} <= times
            and one.last_at - one.first_at <= timedelta(seconds=60)
            and 5 <= one.failures <= sum(count for _, count in mine)
        )

    return [one for one in alerts if not is_true(one)]


@pytest.mark.slow
@pytest.mark.parametrize(("durability", "seed"), [("disk", 701), ("process", 702)])
def test_alerts_are_for_the_same_addresses_true_and_there_once_whatever_dies_d1_d2_d3(
    folder: Path, durability: str, seed: int
) -> None:
    random, log = seeded(seed), auth_log(seed, LINES)
    write(log, folder / "auth.log")
    values: dict[str, Any] = {
        "program": ALERTS,
        "command": HASTY,
        "told_folder": False,
        "path": folder / "auth.log",
        "store": folder / "store.db",
        "environment": {"PYTHONPATH": str(ROOT)},
        "config": {"durability": durability, "max_restarts": 100},
        "rate": RATE,
    }
    with running(folder, **values) as run:
        deaths(run, folder, random.choice([[False, False, True], [False, True, False]]), random)
        run.kill_all()
    assert stored(folder), "nothing was stored before the whole run was killed"
    with running(folder, **values) as run:
        kills = deaths(run, folder, [*random.sample([True, False], 2), False], random)
        outcome = run.ended().well()
    assert outcome.figures["restarts"] == len(kills)
    assert outcome.total("replayed") > 0, outcome.said
    assert "; the last run was interrupted" in outcome.said
    alerts = stored(folder)
    undisturbed = expected([*log.lines], log.last_at).alerts
    print(f"{len(alerts)} alerts; {sorted({*alerts} ^ {Stored(*one) for one in undisturbed})} differ")
    assert {one.source_ip for one in alerts} == {one.source_ip for one in undisturbed}
    assert untrue(alerts, [*log.lines], log.last_at) == []
    assert len(alerts) == len({*alerts}) >= 20


def deaths(run: Run, folder: Path, order: list[bool], random: Random) -> list[Kill]:
    """Kills a worker each time that an alert more is stored: the one that reads the log where `order` says so, else the
    other one. That is stopped first, so that some lines wait for it; it is killed again where none did, since the alert
    may be one from before the last death, whose replacement has read no line yet. `own` of a kill is 1 where it has
    read the log.

    All three may die within a second, and with who reads the log goes what it has counted since it was last heard, a
    second at most: so the order of a run whose replays are counted does not end with it."""
    kills: list[Kill] = []
    for reads in order:
        for _ in range(TRIES):
            kill = death(run, folder, random, reads=reads)
            kills.append(kill)
            run.until(lambda: run.said().count(" is back as pid ") == len(kills), "its replacement at work")
            if reads or kill.told:
                break
        else:
            raise AssertionError(f"kills that hit nothing: {kills}\n{run.said()}")
    return kills


def death(run: Run, folder: Path, random: Random, *, reads: bool) -> Kill:
    there = run.until(lambda: len(found := sorted(run.workers())) == 2 and found, "two workers")
    run.until(partial(has_more, folder, len(stored(folder))), "an alert more")
    log = str(folder / "auth.log")
    (pid,) = [one for one in there if (log in opened(one)) is reads]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(random.uniform(0.1, 0.3))
    run.kill(pid)
    return run.told(Kill(pid, int(reads)))


def has_more(folder: Path, count: int) -> bool:
    return len(stored(folder)) > count


def test_an_alert_that_is_made_up_is_found_out() -> None:
    log = auth_log(3, 2_000)
    right = [Stored(*one) for one in expected([*log.lines], log.last_at).alerts]
    assert right
    assert untrue(right, [*log.lines], log.last_at) == []
    second, first = timedelta(seconds=1), right[0]
    wrong = [
        first._replace(failures=first.failures + 1_000),
        first._replace(source_ip="192.0.2.77"),
        first._replace(first_at=first.first_at - second),
        first._replace(last_at=first.last_at + 70 * second),
    ]
    assert untrue(wrong, [*log.lines], log.last_at) == wrong
