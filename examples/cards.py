"""Makes card transactions to try `fraud.py` on, with known frauds among them, and counts the frauds that were found.

    python -m examples.cards cards --transactions 50000 --seed 1
    python -m examples.cards cards --score fraud.db

Three files: `transactions.csv` in the order of their times, `cardholders.csv`, and `frauds.csv` with the alerts due:
the transaction, or the merchant's hour, of each. The same seed gives the same bytes. Cardholders pay near home and on
the web, and some of them fly to another city. Knows nothing of topologies.
"""

import argparse
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from operator import itemgetter
from pathlib import Path
from random import Random

from topology.filesystem.safe_files import write_anew

FIRST_AT = datetime(2026, 3, 2, tzinfo=UTC)
HOUR_MS = 3_600_000
TRANSACTIONS_MIN = 5_000  # with fewer, cards have no habits
CARD_TRANSACTIONS = 40  # per card, on average
FRAUD_SHARE = 0.01  # share of all cards, for each kind of fraud
MERCHANTS = 60  # every fifth of them sells only on the web
KM_A_DEGREE = 111.2
CITIES = (  # latitude, longitude
    *(("Berlin", 52.5, 13.4), ("Madrid", 40.4, -3.7), ("Cairo", 30.0, 31.2), ("Lagos", 6.5, 3.4)),
    *(("Nairobi", -1.3, 36.8), ("Mumbai", 19.1, 72.9), ("Tokyo", 35.7, 139.7), ("Sydney", -33.9, 151.2)),
    *(("Toronto", 43.7, -79.4), ("Chicago", 41.9, -87.6), ("Lima", -12.0, -77.0), ("Recife", -8.1, -34.9)),
)
FIRST_NAMES = ("Ada", "Blaise", "Chen", "Dilma", "Edsger", "Fatima", "Grace", "Haruki", "Ines", "Juma")
LAST_NAMES = ("Abe", "Brandt", "Castro", "Diallo", "Eriksen", "Fuentes", "Gupta", "Hassan", "Ito", "Jansen")


@dataclass(frozen=True, slots=True)
class Payment:
    """A transaction; `number` counts transactions by their times.

    `place`: latitude and longitude, None on the web. `due`: the alert that it must give, or nothing.
    """

    at_ms: int  # since FIRST_AT
    card: int
    merchant: str
    place: tuple[float, float] | None
    cents: int
    due: str = ""

    def row(self, number: int) -> str:
        latitude, longitude = ("", "") if self.place is None else (f"{degrees:.3f}" for degrees in self.place)
        return f"{number},{when(self.at_ms)},{token(self.card)},{self.merchant},{latitude},{longitude},{self.cents}"


@dataclass(frozen=True)
class Fraud:
    """An alert that must be raised. `who` is a card, and `number` its transaction; for a spike a merchant, and 0."""

    kind: str
    who: str
    number: int
    at: str


@dataclass(frozen=True)
class Cards:
    """The generated data: payments in the order of their times, lines of the cardholders' table, and the alerts due."""

    payments: tuple[Payment, ...]
    holders: tuple[str, ...]
    frauds: tuple[Fraud, ...]


@dataclass
class Holder:
    """A card and its holder's place at each time."""

    number: int
    home: tuple[str, float, float]
    usual: float  # cents
    away: tuple[str, float, float]
    leaves_ms: float
    arrives_ms: float

    def city(self, at_ms: int) -> tuple[str, float, float] | None:
        """Return the holder's city, None in the air."""
        return self.home if at_ms < self.leaves_ms else self.away if at_ms >= self.arrives_ms else None


