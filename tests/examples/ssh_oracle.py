"""The alerts that an sshd log ought to give, computed in another way than `examples/ssh_alerts.py` does it.

Plain Python over the whole file: no topology, no regular expression, nothing pruned, nothing imported from the example.
"""

import socket
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from typing import NamedTuple

MINUTE = timedelta(seconds=60)
LIMIT = 5


class Alert(NamedTuple):
    """One expected row of `brute_force`."""

    source_ip: str
    failures: int
    first_at: datetime
    last_at: datetime


@dataclass
class Expected:
    """What a whole log gives: alerts in the order of its lines, and the failure lines whose time is impossible."""

    alerts: list[Alert] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    failures: int = 0  # failed logins, repeated ones included


def expected_of_file(data: bytes, reference: datetime) -> Expected:
    """Of a file's bytes, with line ends LF or CRLF."""
    lines = [line.removesuffix(b"\r").decode(errors="replace") for line in data.split(b"\n")]
    return expected(lines, reference)


def expected(lines: list[str], reference: datetime) -> Expected:
    """Of lines without line ends, whose years are the latest that put them not after `reference`.

    The last minute ends with the address's newest failure so far. Those that are over a minute older are counted apart,
    as if they were another address's; one that is over a minute older than these starts them afresh.
    """
    result = Expected()
    seen: dict[tuple[str, bool], list[tuple[datetime, float]]] = {}  # address, whether apart → (time, failures), sorted
    then: dict[tuple[str, bool], float] = {}  # address, whether apart → the count at its failure before
    for line in lines:
        found = failure_in(line)
        if found is None:
            continue
        address, count = found
        at = year_found(line[:15], reference)
        if at is None:
            result.rejected.append(line)
            continue
        result.failures += count
        which = address, False
        if which in seen and at < seen[which][-1][0] - MINUTE:
            which = address, True  # the clock was set back
            if which in seen and at < seen[which][-1][0] - MINUTE:
                del seen[which], then[which]
        times = seen.setdefault(which, [])
        insort(times, (at, count))
        window = times[bisect_left(times, (times[-1][0] - MINUTE, -inf)) :]
        total = sum(number for _, number in window)
        if total >= LIMIT and then.get(which, 0) < LIMIT:
            result.alerts.append(Alert(address, int(total), window[0][0], window[-1][0]))
        then[which] = total
    return result


def failure_in(line: str) -> tuple[str, int] | None:
    """The address and the number of failures of a failure line; None for any other line."""
    if len(line) < 16 or line[15] != " ":
        return None
    words = line[16:].split(" ", 2)
    if len(words) < 3 or not words[0] or not _is_sshd(words[1]):
        return None
    message, count = words[2], 1
    if message.startswith("message repeated "):
        number, _, message = message.removeprefix("message repeated ").partition(" times: [ ")
        if not _all_digits(number) or number[0] == "0" or len(number) > 9:
            return None
        count = int(number)
    if not message.startswith("Failed password for "):
        return None
    address = _last_address(message.removeprefix("Failed password for "))
    return (address, count) if address is not None else None


def _is_sshd(program: str) -> bool:
    return program.startswith("sshd[") and program.endswith("]:") and _all_digits(program[5:-2])


def _all_digits(text: str) -> bool:
    return text != "" and all(letter in "0123456789" for letter in text)


def _last_address(text: str) -> str | None:
    """ADDRESS of the last `from ADDRESS port N`, searched from the right; None where that isn't an address."""
    end = len(text)
    while (port := text.rfind(" port ", 0, end)) >= 0:
        number = text[port + 6 : port + 7]
        _, found, word = text[:port].rpartition(" from ")
        if found and word and " " not in word and _all_digits(number):
            return word if _is_address(word) else None
        end = port + 5
    return None


def _is_address(word: str) -> bool:
    bare, scoped, zone = word.partition("%")
    for family in (socket.AF_INET, socket.AF_INET6):
        if scoped and (family == socket.AF_INET or not zone or "%" in zone):
            continue
        try:
            socket.inet_pton(family, bare)
        except (OSError, ValueError):
            continue
        return True
    return False


def year_found(text: str, reference: datetime) -> datetime | None:
    """The latest of all years' times that is not after the reference; None where no year has that time."""
    fitting = []
    for year in range(reference.year - 12, reference.year + 1):
        try:
            at = datetime.strptime(f"{year} {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            continue
        if at <= reference and text in (f"{at:%b} {at.day:2} {at:%H:%M:%S}", f"{at:%b %d %H:%M:%S}"):
            fitting.append(at)
    return max(fitting, default=None)
