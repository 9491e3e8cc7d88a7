"""The maker of card payments: a seed gives the same files each time, with the frauds that it tells, and counts them."""

import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from example_kit import ROOT

from examples.cards import HOUR_MS, Cards, cards, kilometres, score, when, write


@pytest.fixture(scope="module")
def made() -> Cards:
    return cards(seed=9, count=10_000)


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        write(cards(seed, 5_000), tmp_path / name)
    one, same, other = ([path.read_bytes() for path in sorted((tmp_path / name).iterdir())] for name in "abc")
    assert one == same != other


def test_payments_are_in_the_order_of_their_times_and_within_the_hours(made: Cards) -> None:
    assert all(a.at_ms <= b.at_ms for a, b in pairwise(made.payments))
    assert 0 <= made.payments[0].at_ms <= made.payments[-1].at_ms < 48 * HOUR_MS + 60_000


def test_each_kind_of_fraud_is_planted_and_of_a_card_only_one(made: Cards) -> None:
    kinds = Counter(one.kind for one in made.frauds)
    assert kinds == {"amount": 3, "velocity": 3, "travel": 3, "spike": 3}
    victims = [one.who for one in made.frauds if one.kind != "spike"]
    assert len(victims) == len(set(victims))
    for one in made.frauds:
        if one.kind != "spike":
            assert (made.payments[one.number].due, when(made.payments[one.number].at_ms)) == (one.kind, one.at)


def test_holders_who_fly_have_the_time_to(made: Cards) -> None:
    last, flown = dict[int, tuple[int, tuple[float, float]]](), 0
    for one in made.payments:
        if one.place is None or one.due == "travel":
            continue
        if one.card in last:
            at_ms, place = last[one.card]
            km = kilometres(place, one.place)
            flown += km > 100
            assert km <= 50 + 700 * (one.at_ms - at_ms) / HOUR_MS
        last[one.card] = one.at_ms, one.place
    assert flown > 10


@pytest.mark.parametrize(("count", "hours"), [(4_999, 48), (5_000, 23)])
def test_too_few_payments_or_hours_are_refused(count: int, hours: int) -> None:
    with pytest.raises(
        ValueError, match=f"at least 5000 transactions within at least 24 hours, not {count} in {hours}"
    ):
        cards(1, count, hours)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.cards", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_tells_what_it_has_made_and_in_a_sentence_what_it_can_not(tmp_path: Path) -> None:
    ran = command(str(tmp_path), "--transactions", "5000", "--seed", "2")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert " transactions of 125 cards; planted: 3 amount, 3 spike, 3 travel, 3 velocity\n" in ran.stdout
    assert command(str(tmp_path), "--transactions", "10").returncode == 2
    scored = command(str(tmp_path), "--score", str(tmp_path / "nowhere.db"))
    assert scored.returncode == 2
    assert "unable to open database file" in scored.stderr
    assert "Traceback" not in scored.stderr


def test_found_and_false_alerts_are_counted_by_kind_and_spikes_only_where_they_are_looked_for(tmp_path: Path) -> None:
    made = cards(seed=9, count=5_000)
    write(made, tmp_path)
    travels = [one for one in made.frauds if one.kind == "travel"]
    spike = next(one for one in made.frauds if one.kind == "spike")
    with closing(sqlite3.connect(tmp_path / "fraud.db")) as database:
        database.execute("CREATE TABLE alert (kind, card, at)")
        rows = [("travel", one.who, f"{one.at[:-1]}000Z") for one in travels[:2]]
        rows += [("travel", "card-000000", "2026-03-02T00:00:00.000000Z"), ("amount", "card-000000", travels[0].at)]
        database.executemany("INSERT INTO alert VALUES (?, ?, ?)", rows)
        database.commit()
        lines = ["amount: 0 of 3 found, 1 false", "travel: 2 of 3 found, 1 false", "velocity: 0 of 3 found, 0 false"]
        assert [*score(tmp_path, tmp_path / "fraud.db")] == lines
        database.execute("CREATE TABLE spike (merchant, start)")
        database.execute("INSERT INTO spike VALUES (?, ?)", (spike.who, f"{spike.at[:-1]}000Z"))
        database.commit()
    assert "spike: 1 of 3 found, 0 false" in [*score(tmp_path, tmp_path / "fraud.db")]
