"""sshd's log as systems of today write it: ISO times, a program for each session, PAM's lines; one of another form."""

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from examples.ssh_alerts import topology

REAL_LOG = Path(__file__).parents[2] / "../shared/data/loghub/OpenSSH_2k.log"
ISO = "2026-11-23T21:00:0{}.123456+00:00 host sshd[4711]: "
CLASSIC = "Nov 23 21:00:0{} host sshd[4711]: "
PASSWORD = "Failed password for invalid user admin from 1.2.3.4 port 51412 ssh2"
PAM = "pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=1.2.3.4  user=root"


def stored(folder: Path, lines: Sequence[str]) -> list[tuple[str, int, str, str]]:
    (folder / "auth.log").write_text("".join(f"{line}\n" for line in lines))
    outcome = topology(str(folder / "auth.log"), str(folder / "alerts.db"), "2026-12-01T00:00:00").run()
    assert outcome.exit_status == 0
    with closing(sqlite3.connect(folder / "alerts.db")) as database:
        found: list[tuple[str, int, str, str]] = database.execute(
            "SELECT source_ip, failures, first_at, last_at FROM brute_force"
        ).fetchall()
    return found


@pytest.mark.parametrize("program", ["sshd", "sshd-session", "sshd-auth"])
@pytest.mark.parametrize("head", [CLASSIC, ISO, ISO.replace("+00:00", "Z"), ISO.replace(".123456", "")])
@pytest.mark.parametrize("said", [PASSWORD, PAM, PASSWORD.replace("password", "keyboard-interactive/pam")])
def test_five_failures_of_each_form_are_one_alert(tmp_path: Path, program: str, head: str, said: str) -> None:
    lines = [head.replace("sshd", program).format(second) + said for second in range(5)]
    ((address, failures, first, last),) = stored(tmp_path, lines)
    assert (address, failures) == ("1.2.3.4", 5)
    assert datetime.fromisoformat(first).replace(microsecond=0) == datetime(2026, 11, 23, 21, tzinfo=UTC)
    assert datetime.fromisoformat(last).replace(microsecond=0) == datetime(2026, 11, 23, 21, 0, 4, tzinfo=UTC)


def test_an_iso_time_of_another_zone_is_the_same_time_in_utc(tmp_path: Path) -> None:
    lines = [ISO.replace("T21", "T22").replace("+00:00", "+01:00").format(second) + PASSWORD for second in range(5)]
    ((_, _, first, _),) = stored(tmp_path, lines)
    assert datetime.fromisoformat(first) == datetime(2026, 11, 23, 21, 0, 0, 123456, tzinfo=UTC)


def test_a_failure_with_a_line_of_pams_and_one_of_sshds_is_counted_once(tmp_path: Path) -> None:
    lines = [ISO.format(second) + said for second in range(4) for said in (PAM, PASSWORD)]
    assert stored(tmp_path, lines) == []  # four failures; eight lines would be an alert


def test_pams_repeated_failures_count_as_often_as_it_says(tmp_path: Path) -> None:
    more = PAM.replace("pam_unix(sshd:auth): authentication failure", "PAM 4 more authentication failures")
    ((_, failures, _, _),) = stored(tmp_path, [ISO.format(0) + PAM, ISO.format(1) + more])
    assert failures == 5


def test_which_lines_count_is_decided_once_whatever_the_log_has_later(tmp_path: Path) -> None:
    """A second run over a log of PAM's that has grown lines of sshd's counts as the first one did."""
    log, store = tmp_path / "auth.log", str(tmp_path / "alerts.db")
    log.write_text("".join(f"{ISO.format(second)}{PAM}\n" for second in range(4)))
    topology(str(log), store).run(state_dir=tmp_path / "state")
    log.write_text(log.read_text() + f"{ISO.format(4)}{PASSWORD}\n{ISO.format(5)}{PAM}\n")
    topology(str(log), store).run(state_dir=tmp_path / "state")
    with closing(sqlite3.connect(store)) as database:
        assert database.execute("SELECT failures FROM brute_force").fetchall() == [(5,)]


def test_a_user_that_is_called_like_the_end_of_a_line_of_pams_names_no_address(tmp_path: Path) -> None:
    sly = PASSWORD.replace("admin", "rhost=9.9.9.9 user=x")
    lines = [ISO.format(second) + sly for second in range(5)]
    assert [address for address, *_ in stored(tmp_path, lines)] == ["1.2.3.4"]


@pytest.mark.skipif(not REAL_LOG.exists(), reason="the real sshd log, ../shared/data/loghub, is not here")
def test_the_real_logs_pam_lines_alone_name_the_attackers_that_its_own_lines_name(tmp_path: Path) -> None:
    lines = REAL_LOG.read_text().splitlines()
    both = {address for address, *_ in stored(tmp_path, lines)}
    (tmp_path / "alerts.db").unlink()
    pam = {address for address, *_ in stored(tmp_path, [line for line in lines if "Failed password" not in line])}
    assert len(pam) >= 5
    assert pam <= both


@pytest.mark.parametrize(
    ("lines", "told"), [(1500, "the first 1,000 lines"), (3, "the first 3 lines"), (1, "one line")]
)
def test_a_log_of_which_nothing_matches_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lines: int, told: str
) -> None:
    with caplog.at_level(logging.WARNING, "kedge"):
        assert stored(tmp_path, ["<34>1 something else\\x1b entirely"] * lines) == []
    said = [one.getMessage() for one in caplog.records if "no failed logins" in one.getMessage()]
    assert len(said) == 1
    assert told in said[0]
    assert "<34>1 something else" in said[0]


def test_a_log_of_which_one_line_matches_is_not_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kedge"):
        stored(tmp_path, [ISO.format(0) + PASSWORD, *["something else"] * 1500])
    assert "no failed logins" not in caplog.text
