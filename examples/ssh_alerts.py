"""Page when one address fails five SSH logins within a minute.

    kedge run examples/ssh_alerts.py --set path=/var/log/auth.log --set store=alerts.db

FileTail reads lines, ParseFailures finds the failed logins, DetectBruteForce counts them address by address, SqliteSink
stores the alerts in the table `brute_force`. `--set rate=1200` reads so many lines a second: time to watch a short log.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from ipaddress import ip_address

from bolts import Burst, CountWithin, SqliteSink
from spouts import FileTail, Line, Paced, SyslogTimes
from topology import Bolt, Record, Task, Topology

# sshd's own lines, not what quotes them. A user's name, `x from 192.0.2.1 port 22` too, is the attacker's choice: `.*`
# takes all that it can, so that the line's last `from … port …` counts.
FAILED = re.compile(
    r"(?P<time>.{15}) [^ ]+ sshd\[[0-9]+\]: (?:message repeated (?P<times>[1-9][0-9]{0,8}) times: \[ )?"
    r"Failed password for (?:invalid user )?(?P<user>.*) from (?P<address>[^ ]+) port [0-9]"
)


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


@lru_cache(maxsize=4096)  # many lines a second, and many from one address
def is_address(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


class ParseFailures(Bolt):
    """Line → Failure; other lines yield nothing. A failure at an impossible time (`Feb 30`) is rejected."""

    def __init__(self, path: str, reference: str = "", follow: bool = False) -> None:
        self.times = SyslogTimes(path, reference, follow=follow)  # `Dec 10 06:55:46`: of which year?

    def open(self, task: Task) -> None:
        self.times.open(task)

    def process(self, line: Line) -> Iterator[Failure]:
        if (match := FAILED.match(line.text)) and is_address(match["address"]):
            yield Failure(self.times.at(match["time"]), match["address"], match["user"], int(match["times"] or 1))


class DetectBruteForce(CountWithin[Failure, BruteForce]):
    """Failure → BruteForce, where an address comes to so many failures within so many seconds: one alert a burst."""

    def at(self, failure: Failure) -> datetime:
        return failure.at

    def weight(self, failure: Failure) -> int:
        return failure.count

    def raised(self, failure: Failure, burst: Burst) -> BruteForce:
        return BruteForce(failure.source_ip, burst.count, burst.first_at, burst.last_at)


def topology(
    path: str = "auth.log", store: str = "alerts.db", reference: str = "", follow: bool = False, rate: float = 0.0
) -> Topology:
    """`follow` waits for more at the file's end; `reference`, an ISO time, decides of which years the lines are."""
    topology, tail = Topology("ssh-alerts"), FileTail(path, follow=follow)
    lines = topology.spout("lines", Paced(tail, rate) if rate else tail)
    failures = topology.bolt("failures", ParseFailures(path, reference, follow), lines.shuffle())
    alerts = topology.bolt("alerts", DetectBruteForce(limit=5, within_s=60), failures.fields("source_ip"), tasks=2)
    topology.bolt("store", SqliteSink(store, records=[BruteForce]), alerts.global_())
    return topology
