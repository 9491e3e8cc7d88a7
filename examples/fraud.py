"""Card fraud: alerts while payments come, slow work on Spark, and alerts on Spark's results too.

    python -m examples.cards cards
    kedge run examples/fraud.py --set path=cards/transactions.csv --set holders=cards/cardholders.csv
    python -m examples.cards cards --score fraud.db

WatchCards alerts on too many payments in a short time, an amount far over the card's habit, and two places too far
apart to travel between. Spark joins each alert with the cardholder to call, and counts payments by merchant and hour.
WatchMerchants alerts on an hour far over the merchant's earlier ones. That needs kedge-streams[spark]; with `--set
spark=false` only the part that takes milliseconds runs. `--set rate=1000` reads that many lines per second.
"""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from kedge import (
    Bolt,
    ConfigurationError,
    FileTail,
    Line,
    Paced,
    Record,
    Reject,
    SqliteSink,
    State,
    Stream,
    Task,
    Topology,
)

HEADER = "number,at,card,merchant,latitude,longitude,cents"
KM_A_DEGREE = 111.2


class Place(Record):
    latitude: float  # degrees
    longitude: float


class Transaction(Record):
    """A payment by card: at a till, or on the web, where `place` is None."""

    number: int
    at: datetime  # UTC, as all times here
    card: str
    merchant: str
    place: Place | None
    cents: int


class Alert(Record):
    """A payment that the card's holder may not have made."""

    kind: str  # velocity, amount or travel
    card: str
    at: datetime  # of the payment
    number: int
    cents: int
    why: str


class Case(Record):
    """An alert, and the person to call."""

    kind: str
    card: str
    at: datetime
    why: str
    name: str | None
    city: str | None
    phone: str | None


class Hour(Record):
    """A merchant's payments within an hour."""

    start: datetime
    merchant: str
    payments: int
    cents: int
    cards: int  # approximate number of different cards


class Spike(Record):
    """Far more payments than in the merchant's earlier hours: thieves try out stolen card numbers by small sums."""

    merchant: str
    start: datetime
    payments: int
    usual: float
    mean_cents: float


class Seen(Record):
    at: datetime
    place: Place


class Habit(Record):
    """A card's state, of fixed size."""

    times: tuple[datetime, ...] = ()  # of its newest payments, sorted
    payments: int = 0
    cents: float = 0.0  # their mean; older payments weigh less
    seen: Seen | None = None  # time and place of its last payment at a till


class Usual(Record):
    """A merchant's state. `waiting` are hours that are not compared yet: Spark's results come in any order."""

    hours: int = 0
    payments: float = 0.0  # per hour, on average; older hours weigh less
    waiting: tuple[Hour, ...] = ()


class ParseTransaction(Bolt):
    """Line → Transaction. An invalid row is rejected: it becomes a dead letter, and the run reports it."""

    def process(self, line: Line) -> Iterator[Transaction]:
        if line.text == HEADER:
            return
        try:
            number, at, card, merchant, latitude, longitude, cents = line.text.split(",")
            time = datetime.fromisoformat(at)
            place = Place(float(latitude), float(longitude)) if latitude else None
            paid = Transaction(int(number), time, card, merchant, place, int(cents))
        except ValueError as error:
            raise Reject(f"not a row of {HEADER}: {error}") from error
        if time.tzinfo is not UTC:
            raise Reject(f"{at} is no time in UTC: 2026-03-02T08:30:00Z is one")
        if not 0 < paid.cents < 2**53:
            raise Reject(f"{cents} cents are no payment")
        if place is not None and not (abs(place.latitude) <= 90 and abs(place.longitude) <= 180):
            raise Reject(f"{latitude}, {longitude} is no place on earth")
        yield paid


class WatchCards(Bolt):
    """Transaction → Alert, one for each rule that it breaks. Times are those of the payments, not of their arrival."""

    def __init__(self, limit: int = 5, within_s: float = 60.0, habits: float = 8.0, km_h: float = 1_000.0) -> None:
        self.limit, self.within = limit, timedelta(seconds=within_s)
        self.habits, self.km_h = habits, km_h

    def process(self, paid: Transaction, state: State[Habit]) -> Iterator[Alert]:
        habit = state.get(Habit())
        times = tuple(sorted((*habit.times, paid.at))[-self.limit :])
        if self.is_burst(times) and not self.is_burst(habit.times):  # once per burst
            seconds = (times[-1] - times[0]).total_seconds()
            yield self.alert(paid, "velocity", f"{self.limit} payments within {seconds:.0f} s")

        most = habit.cents * self.habits if habit.payments >= 10 else math.inf
        if paid.cents > most:
            yield self.alert(paid, "amount", f"{paid.cents / habit.cents:.0f} times the card's mean")
        weight = max(1 / (habit.payments + 1), 0.05)
        mean = habit.cents + weight * (min(paid.cents, most) - habit.cents)  # limits the weight of a fraud in the habit

        seen = habit.seen
        if paid.place is not None:
            here = Seen(paid.at, paid.place)
            if seen is not None and (why := self.impossible(seen, here)):
                yield self.alert(paid, "travel", why)  # and the state keeps this place
            elif seen is None or here.at >= seen.at:
                seen = here
        state.set(Habit(times, habit.payments + 1, mean, seen))

    def is_burst(self, times: tuple[datetime, ...]) -> bool:
        return len(times) == self.limit and times[-1] - times[0] <= self.within

    def impossible(self, seen: Seen, here: Seen) -> str:
        """Return distance and time if the trip is impossible, else "". 100 km are allowed: places are not exact."""
        km, hours = kilometres(seen.place, here.place), abs((here.at - seen.at).total_seconds()) / 3600
        return f"{km:,.0f} km in {hours * 60:.0f} min" if km > 100 + self.km_h * hours else ""

    def alert(self, paid: Transaction, kind: str, why: str) -> Alert:
        return Alert(kind, paid.card, paid.at, paid.number, paid.cents, why)


