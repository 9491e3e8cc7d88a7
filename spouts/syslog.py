"""Syslog's times: the classic ones, `Dec 10 06:55:46`, have no year and no zone; ISO times of today have both.

Knows no file but by the time of its last change.
"""

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Final, Never

from spouts.file_tail.spout import first_mtime
from topology.codes.settings import INVALID_SYSLOG_REFERENCE
from topology.components import Task
from topology.errors import ConfigurationError, Reject

TIME: Final = re.compile(r"([A-Z][a-z]{2}) ([ 0-9][0-9]) ([0-9]{2}):([0-9]{2}):([0-9]{2})", re.ASCII)
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
LEAP_YEARS_APART: Final = 8  # at most: 1896 and 1904
HALF_A_YEAR: Final = timedelta(days=182)
CACHED_MAX: Final = 1024  # times that were read last, as texts of 15 characters


class SyslogTimes:
    """Turns such times into datetimes in UTC, for one log; to be kept by the bolt that parses it.

    An ISO time, `2026-11-23T21:00:00.123456+00:00`, says all by itself; without a zone it is taken as UTC. The others
    are taken as UTC, too, and their year is found so:

    The year is the latest that puts a line not after a reference. That is `reference`, an ISO time, or without one when
    the file at `path` was last changed, as first seen, and half a year later where it is followed: so years are right
    for lines of half a year to come. It is noted, so that a replay, or a second run, gives the same years.

        def open(self, task: Task) -> None:
            self.times.open(task)

    `at(text)` is the time that a text says; it raises Reject where that says none, RuntimeError before `open` has
    decided. Raises ConfigurationError where `reference` is no time.
    """

    def __init__(self, path: str | os.PathLike[str], reference: str = "", *, follow: bool = False) -> None:
        self.path = os.fspath(path)
        self.follow = follow
        self.leeway = HALF_A_YEAR if follow else timedelta(0)
        self.reference: datetime | None = None
        self.at: Callable[[str], datetime] = _undecided
        if reference:
            self._decide(utc_time(reference))

    def open(self, task: Task) -> None:
        """Decides the reference, where none was given; blocks for a note's fsync. Raises ConfigurationError where the
        file is missing; NotYet where it is to be followed."""
        if self.reference is None:
            self._decide(first_mtime(self.path, task.notes, follow=self.follow) + self.leeway)

    def _decide(self, reference: datetime) -> None:
        self.reference = reference
        self.at = lru_cache(CACHED_MAX)(partial(syslog_time, reference=reference))  # lines come many a second


def _undecided(text: str) -> Never:
    raise RuntimeError(f"of which year is {text!r}? call the `open` of SyslogTimes in the bolt's `open`")


def syslog_time(text: str, reference: datetime) -> datetime:
    """The time in the latest year that puts it not after `reference`; Feb 29 is in a leap year. An ISO time is what it
    says. Raises Reject."""
    if text[:4].isdecimal():
        return _iso_time(text)
    if (match := TIME.fullmatch(text)) and match[1] in MONTHS:
        month, (day, hour, minute, second) = MONTHS.index(match[1]) + 1, map(int, match.groups()[1:])
        for year in range(reference.year, reference.year - LEAP_YEARS_APART - 1, -1):
            try:
                at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
            except ValueError:
                continue  # Feb 29 in this year, or a time that no year has
            if at <= reference:
                return at
    raise Reject(f"{text!r} is not a time like 'Dec 10 06:55:46' or '2026-12-10T06:55:46+00:00'")


def _iso_time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Reject(f"{text!r} is not a time like '2026-12-10T06:55:46+00:00'") from None


def utc_time(text: str) -> datetime:
    """An ISO time, UTC unless it says otherwise. Raises ConfigurationError."""
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        wrong = f"reference={text!r:.80} is not a time like 2026-12-10T07:00:00"
        raise ConfigurationError(wrong, code=INVALID_SYSLOG_REFERENCE) from error
