"""What `examples/fraud.py` has to find, from the whole list of payments at once: no state, no stream, no topology."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from examples.cards import HOUR_MS, Payment, kilometres, token, when

Found = tuple[str, str, int]  # kind, card, number of the payment


@dataclass(frozen=True)
class MerchantHour:
    """An hour of a merchant. `cards` are exact here."""

    start: str
    merchant: str
    payments: int
    cents: int
    cards: int


def alerts(payments: Sequence[Payment]) -> set[Found]:
    """All alerts of single cards."""
    by_card: dict[int, list[tuple[int, Payment]]] = defaultdict(list)
    for number, one in enumerate(payments):
        by_card[one.card].append((number, one))
    found: set[Found] = set()
    for card, own in by_card.items():
        times = [one.at_ms for _, one in own]
        found |= {("velocity", token(card), own[at][0]) for at in _bursts(times)}
        found |= {("amount", token(card), own[at][0]) for at in _amounts([one.cents for _, one in own])}
        found |= {("travel", token(card), number) for number in _journeys(own)}
    return found


def _bursts(times: Sequence[int]) -> list[int]:
    """Where a payment is the fifth within a minute, and the one before it was not."""
    is_burst = [at >= 4 and time - times[at - 4] <= 60_000 for at, time in enumerate(times)]
    return [at for at, burst in enumerate(is_burst) if burst and not is_burst[at - 1]]


def _amounts(cents: Sequence[int]) -> list[int]:
    """Where a payment is more than eight times the mean: of all before it for the first 20, then with a weight of 5 %
    for each new one, of which no more than eight means count. The first ten are not judged."""
    means, found = [0.0], []
    for at, paid in enumerate(cents):
        most = 8 * means[-1] if at >= 10 else math.inf
        if paid > most:
            found.append(at)
        share = 1 / (at + 1) if at < 20 else 0.05
        means.append(means[-1] + share * (min(paid, most) - means[-1]))
    return found


def _journeys(own: Iterable[tuple[int, Payment]]) -> list[int]:
    """Payments at a till that is further from the last believed one than 100 km and 1,000 km an hour."""
    believed, found = None, []
    for number, one in own:
        if one.place is None:
            continue
        if believed is not None and believed.place is not None:
            hours = (one.at_ms - believed.at_ms) / HOUR_MS
            if kilometres(believed.place, one.place) > 100 + 1_000 * hours:
                found.append(number)
                continue
        believed = one
    return found


def hours(payments: Sequence[Payment]) -> list[MerchantHour]:
    """What each merchant was paid by the hour, sorted."""
    cells: dict[tuple[int, str], list[Payment]] = defaultdict(list)
    for one in payments:
        cells[one.at_ms // HOUR_MS, one.merchant].append(one)
    return [
        MerchantHour(when(hour * HOUR_MS), merchant, len(some), sum(x.cents for x in some), len({x.card for x in some}))
        for (hour, merchant), some in sorted(cells.items())
    ]


def spikes(made: Sequence[MerchantHour]) -> set[tuple[str, str]]:
    """(merchant, start) of hours with more than three times the mean of the earlier ones, and more than 30 payments."""
    by_merchant: dict[str, list[MerchantHour]] = defaultdict(list)
    for one in sorted(made, key=lambda one: one.start):
        by_merchant[one.merchant].append(one)
    found = set()
    for merchant, own in by_merchant.items():
        mean = 0.0
        for at, one in enumerate(own):
            most = max(3 * mean, 30) if at >= 3 else math.inf
            if one.payments > most:
                found.add((merchant, one.start))
            mean += (1 / (at + 1) if at < 20 else 0.05) * (min(one.payments, most) - mean)
    return found
