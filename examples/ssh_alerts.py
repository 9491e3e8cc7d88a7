"""Page when one address fails five SSH logins within a minute.

    kedge run examples/ssh_alerts.py --set path=/var/log/auth.log --set store=alerts.db

FileTail reads lines, ParseFailures finds the failed logins, DetectBruteForce counts them address by address, SqliteSink
stores the alerts in the table `brute_force`. It reads syslog's classic times (`Dec 10 06:55:46`), taken as UTC.
`--set rate=1200` reads at most so many lines a second, so that a short log gives time to watch.
"""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address

from bolts import SqliteSink
from spouts import FileTail, Line, first_mtime
from topology import Bolt, ConfigurationError, Message, Record, Reject, State, Task, Topology

# Anchored to the line's start: the program has to be sshd, not one that quotes it. The user's name is the attacker's
# choice, `x from 192.0.2.1 port 22` too; `.*` takes all that it can, so that the line's last `from … port …` counts.
FAILED = re.compile(
    r"(?P<time>.{15}) [^ ]+ sshd\[[0-9]+\]: "
    r"(?:message repeated (?P<times>[1-9][0-9]{0,8}) times: \[ )?"
    r"Failed password for (?:invalid user )?(?P<user>.*) from (?P<address>[^ ]+) port [0-9]"
)
SYSLOG_TIME = re.compile(r"([A-Z][a-z]{2}) ([ 0-9][0-9]) ([0-9]{2}):([0-9]{2}):([0-9]{2})")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
HALF_A_YEAR = timedelta(days=182)
CATCH_UP_S = 0.1  # of lines that a paced source may read faster, after it could not


class Failure(Record):
    """One line of rejected logins: `count` of them at once where syslog folded a repeated message."""

    at: datetime  # UTC, from the line
    source_ip: str  # IPv4 or IPv6, as sshd writes it
    user: str
    count: int


class BruteForce(Record):
    """An address that kept failing: how often within the last minute, and when first and last."""

    source_ip: str
    failures: int
    first_at: datetime
    last_at: datetime


class PacedTail(FileTail):
    """A FileTail of at most `rate` lines a second. Raises ConfigurationError."""

    def __init__(self, path: str, rate: float, *, follow: bool = False) -> None:
        super().__init__(path, follow=follow)
        if not 0 < rate < float("inf"):
            raise ConfigurationError(f"rate is a number of lines a second, 0 for as fast as they come, not {rate:g}")
        self.rate = rate
        self.next_at = 0.0  # when the next line may be read, in seconds of the loop

    async def poll(self, limit: int) -> list[Message[Line]]:
        """As FileTail's, and waits for the next line's time first; lines of 10 ms come together."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self.next_at - loop.time())
        lines = await super().poll(min(limit, max(1, int(self.rate / 100))))
        self.next_at = max(self.next_at, loop.time() - CATCH_UP_S) + len(lines) / self.rate
        return lines


class ParseFailures(Bolt):
    """Line → Failure; other lines yield nothing. A failure at an impossible time (`Feb 30`) is rejected.

    Syslog's times have no year: it is the latest that puts a line not after `reference`, an ISO time. Without one that
    is when the file was last changed, as first seen, `leeway` later; it is kept, so that a replay gives the same years.
    """

    def __init__(self, path: str, reference: str = "", leeway: timedelta = timedelta(0)) -> None:
        self.path, self.leeway = path, leeway
        self.reference = utc_time(reference) if reference else None

    def open(self, task: Task) -> None:
        if self.reference is None:
            self.reference = first_mtime(self.path, task.notes) + self.leeway

    def process(self, line: Line) -> Iterator[Failure]:
        match = FAILED.match(line.text)
        if match and is_address(match["address"]):
            assert self.reference is not None  # since `open`
            at = syslog_time(match["time"], self.reference)
            yield Failure(at, match["address"], match["user"], int(match["times"] or 1))


class DetectBruteForce(Bolt):
    """Failure → BruteForce, where an address comes to `limit` failures or more within `within_s` seconds, inclusive.

    It alerts once, and anew where the count was below the limit at the failure before. The seconds end with the newest
    failure, so that lines which swapped places count all the same. An address's state is what was counted: the failures
    at each time. A line older than all of that says that the clock was set back, and counting begins anew.
    """

    def __init__(self, limit: int = 5, within_s: float = 60.0) -> None:
        self.limit, self.within = limit, timedelta(seconds=within_s)

    def process(self, failure: Failure, state: State[tuple[tuple[datetime, int], ...]]) -> Iterator[BruteForce]:
        before = dict(state.get(()))
        newest = max(before, default=failure.at)
        if not newest - self.within <= failure.at <= newest:
            newest = failure.at
        counted = {at: count for at, count in before.items() if newest - self.within <= at <= newest}
        counted[failure.at] = counted.get(failure.at, 0) + failure.count
        state.set(tuple(counted.items()))
        failures = sum(counted.values())
        if failures >= self.limit > sum(before.values()):
            yield BruteForce(failure.source_ip, failures, first_at=min(counted), last_at=max(counted))


def topology(
    path: str = "auth.log", store: str = "alerts.db", reference: str = "", follow: bool = False, rate: float = 0.0
) -> Topology:
    """Ends at the file's end, or with `follow` waits for more, and then years are right for lines of half a year.
    `rate`: lines a second that are read at most; 0: as many as can be."""
    topology = Topology("ssh-alerts")
    source = PacedTail(path, rate, follow=follow) if rate else FileTail(path, follow=follow)
    lines = topology.spout("lines", source)
    parse = ParseFailures(path, reference, leeway=HALF_A_YEAR if follow else timedelta(0))
    failures = topology.bolt("failures", parse, lines.shuffle())
    alerts = topology.bolt("alerts", DetectBruteForce(), failures.fields("source_ip"), tasks=2)
    topology.bolt("store", SqliteSink(store, records=[BruteForce]), alerts.global_())
    return topology


@lru_cache(maxsize=1024)  # lines come many a second
def syslog_time(text: str, reference: datetime) -> datetime:
    """The time in the latest year that puts it not after `reference`; Feb 29 is in a leap year. Raises Reject."""
    if (match := SYSLOG_TIME.fullmatch(text)) and match[1] in MONTHS:
        month, (day, hour, minute, second) = MONTHS.index(match[1]) + 1, map(int, match.groups()[1:])
        for year in range(reference.year, reference.year - 9, -1):  # leap years are at most eight apart
            try:
                at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
            except ValueError:
                continue  # Feb 29 in this year, or a time that no year has
            if at <= reference:
                return at
    raise Reject(f"a failed login at {text!r}, which is not a time")


def utc_time(text: str) -> datetime:
    """An ISO time, UTC unless it says otherwise. Raises ConfigurationError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"reference={text!r} is not a time like 2026-12-10T07:00:00") from error
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


@lru_cache(maxsize=4096)  # and many from one address
def is_address(text: str) -> bool:
    """Whether it is an IPv4 or IPv6 address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
