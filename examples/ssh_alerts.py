"""Page when one address fails five SSH logins within a minute.

    kedge run examples/ssh_alerts.py --set path=/var/log/auth.log --set store=alerts.db

FileTail reads lines. ParseFailures finds the failed logins (with classic or ISO times, logged by sshd or by PAM).
DetectBruteForce counts them per address. SqliteSink stores the alerts in the table `brute_force`. `--set rate=1200`
reads that many lines per second: time to watch a short log.
"""

import os
import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from ipaddress import ip_address

from kedge import (
    Bolt,
    Burst,
    CountWithin,
    FileTail,
    Line,
    Matching,
    Notes,
    Paced,
    Print,
    Record,
    SqliteSink,
    SyslogTimes,
    Task,
    Topology,
)

# Only sshd's own lines match, not quotations of them. The attacker chooses the user's name, even `x from 192.0.2.1 port
# 22`: `.*` takes all that it can, so that the line's last `from … port …` counts.
SSHD = (
    r"(?P<time>[A-Z].{14}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}(?:Z|[-+][0-9:]{5})?) "  # classic, or ISO (RFC 5424)
    r"[^ ]+ sshd(?:-session|-auth)?\[[0-9]+\]: "  # OpenSSH 9.8 and newer has a program for each session
)
FAILED = re.compile(
    SSHD + r"(?:message repeated (?P<times>[1-9][0-9]{0,8}) times: \[ )?"
    r"Failed (?:password|keyboard-interactive/pam) for (?:invalid user )?"
    r"(?P<user>.*) from (?P<address>[^ ]+) port [0-9]"
)
PAM = re.compile(
    SSHD
    + r"(?:pam_unix\(sshd:auth\): authentication failure|PAM (?P<times>[1-9][0-9]{0,8}) more authentication failures?)"
    r"; logname=[^ ]* uid=[0-9]+ euid=[0-9]+ tty=[^ ]* ruser=[^ ]* rhost=(?P<address>[^ ]+)(?: +user=(?P<user>.*))?"
)
LOOKED_AT = 4 << 20  # bytes of the log's beginning that decide which lines count


def counts_pam(path: str, notes: Notes) -> bool:
    """Return True if PAM's lines are the failures to count: only if sshd itself logs none.

    In most logs one failure has a line of PAM's and one of sshd's. Counting both would double it, and matching them
    needs memory that a replay does not have. So the log's beginning decides, once. The decision is noted, so that a
    replay or a second run counts the same lines.
    """
    name = f"PAM's lines count in {os.path.realpath(path)}"
    if (noted := notes.get(name)) is not None:
        return noted == "yes"
    try:
        with open(path, errors="replace") as file:
            lines = file.read(LOOKED_AT).splitlines()
    except OSError:  # the lines come from another source than a file
        return False
    counts = any(map(PAM.match, lines))
    if counts or any(map(FAILED.match, lines)):  # otherwise nothing is known yet, and the next run looks again
        counts = counts and not any(map(FAILED.match, lines))
        notes.set(name, "yes" if counts else "no")
    return counts


class Failure(Record):
    """One line of rejected logins; `count` is above 1 if syslog folded a repeated message."""

    at: datetime  # UTC, from the line
    source_ip: str  # IPv4 or IPv6, as sshd writes it
    user: str
    count: int


class BruteForce(Record):
    """An address that kept failing: the number of failures within the last minute, and the first and last time."""

    source_ip: str
    failures: int
    first_at: datetime
    last_at: datetime

    def __str__(self) -> str:
        return f"alert: {self.source_ip} has failed {self.failures} times, {self.first_at} to {self.last_at:%H:%M:%S}"


@lru_cache(maxsize=4096)  # many lines a second, and many from one address
def is_address(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


class ParseFailures(Bolt):
    """Line → Failure; other lines yield nothing. A failure at an impossible time (`Feb 30`) is rejected."""

    def __init__(self, path: str, reference: str = "", follow: bool = False) -> None:
        self.path = path
        self.times = SyslogTimes(path, reference, follow=follow)  # `Dec 10 06:55:46` names no year
        self.failed = FAILED
        self.matching = Matching("failed logins")

    def open(self, task: Task) -> None:
        self.times.open(task)
        self.failed = PAM if counts_pam(self.path, task.notes) else FAILED

    def process(self, line: Line) -> Iterator[Failure]:
        match = self.failed.match(line.text)
        if self.matching.seen(match, line.text) and match and is_address(match["address"]):
            user = match["user"] or ""  # PAM names no user that the machine does not have
            yield Failure(self.times.at(match["time"]), match["address"], user, int(match["times"] or 1))

    def close(self) -> None:
        self.matching.end()


class DetectBruteForce(CountWithin[Failure, BruteForce]):
    """Failure → BruteForce when an address reaches the limit of failures within the time: one alert per burst."""

    def at(self, failure: Failure) -> datetime:
        return failure.at

    def weight(self, failure: Failure) -> int:
        return failure.count

    def raised(self, failure: Failure, burst: Burst) -> BruteForce:
        return BruteForce(failure.source_ip, burst.count, burst.first_at, burst.last_at)


def topology(
    path: str = "auth.log",
    store: str = "alerts.db",
    reference: str = "",
    follow: bool = False,
    rate: float = 0.0,
    show: bool = False,
) -> Topology:
    """`follow` waits for more at the file's end; `reference`, an ISO time, decides the year of the lines; `show` prints
    alerts as they come."""
    topology, tail = Topology("ssh-alerts"), FileTail(path, follow=follow)
    lines = topology.spout("lines", Paced(tail, rate) if rate else tail)
    failures = topology.bolt("failures", ParseFailures(path, reference, follow), lines.shuffle())
    alerts = topology.bolt("alerts", DetectBruteForce(limit=5, within_s=60), failures.fields("source_ip"), tasks=2)
    topology.bolt("store", SqliteSink(store, records=[BruteForce]), alerts.global_())
    if show:
        topology.bolt("show", Print(), alerts.global_())
    return topology