def kilometres(a: Place, b: Place) -> float:
    """The great-circle distance, by haversines."""
    north, south = math.radians(a.latitude), math.radians(b.latitude)
    half = math.sin((north - south) / 2) ** 2
    half += math.cos(north) * math.cos(south) * math.sin(math.radians(a.longitude - b.longitude) / 2) ** 2
    return math.degrees(2 * math.asin(min(1.0, math.sqrt(half)))) * KM_A_DEGREE


class WatchMerchants(Bolt):
    """Hour → Spike. An hour is compared `settle_s` seconds after the last hour of its merchant has come, or when the
    run ends. So hours that come together are taken in the order of their times."""

    fires_at_end = True

    def __init__(self, times: float = 3.0, least: int = 30, after: int = 3, settle_s: float = 2.0) -> None:
        self.times, self.least, self.after = times, least, after
        self.settle = timedelta(seconds=settle_s)

    def open(self, task: Task) -> None:
        self.clock = task.clock

    def process(self, hour: Hour, state: State[Usual]) -> Iterator[Spike]:
        usual = state.get(Usual())
        waiting = tuple(sorted((*usual.waiting, hour), key=lambda one: one.start))
        # limits the state's size
        ready, waiting = (waiting[:1], waiting[1:]) if len(waiting) > 1_000 else ((), waiting)
        state.timer(self.clock.utc() + self.settle)
        yield from self.compare(Usual(usual.hours, usual.payments, waiting), ready, state)

    def on_timer(self, key: tuple[str], name: str, state: State[Usual]) -> Iterator[Spike]:
        usual = state.get(Usual())
        yield from self.compare(Usual(usual.hours, usual.payments), usual.waiting, state)

    def compare(self, usual: Usual, ready: tuple[Hour, ...], state: State[Usual]) -> Iterator[Spike]:
        hours, mean = usual.hours, usual.payments
        for hour in ready:
            most = max(self.times * mean, self.least) if hours >= self.after else math.inf
            if hour.payments > most:
                yield Spike(hour.merchant, hour.start, hour.payments, mean, hour.cents / hour.payments)
            hours += 1
            mean += max(1 / hours, 0.05) * (min(hour.payments, most) - mean)
        state.set(Usual(hours, mean, usual.waiting))


def topology(
    path: str = "transactions.csv",
    holders: str = "cardholders.csv",
    store: str = "fraud.db",
    follow: bool = False,
    rate: float = 0.0,
    spark: bool = True,
    watermark: str = "1 hour",
) -> Topology:
    """`watermark`: how late a payment may come and still count in its hour."""
    topology, tail = Topology("fraud"), FileTail(path, follow=follow)
    lines = topology.spout("lines", Paced(tail, rate) if rate else tail)
    payments = topology.bolt("payments", ParseTransaction(), lines.shuffle())
    alerts = topology.bolt("alerts", WatchCards(), payments.fields("card"), tasks=2)
    if not spark:
        topology.bolt("store", SqliteSink(store, records=[Alert]), alerts.global_())
        return topology
    cases, hours = on_spark(topology, payments, alerts, holders, watermark)
    spikes = topology.bolt("spikes", WatchMerchants(), hours.fields("merchant"))
    sink = SqliteSink(store, records=[Alert, Case, Hour, Spike])
    topology.bolt("store", sink, *(stream.global_() for stream in (alerts, cases, hours, spikes)))
    return topology


def on_spark(
    topology: Topology, payments: Stream[Transaction], alerts: Stream[Alert], holders: str, watermark: str
) -> tuple[Stream[Case], Stream[Hour]]:
    try:
        from bridge import Table, approx_distinct, count, joined, sum_of, windowed
    except ConfigurationError as error:
        then = f"{error.next}, or leave them out by --set spark=false"
        raise ConfigurationError(f"hours, cases and spikes are Spark's, and {error}", next=then) from None
    table = Table(holders, refresh="10 minutes")
    cases = joined(topology, "cases", alerts, table=table, on="card", output=Case)
    hours = windowed(
        topology,
        "hours",
        payments,
        by="merchant",
        at="at",
        every="1 hour",
        watermark=watermark,
        aggregates={"payments": count(), "cents": sum_of("cents"), "cards": approx_distinct("card")},
        output=Hour,
    )
    return cases, hours
