"""Alerts on card payments, from one topic of Kafka to another.

    kedge run examples/kafka_fraud.py --set brokers=127.0.0.1:9092 --workers 2

Reads JSON payments from the topic `payments`, and sends alerts to the topic `fraud-alerts`, keyed by card. Two rules:
an amount far over the card's habit, and the fifth payment within a minute. What is no payment goes to the topic
`payments-malformed` as it came. The topics have to exist.

Each payment counts once, also if workers are killed meanwhile: state and offsets are of one checkpoint. An alert may be
in its topic twice after a crash. Both then have the same header `kedge-key`, by which a reader drops the second.
`examples/fraud.py` has more rules, on a file.
"""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta

from kedge import Bolt, Json, KafkaSink, KafkaSource, Malformed, Record, State, Topology


class Payment(Record):
    """A message: {"number": 1, "at": "2026-03-02T08:30:00Z", "card": "c-17", "merchant": "m-4", "cents": 1250}."""

    number: int
    at: datetime
    card: str
    merchant: str
    cents: int


class Alert(Record):
    """A payment that the card's holder may not have made."""

    kind: str  # amount or velocity
    card: str
    at: datetime
    number: int
    why: str


class Habit(Record):
    """A card's state, of fixed size."""

    times: tuple[datetime, ...] = ()  # of its newest payments, sorted
    payments: int = 0
    cents: float = 0.0  # their mean; older payments weigh less


class WatchCards(Bolt):
    """Payment → Alert, one for each rule that it breaks. Times are those of the payments, not of their arrival."""

    def __init__(self, limit: int = 5, within_s: float = 60.0, habits: float = 8.0) -> None:
        self.limit, self.within, self.habits = limit, timedelta(seconds=within_s), habits

    def process(self, paid: Payment, state: State[Habit]) -> Iterator[Alert]:
        habit = state.get(Habit())
        times = tuple(sorted((*habit.times, paid.at))[-self.limit :])
        if self.is_burst(times) and not self.is_burst(habit.times):  # once per burst
            seconds = (times[-1] - times[0]).total_seconds()
            yield self.alert(paid, "velocity", f"{self.limit} payments within {seconds:.0f} s")

        most = habit.cents * self.habits if habit.payments >= 10 and habit.cents else math.inf
        if paid.cents > most:
            yield self.alert(paid, "amount", f"{paid.cents / habit.cents:.0f} times the card's mean")
        weight = max(1 / (habit.payments + 1), 0.05)
        mean = habit.cents + weight * (min(paid.cents, most) - habit.cents)  # limits the weight of a fraud in the habit
        state.set(Habit(times, habit.payments + 1, mean))

    def is_burst(self, times: tuple[datetime, ...]) -> bool:
        return len(times) == self.limit and times[-1] - times[0] <= self.within

    def alert(self, paid: Payment, kind: str, why: str) -> Alert:
        return Alert(kind, paid.card, paid.at, paid.number, why)


def as_it_came(malformed: Malformed) -> bytes:
    return malformed.data


def topology(brokers: str = "127.0.0.1:9092", topic: str = "payments", alerts: str = "fraud-alerts") -> Topology:
    topology = Topology("kafka-fraud")
    payments = topology.spout("payments", KafkaSource(brokers, topic, value=Json(Payment, at="at")), tasks=2)
    found = topology.bolt("cards", WatchCards(), payments.fields("card"), tasks=2)
    topology.bolt("alerts", KafkaSink(brokers, alerts, key="card"), found.shuffle())
    topology.bolt("malformed", KafkaSink(brokers, f"{topic}-malformed", body=as_it_came), payments.malformed.shuffle())
    return topology
