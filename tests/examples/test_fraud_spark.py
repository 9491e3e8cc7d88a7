"""The fraud example with Spark beside it, one run: hours, spikes and cases are just those of the oracle."""

import importlib.util
import sqlite3
from contextlib import closing
from pathlib import Path

import fraud_oracle
import pytest
from example_kit import run_example

from examples.cards import cards, score, write

MILLISECONDS = len("2026-03-02T12:00:00.000")  # the sink stores microseconds


def missing() -> str:
    """Why Spark can't be run here; empty where it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'kedge-streams[spark]'"
    from bridge.spark.java import missing as no_java

    return no_java()


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.timeout(300)
def test_hours_spikes_and_who_to_call_are_just_those_of_the_oracle(tmp_path: Path) -> None:
    made = cards(seed=5, count=6_000, hours=24)
    write(made, tmp_path)
    run_example("fraud.py", cwd=tmp_path, workers=2, timeout_s=280)
    with closing(sqlite3.connect(tmp_path / "fraud.db")) as database:
        alerts = database.execute("SELECT kind, card, number FROM alert").fetchall()
        hours = database.execute("SELECT start, merchant, payments, cents FROM hour").fetchall()
        about = dict(database.execute("SELECT merchant || start, cards FROM hour"))
        spikes = database.execute("SELECT merchant, start FROM spike").fetchall()
        cases = database.execute("SELECT card, name, city, phone FROM 'case'").fetchall()
    assert sorted(alerts) == sorted(fraud_oracle.alerts(made.payments))
    expected = fraud_oracle.hours(made.payments)
    assert sorted((start[:MILLISECONDS] + "Z", *rest) for start, *rest in hours) == [
        (one.start, one.merchant, one.payments, one.cents) for one in expected
    ]
    exact = {one.merchant + one.start[:-1]: one.cards for one in expected}
    assert all(abs(count - exact[key[: -len("000Z")]]) <= 2 + 0.2 * count for key, count in about.items())
    assert {(merchant, start[:MILLISECONDS] + "Z") for merchant, start in spikes} == fraud_oracle.spikes(expected)
    assert len(spikes) == len(fraud_oracle.spikes(expected)) > 0
    holders = {row.split(",")[0]: tuple(row.split(",")) for row in made.holders}
    assert sorted(cases) == sorted(holders[card] for _, card, _ in alerts)
    found = {line.split(" found")[0] for line in score(tmp_path, tmp_path / "fraud.db")}
    planted = {kind: sum(one.kind == kind for one in made.frauds) for kind in ("amount", "spike", "travel", "velocity")}
    assert found == {f"{kind}: {number} of {number}" for kind, number in planted.items()}
