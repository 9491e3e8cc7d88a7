"""`make run` as a newcomer types it, but for the environment, which is the one that runs the tests."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from cli_kit import Started, environment, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `examples` is not installed

from examples.auth_log import auth_log

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def command(*arguments: str) -> list[str]:
    """`-o` says that the environment is made already, however old."""
    venv = sys.prefix
    return ["make", "-o", f"{venv}/.installed", f"VENV={venv}", *arguments]


def make(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*arguments), cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )


def alerts(store: Path) -> list[tuple[str, int, datetime, datetime]]:
    """All that are stored, sorted."""
    with closing(sqlite3.connect(store)) as connection:
        rows = connection.execute("SELECT source_ip, failures, first_at, last_at FROM brute_force").fetchall()
    return sorted((ip, failures, *map(datetime.fromisoformat, times)) for ip, failures, *times in rows)


def due() -> list[tuple[str, int, datetime, datetime]]:
    """What the log that is made has to give."""
    return sorted((one.source_ip, one.failures, one.first_at, one.last_at) for one in auth_log().attacks)


def test_make_run_finds_the_attacks_in_the_log_that_it_makes_and_each_run_begins_anew(tmp_path: Path) -> None:
    for count in (1, 2):
        result = make("run", f"RUNS={tmp_path}", "RATE=10000")
        assert result.returncode == 0, result.stderr
        assert re.search(r"lines +20,000 +20,000 +0 +0 +0 ", result.stdout), result.stdout
        assert "  workers  2, none restarted" in result.stdout
        assert "store: 24 stored, 0 known already" in result.stdout
        assert "source_ip         failures  first_at              last_at" in result.stdout
        again, further = result.stdout.splitlines()[-2:]
        assert again.startswith("try next: ")
        assert again.endswith("# resumes from here: stored records are not stored twice")
        assert further.startswith("     and: make run-spark   # ")
        stores = list(tmp_path.glob("*/alerts.db"))
        assert len(stores) == count
        assert all(alerts(store) == due() for store in stores)


@pytest.mark.slow
def test_make_run_is_as_slow_as_it_is_told_and_has_a_worker_to_kill_which_changes_nothing_of_what_is_stored_d1_d2(
    tmp_path: Path,
) -> None:
    """No alert is missing, none is there twice, and each has counted what it would have."""
    stderr = tmp_path / "stderr.txt"
    with stderr.open("wb") as err, (tmp_path / "stdout.txt").open("wb") as out:
        process = subprocess.Popen(
            command("run", f"RUNS={tmp_path / 'runs'}", "RATE=4000"),
            cwd=ROOT,
            env=environment(),
            stdout=out,
            stderr=err,
        )
    run = Started(process, stderr)
    hint = re.compile(r"^try: kill -9 (\d+)   \(worker 1\), and watch it come back$", re.MULTILINE)
    try:
        wait_for(lambda: bool(hint.search(run.said())) or process.poll() is not None, "the hint")
        (pid,) = map(int, hint.findall(run.said()))
        os.kill(pid, signal.SIGKILL)
        assert run.ended() == 0, run.said()
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
    died = re.search(rf"worker 1 \(pid {pid}\) was killed by SIGKILL.*; its saved state is intact", run.said())
    assert died, run.said()
    assert "worker 1 is back as pid " in run.said()
    summary = (tmp_path / "stdout.txt").read_text()
    assert "  workers  2, restarted once" in summary
    seconds = re.search(r"has read everything and ended after ([\d.]+) s", summary)
    assert seconds, summary
    assert float(seconds[1]) >= 20_000 / 4000
    (store,) = (tmp_path / "runs").glob("*/alerts.db")
    assert alerts(store) == due()


def test_make_run_takes_another_log_by_path_whatever_is_in_its_name(tmp_path: Path) -> None:
    log = tmp_path / "an \"odd\" 'name' $HOME.log"
    log.write_text(
        "".join(
            f"Dec 10 06:55:4{n} host sshd[1]: Failed password for root from 192.0.2.7 port 22 ssh2\n" for n in range(6)
        )
    )
    result = make("run", f"RUNS={tmp_path / 'runs'}", f"LOG={str(log).replace('$', '$$')}")
    assert result.returncode == 0, result.stderr
    assert re.search(r"lines +6 +6 +0 +0 +0 ", result.stdout)
    assert "192.0.2.7  5" in result.stdout


def test_a_log_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    result = make("run", f"RUNS={tmp_path}", "LOG=/nowhere/auth.log")
    assert result.returncode != 0
    assert "kedge: the file '/nowhere/auth.log' can't be read" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_rate_that_is_none_is_one_sentence_and_reaches_no_shell(tmp_path: Path) -> None:
    result = make("run", f"RUNS={tmp_path}", f"RATE=1; touch '{tmp_path}/typed' #")
    assert result.returncode == 2, result.stderr
    assert "\nkedge: --set rate=1; touch " in result.stderr, result.stderr
    assert not (tmp_path / "typed").exists()


def test_a_python_that_is_too_old_or_missing_is_one_sentence(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.9.2\n[ "$1" = -V ]\n')
    old.chmod(0o755)
    for python, said in (
        (
            str(old),
            f"{old} is Python 3.9.2; name another: make PYTHON=python3.12",
        ),
        ("python9", "there is no python9: apt install python3 python3-venv"),
    ):
        result = subprocess.run(
            ["make", f"VENV={tmp_path / 'venv'}", f"PYTHON={python}", "run"],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode != 0
        assert result.stderr.splitlines()[0] == f"Kedge needs Python 3.11 or newer, and {said}"
        assert not (tmp_path / "venv").exists()