def cards(seed: int = 1, count: int = 50_000, hours: int = 48, share: float = FRAUD_SHARE) -> Cards:
    """Make about `count` payments over `hours` hours. Raises ValueError for fewer than 5,000 payments or 24 hours.

    `share`: share of all cards for each kind of fraud; up to 0.2.
    """
    if count < TRANSACTIONS_MIN or hours < 24:
        raise ValueError(f"at least {TRANSACTIONS_MIN} transactions within at least 24 hours, not {count} in {hours}")
    random = Random(seed)
    span = hours * HOUR_MS
    holders = [_holder(random, number, span) for number in range(count // CARD_TRANSACTIONS)]
    paid: list[list[Payment]] = [[] for _ in holders]
    for at_ms in sorted(_time(random, span) for _ in range(count)):
        holder = random.choice(holders)
        paid[holder.number].append(_payment(random, holder, at_ms))
    victims = _frauds(random, holders, paid, span, share)
    for merchant, hour, often in _spikes(random, count, hours):
        for _ in range(often):
            card = random.randrange(len(holders))
            while card in victims:  # a victim's other alerts are due at a certain payment
                card = random.randrange(len(holders))
            at_ms = hour * HOUR_MS + random.randrange(HOUR_MS)
            paid[card].append(Payment(at_ms, card, merchant, None, random.randrange(100, 300), f"spike {hour}"))
    payments = sorted((payment for some in paid for payment in some), key=lambda one: (one.at_ms, one.card))
    return Cards(tuple(payments), tuple(_table(random, holders)), tuple(_due(payments)))


def token(card: int) -> str:
    return f"card-{card:06d}"


def when(at_ms: float) -> str:
    return f"{FIRST_AT + timedelta(milliseconds=at_ms):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def kilometres(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the great-circle distance of two places, given as latitude and longitude in degrees."""
    north, south = math.radians(a[0]), math.radians(b[0])
    cosine = math.sin(north) * math.sin(south) + math.cos(north) * math.cos(south) * math.cos(math.radians(a[1] - b[1]))
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine)))) * KM_A_DEGREE


# -- cardholders


def _holder(random: Random, number: int, span: int) -> Holder:
    home, away = random.sample(CITIES, 2)
    leaves = random.uniform(0.2, 0.6) * span if random.random() < 0.2 else math.inf
    arrives = leaves + (kilometres(home[1:], away[1:]) / 700 + 2) * HOUR_MS  # 700 km/h, and two hours at airports
    return Holder(number, home, 2_500 * random.lognormvariate(0, 0.6), away, leaves, arrives)


def _time(random: Random, span: int) -> int:
    """Draw a time; more payments come in the evening, UTC, than before dawn."""
    while True:
        at_ms = random.randrange(span)
        if random.random() < 0.75 + 0.25 * math.sin((at_ms / HOUR_MS - 12) * math.tau / 24):
            return at_ms


def _payment(random: Random, holder: Holder, at_ms: int) -> Payment:
    city = holder.city(at_ms) if random.random() < 0.75 else None
    cents = max(100, round(holder.usual * random.lognormvariate(0, 0.5)))
    return Payment(at_ms, holder.number, *_shop(random, city), cents)


def _shop(random: Random, city: tuple[str, float, float] | None) -> tuple[str, tuple[float, float] | None]:
    """Draw a merchant in the city and one of its tills, within 20 km; without a city, a merchant on the web."""
    if city is None:
        return f"web-{random.randrange(MERCHANTS // 5):02d}", None
    name = f"{city[0].lower()}-{random.randrange(MERCHANTS * 4 // 5 // len(CITIES))}"
    return name, (round(city[1] + random.uniform(-0.1, 0.1), 3), round(city[2] + random.uniform(-0.1, 0.1), 3))


def _table(random: Random, holders: Sequence[Holder]) -> Iterator[str]:
    for holder in holders:
        name = f"{random.choice(FIRST_NAMES)} {random.choice(LAST_NAMES)}"
        yield f"{token(holder.number)},{name},{holder.home[0]},+1-555-01{random.randrange(100):02d}"


# -- thieves


def _frauds(random: Random, holders: Sequence[Holder], paid: list[list[Payment]], span: int, share: float) -> set[int]:
    """Plant the frauds of single cards, at most one per card. Return the cards."""
    victims: set[int] = set()
    for plant in (_amount, _velocity, _travel):
        planted = 0
        while planted < max(3, round(len(holders) * share)):
            holder = random.choice(holders)
            if holder.number not in victims and plant(random, holder, paid[holder.number], span):
                victims.add(holder.number)
                planted += 1
    return victims


def _amount(random: Random, holder: Holder, own: list[Payment], span: int) -> bool:
    """Make one payment 25 to 60 times the card's usual amount, once the card has habits."""
    if len(own) < 20:
        return False
    at = random.randrange(15, len(own))
    old, cents = own[at], round(holder.usual * random.uniform(25, 60))
    own[at] = Payment(old.at_ms, old.card, old.merchant, old.place, cents, "amount")
    return True


