"""The work itself, as plain functions and values that every peer's scripts share: only the framework differs.

Word count and SSH alerts are those of `examples/word_count.py` and `examples/ssh_alerts.py`, written again without
Kedge, since a peer's environment has none. Needs only msgspec, with which all peers write their JSON, as Kedge does.
"""

import re
from collections import deque
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address

import msgspec

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
FAILED = re.compile(
    r"(?P<time>.{15}) [^ ]+ sshd\[[0-9]+\]: (?:message repeated (?P<times>[1-9][0-9]{0,8}) times: \[ )?"
    r"Failed password for (?:invalid user )?(?P<user>.*) from (?P<address>[^ ]+) port [0-9]"
)
YEAR = 2025  # of the lines, because syslog writes no year
LIMIT = 5  # failures within SPAN are a burst
SPAN = timedelta(seconds=60)

to_json = msgspec.json.Encoder().encode


class Text(msgspec.Struct):
    """A line without its line end."""

    text: str


class Count(msgspec.Struct):
    """The final count of a word."""

    word: str
    times: int


class Failure(msgspec.Struct):
    """One line of rejected logins."""

    source_ip: str
    at: datetime
    count: int


class BruteForce(msgspec.Struct):
    """An address that kept failing: the number of failures within the span, and the first and last time."""

    source_ip: str
    failures: int
    first_at: datetime
    last_at: datetime


def words(line: str) -> list[str]:
    """The words of a line, in small letters."""
    return WORD.findall(line.lower())


def failure(line: str) -> Failure | None:
    """Return the failed login of a line; None for other lines."""
    if (match := FAILED.match(line)) and is_address(match["address"]):
        return Failure(match["address"], at(match["time"]), int(match["times"] or 1))
    return None


@lru_cache(maxsize=4096)
def is_address(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def at(text: str) -> datetime:
    """The time of a line, `Dec 10 06:55:46`, as UTC."""
    return datetime.strptime(f"{YEAR} {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)


class Attempts:
    """The failures of one address within the span, in the order of their times."""

    def __init__(self) -> None:
        self.events: deque[Failure] = deque()
        self.total = 0
        self.is_on = False  # True while a burst is on

    def add(self, failure: Failure) -> BruteForce | None:
        """Add a failure; return the burst that begins with it, or None."""
        self.events.append(failure)
        self.total += failure.count
        while self.events[0].at < failure.at - SPAN:
            self.total -= self.events.popleft().count
        was_on, self.is_on = self.is_on, self.total >= LIMIT
        if not self.is_on or was_on:
            # only the newest failures decide whether the burst continues
            while self.total - self.events[0].count >= LIMIT:
                self.total -= self.events.popleft().count
            return None
        return BruteForce(failure.source_ip, self.total, self.events[0].at, failure.at)
