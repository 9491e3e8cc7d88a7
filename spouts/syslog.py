"""Syslog's times. The classic ones, `Dec 10 06:55:46`, have no year and no zone; modern ISO times have both.

Knows no file except by the time of its last change.
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
LEAP_YEARS_APART: Final = 8  # years between two leap years, at most: 1896 and 1904
HALF_A_YEAR: Final = timedelta(days=182)
CACHED_MAX: Final = 1024  # the last times that were read, as texts of 15 characters


class SyslogTimes:
    """Converts syslog times to datetimes in UTC, for one log. The bolt that parses the log keeps this object.

        def open(self, task: Task) -> None:
            self.times.open(task)

    An ISO time, `2026-11-23T21:00:00.123456+00:00`, is complete; without a zone it is taken as UTC. Classic times are
    taken as UTC, too. Their year is the latest that puts a line not after a reference.

    The reference is `reference`, an ISO time. Without it, the reference is the time of the last change of the file at
    `path` when the file was first seen. For a file that is followed it is half a year later, so years are right for
    lines of the next half year. The reference is stored in the task's notes, so that a replay, or a second run, gives
    the same years.

    `at(text)` returns the time of a text. It raises Reject for a text that is no time, and RuntimeError before `open`.
    The constructor raises ConfigurationError if `reference` is no time.
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
        """Choose the reference, if none was given; blocks for a note's fsync. Raises ConfigurationError if the file is
        missing; NotYet if it is to be followed."""
        if self.reference is None:
            self._decide(first_mtime(self.path, task.notes, follow=self.follow) + self.leeway)

    def _decide(self, reference: datetime) -> None:
        self.reference = reference
        self.at = lru_cache(CACHED_MAX)(partial(syslog_time, reference=reference))  # there may be many lines per second


def _undecided(text: str) -> Never:
    raise RuntimeError(f"of which year is {text!r}? call the `open` of SyslogTimes in the bolt's `open`")


def syslog_time(text: str, reference: datetime) -> datetime:
    """Return the time in the latest year that puts it not after `reference`; Feb 29 is in a leap year. An ISO time is
    returned as it is. Raises Reject."""
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
    """Return an ISO time; UTC if it has no zone. Raises ConfigurationError."""
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        wrong = f"reference={text!r:.80} is not a time like 2026-12-10T07:00:00"
        raise ConfigurationError(wrong, code=INVALID_SYSLOG_REFERENCE) from error
