"""The fraud example: each rule on made payments, then whole streams against `fraud_oracle` and what was planted."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import fraud_oracle
import pytest
from example_kit import EXAMPLES, kedge, run_example
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.cards import Cards, Payment, cards, kilometres, token, write
from examples.fraud import (
    HEADER,
    Alert,
    Hour,
    ParseTransaction,
    Place,
    Spike,
    Transaction,
    WatchCards,
    WatchMerchants,
    topology,
)
from examples.fraud import kilometres as haversines
from spouts import Items, Line
from topology import Bolt, Topology
from topology.records import encode
from topology.testing import Captured, check_replays, run_bolt

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
BERLIN, POTSDAM, LIMA = Place(52.5, 13.4), Place(52.4, 13.1), Place(-12.0, -77.0)


def paid(
    second: float, cents: int = 2_000, place: Place | None = None, card: str = "c", number: int = 0
) -> Transaction:
    return Transaction(number, START + timedelta(seconds=second), card, "m", place, cents)


def told(payments: Sequence[Transaction]) -> list[tuple[str, float]]:
    """(rule, seconds after START of the payment) of each alert."""
    done = run_bolt(WatchCards(), payments, by=("card",)).well()
    return [(one.kind, (one.at - START).total_seconds()) for one in done.outputs]


@pytest.mark.parametrize(
    ("seconds", "alerts"),
    [
        ([0, 10, 20, 30], []),
        ([0, 15, 30, 45, 60], [60]),  # a minute, inclusive
        ([0, 15, 30, 45, 61], []),
        ([0, 1, 2, 3, 4, 5, 6, 7], [4]),  # once a burst
        ([0, 1, 2, 3, 4, 200, 201, 202, 203, 204], [4, 204]),
        ([4, 3, 2, 1, 0], [0]),  # by the payments' own times, whichever comes first
        ([0, 0, 0, 0, 0], [0]),
        ([90, 60, 91, 92, 30, 93], [93]),
    ],
)
def test_five_payments_within_a_minute_of_their_own_times_are_one_alert(seconds: list[int], alerts: list[int]) -> None:
    assert told([paid(second) for second in seconds]) == [("velocity", second) for second in alerts]


@pytest.mark.parametrize(
    ("cents", "alerts"),
    [
        ([1_000] * 9 + [99_000], []),  # no habit yet
        ([1_000] * 10 + [8_000, 8_500, 8_500], []),  # 8 times is not over it, and moves the mean
        ([1_000] * 10 + [8_001], [10]),
        ([1_000] * 10 + [90_000, 90_000], [10, 11]),  # what is told of is no habit
        ([1_000] * 30 + [90_000] + [1_000] * 5 + [12_000], [30, 36]),
    ],
)
def test_a_payment_far_over_the_cards_mean_is_an_alert_once_there_is_a_mean(
    cents: list[int], alerts: list[int]
) -> None:
    payments = [paid(600 * at, one) for at, one in enumerate(cents)]
    assert told(payments) == [("amount", 600 * at) for at in alerts]


@pytest.mark.parametrize(
    ("way", "alerts"),
    [
        ([(0, BERLIN), (0, POTSDAM), (60, BERLIN)], []),  # near each other: places are not exact
        ([(0, BERLIN), (3600, LIMA)], [3600]),
        ([(0, BERLIN), (36_000, LIMA)], [36_000]),  # 11,000 km in 10 h
        ([(0, BERLIN), (40_000, LIMA)], []),
        ([(0, BERLIN), (60, LIMA), (120, BERLIN), (180, LIMA)], [60, 180]),  # the holder is where the card was
        ([(0, BERLIN), (60, None), (120, BERLIN)], []),  # the web is no place
        ([(3600, LIMA), (0, BERLIN)], [0]),  # the older one comes later
        ([(100, BERLIN), (0, POTSDAM), (3600, LIMA)], [3600]),
    ],
)
def test_two_places_that_nobody_travels_between_in_the_time_are_an_alert(
    way: list[tuple[int, Place | None]], alerts: list[int]
) -> None:
    assert told([paid(second, place=place) for second, place in way]) == [("travel", second) for second in alerts]


def test_an_alert_says_what_has_happened() -> None:
    payments = [paid(600 * at, 1_000, BERLIN) for at in range(12)] + [paid(7_800, 50_000, LIMA, number=77)]
    done = run_bolt(WatchCards(), payments, by=("card",)).well()
    assert [one.why for one in done.outputs] == ["50 times the card's mean", "11,091 km in 20 min"]
    assert {(one.number, one.cents, one.at) for one in done.outputs} == {(77, 50_000, payments[-1].at)}


def test_cards_are_watched_apart() -> None:
    assert told([paid(second, card=f"card {second % 2}") for second in range(8)]) == []


@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 2**52), st.sampled_from([BERLIN, LIMA, None]))))
@settings(max_examples=60)
def test_the_state_of_a_card_has_a_bound_whatever_comes(events: list[tuple[int, int, Place | None]]) -> None:
    done = run_bolt(WatchCards(), [paid(*event) for event in events], by=("card",)).well()
    assert all(len(habit.times) <= 5 and len(encode(habit)) < 250 for habit in done.state.values())


# -- merchants


def hour(number: int, payments: int, merchant: str = "m") -> Hour:
    return Hour(START + timedelta(hours=number), merchant, payments, 150 * payments, payments)


@pytest.mark.parametrize(
    ("payments", "spikes"),
    [
        ([10, 10, 500], []),  # no habit yet
        ([10, 10, 10, 30], []),
        ([10, 10, 10, 31], [3]),
        ([1, 1, 1, 29], []),  # few are no attack
        ([100, 100, 100, 300, 301], []),
        ([100, 100, 100, 301, 301], [3]),  # and what is told of counts as three times the mean
        ([10, 10, 10, 90, 10, 90], [3, 5]),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_an_hour_far_over_the_earlier_ones_is_a_spike_in_whatever_order_hours_come(
    payments: list[int], spikes: list[int], seed: int
) -> None:
    hours = [hour(number, count) for number, count in enumerate(payments)]
    Random(seed).shuffle(hours)
    done = run_bolt(WatchMerchants(), hours, by=("merchant",)).well()
    assert [one.start for one in done.outputs] == [START + timedelta(hours=number) for number in spikes]


def test_hours_that_wait_to_be_compared_have_a_bound() -> None:
    hours = [hour(number, 10) for number in range(1_500)] + [hour(1_500, 90)]
    done = run_bolt(WatchMerchants(), hours, by=("merchant",)).well()
    assert done.outputs == [Spike("m", START + timedelta(hours=1_500), 90, 10.0, 150.0)]


# -- rows


@pytest.mark.parametrize(
    "row",
    [
        "",
        "1,2026-03-02T12:00:00Z,c,m,,",
        "x,2026-03-02T12:00:00Z,c,m,,,5",
        "1,noon,c,m,,,5",
        "1,2026-03-02T12:00:00,c,m,,,5",
        "1,2026-03-02T12:00:00+01:00,c,m,,,5",
        "1,2026-03-02T12:00:00Z,c,m,,,0",
        "1,2026-03-02T12:00:00Z,c,m,,,9007199254740992",
        "1,2026-03-02T12:00:00Z,c,m,52.5,,5",
        "1,2026-03-02T12:00:00Z,c,m,nan,13.4,5",
        "1,2026-03-02T12:00:00Z,c,m,52.5,inf,5",
    ],
)
def test_what_is_no_transaction_is_rejected_with_the_reason_and_the_rest_goes_on(row: str) -> None:
    good = Line("7,2026-03-02T12:00:00.500Z,c,m,52.5,13.4,1999")
    done = run_bolt(ParseTransaction(), [Line(HEADER), Line(row), good])
    assert [one.record for one in done.failed] == [Line(row)]
    assert done.outputs == [paid(0.5, 1_999, BERLIN, number=7)]


def test_the_great_circle_is_that_of_another_formula() -> None:
    random = Random(3)
    for _ in range(500):
        a, b = ((random.uniform(-90, 90), random.uniform(-180, 180)) for _ in range(2))
        assert haversines(Place(*a), Place(*b)) == pytest.approx(kilometres(a, b), abs=0.01)


# -- streams


def stored(store: Path) -> Counter[fraud_oracle.Found]:
    with closing(sqlite3.connect(store)) as database:
        return Counter(database.execute("SELECT kind, card, number FROM alert").fetchall())


def planted(made: Cards) -> set[fraud_oracle.Found]:
    return {(one.kind, one.who, one.number) for one in made.frauds if one.kind != "spike"}


@pytest.mark.parametrize("seed", range(8))
def test_the_rules_find_all_that_is_planted_and_at_most_two_false_alarms_in_20_000(seed: int) -> None:
    """The oracle's word: what the example says is compared with it below."""
    made = cards(seed, 20_000)
    found = fraud_oracle.alerts(made.payments)
    assert planted(made) <= found
    assert len(found - planted(made)) <= 2
    spikes = {(one.who, one.at) for one in made.frauds if one.kind == "spike"}
    assert fraud_oracle.spikes(fraud_oracle.hours(made.payments)) == spikes


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_alerts_of_a_stream_are_just_those_of_the_oracle(tmp_path: Path, workers: int) -> None:
    made = cards(seed=20 + workers, count=20_000)
    write(made, tmp_path)
    run_example("fraud.py", "--set", "spark=false", cwd=tmp_path, workers=workers)
    assert stored(tmp_path / "fraud.db") == Counter(fraud_oracle.alerts(made.payments))