def _velocity(random: Random, holder: Holder, own: list[Payment], span: int) -> bool:
    """Add eight small payments on the web within 40 s. The alert is due at the fifth."""
    start = random.randrange(span - 600_000)
    if any(start - 120_000 < payment.at_ms < start + 160_000 for payment in own):
        return False
    for number in range(8):
        cents = max(100, round(holder.usual * random.uniform(0.3, 1.0)))
        merchant, _ = _shop(random, None)
        own.append(Payment(start + 5_000 * number, holder.number, merchant, None, cents, "velocity" * (number == 4)))
    return True


def _travel(random: Random, holder: Holder, own: list[Payment], span: int) -> bool:
    """Let a copy of the card pay at a till at least 2,000 km away, 10 to 40 minutes after the holder paid."""
    at_tills = [payment for payment in own if payment.place is not None and payment.at_ms < span - HOUR_MS]
    if not at_tills:
        return False
    seen = random.choice(at_tills)
    assert seen.place is not None
    there = random.choice([city for city in CITIES if kilometres(seen.place, city[1:]) > 2_000])
    at_ms = seen.at_ms + random.randrange(600_000, 2_400_000)
    cents = max(100, round(holder.usual * random.uniform(0.5, 2.0)))
    own.append(Payment(at_ms, holder.number, *_shop(random, there), cents, "travel"))
    return True


def _spikes(random: Random, count: int, hours: int) -> Iterator[tuple[str, int, int]]:
    """Yield (merchant, hour, number of payments): stolen numbers tried out on the web, each by a small payment."""
    web = [f"web-{number:02d}" for number in range(MERCHANTS // 5)]
    usual = count / 4 / hours / len(web)
    for merchant in random.sample(web, len(web) // 4):
        yield merchant, random.randrange(8, hours - 1), max(60, round(6 * usual))


def _due(payments: Sequence[Payment]) -> Iterator[Fraud]:
    spikes: Counter[tuple[str, int]] = Counter()
    for number, payment in enumerate(payments):
        if payment.due.startswith("spike"):
            spikes[payment.merchant, int(payment.due.split()[1])] += 1
        elif payment.due:
            yield Fraud(payment.due, token(payment.card), number, when(payment.at_ms))
    for merchant, hour in sorted(spikes):
        yield Fraud("spike", merchant, 0, when(hour * HOUR_MS))


# -- files


def write(made: Cards, folder: Path) -> None:
    """Write the three files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = (fraud.row(number) for number, fraud in enumerate(made.payments))
    frauds = (f"{fraud.kind},{fraud.who},{fraud.number},{fraud.at}" for fraud in made.frauds)
    for name, header, lines in (
        ("transactions.csv", "number,at,card,merchant,latitude,longitude,cents", rows),
        ("cardholders.csv", "card,name,city,phone", made.holders),
        ("frauds.csv", "kind,who,number,at", frauds),
    ):
        write_anew(folder / name, (f"{line}\n".encode() for line in chain([header], lines)))


def score(folder: Path, store: Path) -> Iterator[str]:
    """Yield for each kind how many were found and how many alerts were false. Raises OSError, sqlite3.Error."""
    lines = [line.split(",") for line in (folder / "frauds.csv").read_text().splitlines()[1:]]
    due = {(kind, who, at) for kind, who, _, at in lines}
    with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        told = set(database.execute("SELECT kind, card, at FROM alert"))
        told |= set(database.execute("SELECT 'spike', merchant, start FROM spike")) if "spike" in tables else set()
    given = {(kind, who, at[:23] + "Z") for kind, who, at in told}  # the files have milliseconds
    for kind in sorted(set(map(itemgetter(0), due)) - ({"spike"} - tables)):
        wanted, found = ({alert for alert in some if alert[0] == kind} for some in (due, given))
        yield f"{kind}: {len(wanted & found)} of {len(wanted)} found, {len(found - wanted)} false"


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes card transactions with known frauds, and counts those found.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--transactions", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hours", type=int, default=48)
    parser.add_argument("--score", type=Path, metavar="STORE", help="which frauds are among the alerts stored there")
    given = parser.parse_args()
    try:
        if given.score is not None:
            print("\n".join(score(given.folder, given.score)))
            return
        made = cards(given.seed, given.transactions, given.hours)
        write(made, given.folder)
    except (ValueError, OSError, sqlite3.Error) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    kinds = Counter(fraud.kind for fraud in made.frauds)
    planted = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    print(f"{given.folder}: {len(made.payments):,} transactions of {len(made.holders):,} cards; planted: {planted}")


if __name__ == "__main__":
    main()
