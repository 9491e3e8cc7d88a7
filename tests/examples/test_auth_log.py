"""The maker of sshd logs: the same seed gives the same bytes, and its attacks are in it, no more and no fewer."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ssh_oracle import expected, expected_of_file, failure_in, year_found

from examples.auth_log import HOSTILE, SCRIPTS, VICTIM, auth_log, write

ROOT = Path(__file__).parents[2]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "examples.auth_log", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_the_same_seed_makes_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        write(auth_log(seed, 2_000), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("seed", range(10))
def test_the_attacks_it_names_are_just_the_alerts_due(seed: int) -> None:
    log = auth_log(seed, 1_000 + 977 * seed)
    due = sorted((a.source_ip, a.failures, a.first_at, a.last_at) for a in log.attacks)
    assert due == sorted(map(tuple, expected(list(log.lines), log.last_at).alerts)), f"seed {seed}"


def test_the_default_log_is_small_and_holds_every_kind_of_trap() -> None:
    log = auth_log()
    text = "\n".join(log.lines)
    assert len(log.lines) == 20_000
    assert len(text) < 3_000_000
    assert len(log.attacks) >= len(SCRIPTS)
    assert all(f"Failed password for invalid user {name} from" in text for name in HOSTILE)
    for part in ("message repeated 7 times: [ Failed", "from 2001:db8:bad::", "COMMAND=/usr/bin/grep Failed password"):
        assert part in text
    assert VICTIM not in {found[0] for line in log.lines if (found := failure_in(line))}


def test_lines_are_in_the_order_of_their_times_and_run_over_a_new_year() -> None:
    log = auth_log()
    times = [time for line in log.lines[::50] if (time := year_found(line[:15], log.last_at))]
    assert len(times) == len(log.lines) // 50
    assert times == sorted(times)
    assert (times[0].year, times[-1].year) == (2025, 2026)


def test_the_command_writes_a_file_whose_mtime_is_its_last_lines_time(tmp_path: Path) -> None:
    done = command(str(tmp_path / "auth.log"), "--lines", "2000", "--seed", "7")
    log = auth_log(7, 2_000)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"auth.log: 2000 lines, {len(log.attacks)} alerts due\n")
    mtime = datetime.fromtimestamp((tmp_path / "auth.log").stat().st_mtime, UTC)
    assert mtime == log.last_at
    alerts = expected_of_file((tmp_path / "auth.log").read_bytes(), mtime).alerts
    assert len(alerts) == len(log.attacks)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{tmp}/no/such/folder/auth.log"], "auth.log can't be written: No such file or directory"),
        (["{tmp}/auth.log", "--lines", "10"], "a log has at least 1000 lines, so that an attack has room, not 10"),
        (["{tmp}/auth.log", "--lines", "many"], "invalid int value: 'many'"),
    ],
)
def test_what_it_cannot_do_is_said_in_a_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    done = command(*(argument.format(tmp=tmp_path) for argument in arguments))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