def test_a_second_run_stores_no_alert_twice_and_what_is_found_is_counted(tmp_path: Path) -> None:
    made = cards(seed=31, count=6_000)
    write(made, tmp_path)
    run_example("fraud.py", "--set", "spark=false", cwd=tmp_path)
    run_example("fraud.py", "--set", "spark=false", "--fresh", cwd=tmp_path)
    assert stored(tmp_path / "fraud.db") == Counter(fraud_oracle.alerts(made.payments))


def transactions(payments: Sequence[Payment]) -> list[Transaction]:
    done = run_bolt(ParseTransaction(), [Line(one.row(number)) for number, one in enumerate(payments)])
    return done.well().outputs


class FailsOnce(Bolt):
    """Beside the rules: every payment is replayed."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def process(self, one: Transaction) -> None:
        if one.number not in self.seen:
            self.seen.add(one.number)
            raise RuntimeError("the first time always fails")


def test_b4_alerts_are_the_same_although_every_payment_is_replayed() -> None:
    made = cards(seed=41, count=5_000)
    some = transactions(made.payments[:1_500])

    def make(sink: Captured[Alert]) -> Topology:
        topology = Topology("fraud")
        stream = topology.spout("payments", Items(some))
        alerts = topology.bolt("alerts", WatchCards(), stream.fields("card"), tasks=2)
        topology.bolt("fails-once", FailsOnce(), stream.global_())
        topology.bolt("sink", sink, alerts.global_())
        return topology

    found = {(one.kind, one.card, one.number) for one in check_replays(make).values()}
    assert found == fraud_oracle.alerts(made.payments[:1_500])


def test_b4_spikes_are_those_of_the_oracle_in_any_order_although_every_hour_is_replayed() -> None:
    """What Spark gives for the hours, without Spark."""
    made = fraud_oracle.hours(cards(seed=5, count=6_000, hours=24).payments)
    hours = [Hour(datetime.fromisoformat(x.start), x.merchant, x.payments, x.cents, x.cards) for x in made]
    Random(1).shuffle(hours)

    def make(sink: Captured[Spike]) -> Topology:
        topology = Topology("fraud")
        stream = topology.spout("hours", Items(hours))
        spikes = topology.bolt("spikes", WatchMerchants(), stream.fields("merchant"))
        topology.bolt("sink", sink, spikes.global_())
        return topology

    found = [(one.merchant, one.start) for one in check_replays(make).values()]
    expected = {(merchant, datetime.fromisoformat(start)) for merchant, start in fraud_oracle.spikes(made)}
    assert set(found) == expected
    assert len(found) == len(expected) > 0


def test_without_spark_the_topology_has_no_companion_and_needs_none() -> None:
    assert [one.name for one in topology(spark=False).companions] == []
    assert [one.name for one in topology().companions] == ["spark"]


def test_where_sparks_packages_are_missing_a_sentence_says_what_to_install_or_leave_out(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pyarrow'] = None\n")
    checked = kedge("check", str(EXAMPLES / "fraud.py"), cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert checked.returncode == 2
    said = " ".join(checked.stderr.split())
    assert "hours, cases and spikes are Spark's, and bridge.Table needs Spark, which can't be imported" in said
    assert "pip install 'kedge-streams[spark]', or leave them out by --set spark=false" in said
    assert "Traceback" not in checked.stderr
    alone = kedge(
        *("check", str(EXAMPLES / "fraud.py"), "--set", "spark=false"),
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert alone.returncode == 0, alone.stderr


def test_tokens_are_those_of_the_table(tmp_path: Path) -> None:
    write(cards(seed=1, count=5_000), tmp_path)
    rows = [row.split(",") for row in (tmp_path / "cardholders.csv").read_text().splitlines()]
    assert rows[0] == ["card", "name", "city", "phone"]
    assert [row[0] for row in rows[1:]] == [token(card) for card in range(125)]


def test_where_the_file_of_payments_is_not_there_the_run_says_so(tmp_path: Path) -> None:
    ran = kedge("run", str(EXAMPLES / "fraud.py"), "--set", "spark=false", cwd=tmp_path)
    assert ran.returncode == 2
    assert "transactions.csv" in ran.stderr
