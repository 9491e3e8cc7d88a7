"""Records of alerts, and how they get into a channel, for the tests of all channels."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from acker.roots import owner, pack
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.records import Record

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON_S = 30.0  # for what happens soon, on a busy machine


class Incident(Record):
    """What the channels tell of."""

    service: str
    state: str
    host: str = "db-1"
    number: int = 0
    at: datetime = NOON
    over_at: datetime | None = None


def tuples(incidents: Iterable[Record], begin: int = 1) -> list[Tuple[Any]]:
    """A tuple of each, with a message of its own, the same each time."""
    return [
        Tuple(incident, number * 2 + 1, number * 7919 + 1, pack(owner(0, 1), number, 0), (), Source("rule", "Incident"))
        for number, incident in enumerate(incidents, begin)
    ]


def many(count: int, service: str = "api", state: str = "down") -> list[Incident]:
    return [Incident(service, state, number=number) for number in range(count)]
