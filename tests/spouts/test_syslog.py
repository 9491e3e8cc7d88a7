"""SyslogTimes: the year that syslog leaves out, decided once. What FileTail and notes promise is in their own tests."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from source_kit import make_task

from spouts import SyslogTimes
from spouts.syslog import HALF_A_YEAR, syslog_time, utc_time
from topology import ConfigurationError, Reject
from topology.storage.directory.state_dir import MemoryNotes

REFERENCE = datetime(2026, 3, 1, 12, tzinfo=UTC)


def file_of(path: Path, mtime: datetime) -> Path:
    path.touch()
    os.utime(path, (mtime.timestamp(), mtime.timestamp()))
    return path


@pytest.mark.parametrize(
    "text",
    [
        *("Feb 30 12:00:00", "Dec 10 24:00:00", "Dec 10 06:60:00", "Dec  0 06:55:46", "Dez 10 06:55:46"),
        *("Dec 1x 06:55:46", "Dec 10 06:55:46 ", "Dec 10 06:55:46\n", "dec 10 06:55:46", "Dec ١0 06:55:46", ""),
    ],
)
def test_what_is_no_time_in_any_year_is_rejected_with_its_text(text: str) -> None:
    with pytest.raises(Reject, match="is not a time like 'Dec 10 06:55:46'") as rejected:
        syslog_time(text, REFERENCE)
    assert repr(text) in str(rejected.value)


async def test_a_log_that_is_not_there_is_a_configuration_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no-such\.log"):
        SyslogTimes(tmp_path / "no-such.log").open(make_task())


def test_asked_before_it_was_opened_it_says_what_to_call() -> None:
    with pytest.raises(RuntimeError, match="of which year is 'Dec 10 06:55:46'"):
        SyslogTimes("auth.log").at("Dec 10 06:55:46")


@pytest.mark.parametrize(
    ("text", "reference", "year"),
    [
        ("Dec 10 06:55:46", datetime(2026, 12, 10, 6, 55, 46, tzinfo=UTC), 2026),  # not after: equal is fine
        ("Dec 10 06:55:46", datetime(2026, 12, 10, 6, 55, 45, 999_999, tzinfo=UTC), 2025),
        ("Dec 31 23:59:59", datetime(2026, 1, 1, tzinfo=UTC), 2025),
        ("Jan  1 00:00:00", datetime(2026, 1, 1, tzinfo=UTC), 2026),
        ("Jan 01 00:00:00", datetime(2026, 1, 1, tzinfo=UTC), 2026),
        ("Feb 29 12:00:00", datetime(2026, 3, 1, tzinfo=UTC), 2024),
        ("Feb 29 12:00:00", datetime(2024, 2, 29, 11, tzinfo=UTC), 2020),
        ("Feb 29 12:00:00", datetime(1904, 2, 28, tzinfo=UTC), 1896),  # 1900 was no leap year
    ],
)
def test_a_time_gets_the_latest_year_that_is_not_after_the_reference(text: str, reference: datetime, year: int) -> None:
    found = syslog_time(text, reference)
    assert found.year == year
    assert (f"{found:%b %d %H:%M:%S}", found.tzinfo) == (text.replace("  ", " 0"), UTC)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-12-10T07:00:00", datetime(2026, 12, 10, 7, tzinfo=UTC)),
        ("2026-12-10", datetime(2026, 12, 10, tzinfo=UTC)),
        ("2026-12-10T07:00:00+02:00", datetime(2026, 12, 10, 5, tzinfo=UTC)),
    ],
)
def test_the_reference_is_an_iso_time_in_utc_unless_it_says_otherwise(text: str, utc: datetime) -> None:
    assert utc_time(text) == utc


@pytest.mark.parametrize("text", ["yesterday", "2026-02-30", "0001-01-01T00:00:00+02:00", "1772370000"])
def test_a_reference_that_is_no_time_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{text[:9]}.* is not a time like 2026-"):
        SyslogTimes("unused.log", text)


def test_with_a_reference_given_no_file_is_looked_at() -> None:
    assert SyslogTimes("no-such.log", "2026-03-01").at("Dec 10 06:55:46").year == 2025


async def test_without_one_the_reference_is_the_mtime_when_the_file_was_first_seen(tmp_path: Path) -> None:
    notes, log = MemoryNotes(), file_of(tmp_path / "auth.log", REFERENCE)
    for mtime in (REFERENCE, REFERENCE + timedelta(days=800)):
        times = SyslogTimes(file_of(log, mtime))
        times.open(make_task(notes))
        assert times.reference == REFERENCE


async def test_a_followed_file_may_have_lines_of_half_a_year_to_come(tmp_path: Path) -> None:
    times = SyslogTimes(file_of(tmp_path / "auth.log", REFERENCE), follow=True)
    times.open(make_task())
    assert times.reference == REFERENCE + HALF_A_YEAR
    assert [times.at(f"{month}  2 00:00:00").year for month in ("Mar", "Aug", "Sep")] == [2026, 2026, 2025]
