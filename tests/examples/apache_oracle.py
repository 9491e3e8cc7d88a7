"""The bursts that an Apache error log ought to give, computed in another way than `examples/apache_errors.py` does it.

Plain Python over the whole log: no topology, no regular expression, no state; first all errors of each client, then cut
where it was quiet, then searched. Nothing is imported from the example.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class Told(NamedTuple):
    """A row of `burst` or `burst_over`."""

    client: str
    errors: int
    first_at: datetime
    last_at: datetime


class Expected(NamedTuple):
    """Of a whole log, each sorted; `errors` is the number of its error lines."""

    bursts: list[Told]
    over: list[Told]
    errors: int


def expected(lines: list[str], limit: int = 5, within_s: float = 60.0) -> Expected:
    """Of lines without line ends, in the order of the log."""
    clients: dict[str, list[datetime]] = {}
    for line in lines:
        if (found := error_in(line)) is not None:
            clients.setdefault(found[0], []).append(found[1])
    within = timedelta(seconds=within_s)
    bursts: list[Told] = []
    over: list[Told] = []
    for client, times in clients.items():
        spells = list(_spells(times, within))
        for number, spell in enumerate(spells):
            if (first := _burst(spell, limit, within)) is not None:
                bursts.append(Told(client, limit, *first))
                if number + 1 < len(spells):
                    over.append(Told(client, len(spell), min(spell), max(spell)))
    return Expected(sorted(bursts), sorted(over), sum(map(len, clients.values())))


def _spells(times: list[datetime], within: timedelta) -> Iterator[list[datetime]]:
    """Cut before each error that is further than `within` from the newest of its spell."""
    while times:
        newest = list(accumulate(times, max))
        cuts = (n for n in range(1, len(times)) if not -within <= times[n] - newest[n - 1] <= within)
        cut = next(cuts, len(times))
        yield times[:cut]
        times = times[cut:]


def _burst(spell: list[datetime], limit: int, within: timedelta) -> tuple[datetime, datetime] | None:
    """The first and last of the newest `limit` errors, when those first lay within the time."""
    for end in range(limit, len(spell) + 1):
        newest = sorted(spell[:end])[end - limit :]
        if newest[-1] - newest[0] <= within:
            return newest[0], newest[-1]
    return None


def error_in(line: str) -> tuple[str, datetime] | None:
    """The client and the time of an error line; None for any other, also at an impossible time."""
    head, closed, rest = line.partition("] [")
    level, closed_too, rest = rest.partition("]")
    if not head.startswith("[") or not closed or not closed_too or level.rpartition(":")[2] != "error":
        return None
    words = head[1:].split()
    if len(words) != 5:
        return None
    _, month, day, clock, year = words
    try:
        hour, minute, second = clock.partition(".")[0].split(":")
        at = datetime(int(year), MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        return None
    rest, ported = rest.removeprefix(" "), False
    if rest.startswith("[pid "):
        rest, ported = rest[rest.index("] ") + 2 :], True
    if rest.startswith("("):  # an error of the system
        rest = rest[rest.find("[") :]
    if not rest.startswith("[client "):
        return "server", at
    client = rest.removeprefix("[client ").partition("]")[0]
    return client.rpartition(":")[0] if ported else client, at
