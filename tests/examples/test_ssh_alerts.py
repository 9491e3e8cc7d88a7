"""The SSH example end to end: a file through the whole topology into a store, compared with `ssh_oracle`."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ssh_oracle import Alert, expected, expected_of_file

from bolts import SqliteSink
from examples.auth_log import auth_log, write
from examples.ssh_alerts import DetectBruteForce, Failure, ParseFailures, topology
from spouts import FileTail
from topology import Bolt, ConfigurationError, Topology
from topology.testing import run_topology

REAL_LOG = Path(__file__).parents[2] / "../shared/data/loghub/OpenSSH_2k.log"
REFERENCE = datetime(2026, 3, 1, 12, tzinfo=UTC)


def stored(store: Path) -> list[Alert]:
    """The rows of the table `brute_force`, sorted."""
    with closing(sqlite3.connect(store)) as database:
        rows = database.execute("SELECT source_ip, failures, first_at, last_at FROM brute_force").fetchall()
    times = datetime.fromisoformat
    return sorted(Alert(address, count, times(first), times(last)) for address, count, first, last in rows)


def written(path: Path, lines: Sequence[str], mtime: datetime = REFERENCE) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, (mtime.timestamp(), mtime.timestamp()))
    return path


def failed(time: str, address: str = "198.51.100.7") -> str:
    return f"{time} gate sshd[7]: Failed password for root from {address} port 22 ssh2"


def run(path: Path, tmp_path: Path, **settings: Any) -> int:
    """Runs the example over a file into `alerts.db`; gives the exit status."""
    report = topology(path=str(path), store=str(tmp_path / "alerts.db"), **settings).run(state_dir=tmp_path / "state")
    return report.exit_status


@pytest.mark.skipif(not REAL_LOG.exists(), reason="the real sshd log, ../shared/data/loghub, is not here")
def test_the_alerts_of_a_real_log_are_just_those_of_the_oracle(tmp_path: Path) -> None:
    log = tmp_path / "auth.log"
    shutil.copy2(REAL_LOG, log)
    mtime = datetime.fromtimestamp(log.stat().st_mtime, UTC)
    alerts = expected_of_file(log.read_bytes(), mtime).alerts
    assert run(log, tmp_path) == 0
    assert stored(tmp_path / "alerts.db") == sorted(alerts)
    assert len(alerts) == 13


def test_the_attacks_of_a_made_log_are_all_alerted_and_nothing_else(tmp_path: Path) -> None:
    log = auth_log(seed=11, count=8_000)
    write(log, tmp_path / "auth.log")
    assert run(tmp_path / "auth.log", tmp_path) == 0
    attacks = [Alert(a.source_ip, a.failures, a.first_at, a.last_at) for a in log.attacks]
    assert stored(tmp_path / "alerts.db") == sorted(attacks)


def test_a_second_run_over_the_same_file_stores_no_alert_twice(tmp_path: Path) -> None:
    lines = [failed(f"Feb  1 06:00:0{second}") for second in range(6)]
    log = written(tmp_path / "auth.log", lines)
    for _ in range(2):
        assert run(log, tmp_path) == 0
    assert stored(tmp_path / "alerts.db") == expected(lines, REFERENCE).alerts


def test_the_year_is_decided_once_by_the_mtime_when_the_file_was_first_seen(tmp_path: Path) -> None:
    lines = [failed(f"Feb  1 06:00:0{second}") for second in range(6)]
    log = written(tmp_path / "auth.log", lines, datetime(2024, 12, 1, tzinfo=UTC))
    assert run(log, tmp_path) == 0
    later = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    os.utime(log, (later, later))
    assert run(log, tmp_path) == 0
    assert [alert.last_at.year for alert in stored(tmp_path / "alerts.db")] == [2024]


def test_a_reference_given_goes_before_the_mtime(tmp_path: Path) -> None:
    log = written(tmp_path / "auth.log", [failed("Feb 29 06:00:00")] * 5)
    assert run(log, tmp_path, reference="2023-06-01") == 0
    assert [alert.last_at.year for alert in stored(tmp_path / "alerts.db")] == [2020]


def test_a_line_at_an_impossible_time_ends_dead_and_the_rest_is_detected_all_the_same(tmp_path: Path) -> None:
    lines = [failed(f"Feb  1 06:00:0{second}") for second in range(6)]
    lines[2:2] = [failed("Feb 30 06:00:02")]
    assert run(written(tmp_path / "auth.log", lines), tmp_path) == 1
    assert stored(tmp_path / "alerts.db") == expected(lines, REFERENCE).alerts


def test_a_log_without_attacks_leaves_an_empty_table(tmp_path: Path) -> None:
    assert run(written(tmp_path / "auth.log", [failed("Feb  1 06:00:00")] * 4), tmp_path) == 0
    assert stored(tmp_path / "alerts.db") == []


def test_lines_that_are_not_utf_8_or_not_ended_are_counted_too(tmp_path: Path) -> None:
    line = "Feb  1 06:00:00 gate sshd[7]: Failed password for invalid user \xff\0 from 198.51.100.7 port 22 ssh2"
    log = tmp_path / "auth.log"
    log.write_bytes("\r\n".join([line] * 5).encode("latin-1"))
    assert run(log, tmp_path, reference="2026-03-01") == 0
    at = datetime(2026, 2, 1, 6, tzinfo=UTC)
    assert stored(tmp_path / "alerts.db") == [Alert("198.51.100.7", 5, at, at)]


async def test_a_followed_log_gets_its_years_right_across_new_year_and_past_its_first_mtime(tmp_path: Path) -> None:
    other = [failed("Dec 31 23:59:00", "2001:db8::7")] * 5
    lines = [*other, *[failed("Dec 31 23:59:58")] * 3]
    log = written(tmp_path / "auth.log", lines, mtime=datetime(2026, 1, 1, tzinfo=UTC))
    stop = asyncio.Event()
    example = topology(path=str(log), store=str(tmp_path / "alerts.db"), follow=True)
    running = asyncio.create_task(example.serve(state_dir=tmp_path / "state", stop=stop.wait()))
    async with asyncio.timeout(30):
        await _has_rows(tmp_path / "alerts.db", 1)
        with log.open("a") as file:
            file.write(failed("Jan  1 00:00:07") + "\n" + failed("Jan  1 00:00:08") + "\n")
        await _has_rows(tmp_path / "alerts.db", 2)
        stop.set()
        report = await running
    assert report.exit_status == 0
    first, last = datetime(2025, 12, 31, 23, 59, 58, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 8, tzinfo=UTC)
    at = datetime(2025, 12, 31, 23, 59, tzinfo=UTC)
    assert stored(tmp_path / "alerts.db") == [Alert("198.51.100.7", 5, first, last), Alert("2001:db8::7", 5, at, at)]


async def _has_rows(store: Path, count: int) -> None:
    """Waits until there are that many alerts."""
    while _rows(store) < count:  # noqa: ASYNC110 - a commit in a database sets no event here
        await asyncio.sleep(0.01)


def _rows(store: Path) -> int:
    try:
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM brute_force").fetchone()[0])
    except sqlite3.OperationalError:  # no file or no table yet
        return 0


def test_a_missing_file_is_a_configuration_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no-such\.log"):
        run(tmp_path / "no-such.log", tmp_path)


class FailsOnce(Bolt):
    """Stands beside the detector and fails each failed login the first time, so that every one is replayed."""

    def __init__(self) -> None:
        self.seen: set[Failure] = set()

    def process(self, failure: Failure) -> None:
        if failure not in self.seen:
            self.seen.add(failure)
            raise RuntimeError("the first time always fails")


def test_b4_alerts_are_exact_although_every_failure_is_replayed(tmp_path: Path) -> None:
    log = auth_log(seed=5, count=1_600)
    write(log, tmp_path / "auth.log")
    replayed = Topology("replayed")
    lines = replayed.spout("lines", FileTail(tmp_path / "auth.log"))
    failures = replayed.bolt("failures", ParseFailures(str(tmp_path / "auth.log")), lines.shuffle())
    alerts = replayed.bolt("alerts", DetectBruteForce(limit=5, within_s=60), failures.fields("source_ip"), tasks=2)
    replayed.bolt("fails-once", FailsOnce(), failures.global_())
    replayed.bolt("store", SqliteSink(tmp_path / "alerts.db"), alerts.global_())
    report = replayed.run(state_dir=tmp_path / "state")
    assert report.exit_status == 0
    assert report.snapshot.total("replayed") > 100
    attacks = [Alert(a.source_ip, a.failures, a.first_at, a.last_at) for a in log.attacks]
    assert stored(tmp_path / "alerts.db") == sorted(attacks)


@pytest.mark.parametrize("rate", [3.0, 100.0, 1200.0])
def test_a_paced_source_reads_every_line_at_its_rate(tmp_path: Path, rate: float) -> None:
    lines = int(rate * 5)
    (tmp_path / "auth.log").write_text("nothing\n" * lines)
    report = run_topology(topology(str(tmp_path / "auth.log"), str(tmp_path / "alerts.db"), rate=rate), workers=2)
    assert report.snapshot.spouts["lines"].acked == lines
    assert 4.4 <= report.snapshot.seconds <= 5.6, "on virtual time"


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_a_configuration_error(rate: float) -> None:
    with pytest.raises(ConfigurationError, match="rate is a number of messages per second"):
        topology(rate=rate)
