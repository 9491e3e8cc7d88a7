"""The example on Kafka: alerts of a topic, each of a payment once, whatever is killed; and what is no payment."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from example_kit import EXAMPLES
from server_kit import KafkaCluster, NoMock, all_messages, live, put, until

from examples.kafka_fraud import Payment, WatchCards
from topology.testing import run_bolt

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    try:
        with KafkaCluster() as one:
            for topic in ("payments", "fraud-alerts", "payments-malformed"):
                one.make_topic(topic)
            yield one
    except NoMock as error:
        pytest.skip(str(error))


def paid(number: int, minutes: float, cents: int = 1_000, card: str = "a") -> Payment:
    return Payment(number, NOON + timedelta(minutes=minutes), card, "m", cents)


def as_json(payment: Payment) -> bytes:
    return msgspec.json.encode({name: getattr(payment, name) for name in payment.__struct_fields__})


def kinds(payments: list[Payment]) -> list[tuple[str, int]]:
    return [(alert.kind, alert.number) for alert in run_bolt(WatchCards(), payments, by=("card",)).well().outputs]


def test_an_amount_far_over_the_habit_is_an_alert_once_there_is_a_habit() -> None:
    usual = [paid(number, 10.0 * number) for number in range(10)]
    assert kinds([*usual, paid(10, 200, 8_001)]) == [("amount", 10)]
    assert kinds([*usual, paid(10, 200, 8_000)]) == []
    assert kinds([*usual[:9], paid(10, 200, 8_001)]) == []


def test_the_fifth_payment_within_a_minute_is_an_alert_once_per_burst() -> None:
    assert kinds([paid(number, number / 10) for number in range(7)]) == [("velocity", 4)]
    assert kinds([paid(number, number / 3) for number in range(7)]) == []


def test_the_order_of_arrival_does_not_hide_a_burst() -> None:
    assert kinds([paid(number, minutes / 10) for number, minutes in enumerate((0, 4, 1, 3, 2))]) == [("velocity", 4)]


@pytest.mark.timeout(200)
def test_each_burst_is_one_alert_though_a_worker_is_killed(cluster: KafkaCluster, tmp_path: Path) -> None:
    cards = [f"card-{number}" for number in range(200)]
    payments = [as_json(paid(number, number / 60, card=card)) for card in cards for number in range(5)]
    put(cluster.brokers, "payments", payments[:500], partition=0)
    put(cluster.brokers, "payments", [b"no payment"], partition=0)

    def sent(topic: str) -> list[Any]:
        """The messages of a topic, without those that are there again: a worker that is killed leaves some."""
        return [*{dict(one.headers())["kedge-key"]: one for one in all_messages(cluster.brokers, topic)}.values()]

    def alerts() -> list[str]:
        return [one.key().decode() for one in sent("fraud-alerts")]

    with live(EXAMPLES / "kafka_fraud.py", tmp_path, brokers=cluster.brokers) as run:
        until(lambda: len(alerts()) >= 50, "the first alerts")
        run.kill_worker()
        put(cluster.brokers, "payments", payments[500:], partition=1)
        until(lambda: len(alerts()) >= 200, "all alerts")
        run.stop()
    assert sorted(alerts()) == sorted(cards)
    assert [one.value() for one in sent("payments-malformed")] == [b"no payment"]
