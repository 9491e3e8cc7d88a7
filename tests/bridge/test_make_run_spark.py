"""`make run-spark` as a newcomer types it, but for the environment, which is the one that runs the tests."""

import csv
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from spark_kit import needs_spark

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `examples` is not installed

from examples.auth_log import auth_log
from examples.ssh_alerts import FAILED, is_address

ROOT = Path(__file__).parents[2]

pytestmark = [
    needs_spark,
    pytest.mark.skipif(shutil.which("make") is None, reason="there is no make"),
    pytest.mark.timeout(300),
]


def make(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`-o` says that the environment is made already, however old."""
    venv = sys.prefix
    old = [word for stamp in ("installed", "installed-spark") for word in ("-o", f"{venv}/.{stamp}")]
    removed = {"MAKEFLAGS", "MAKELEVEL", "LOG", "HOSTS", "PYTHONPATH"}
    kept = {key: value for key, value in os.environ.items() if key not in removed and not key.startswith("KEDGE_")}
    return subprocess.run(
        ["make", *old, f"VENV={venv}", *arguments, "run-spark"],
        cwd=ROOT, env=kept, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def failures() -> list[tuple[str, str, int]]:
    """Of the log that is made: hour, address, how many."""
    found = [match for line in auth_log().lines if (match := FAILED.match(line)) and is_address(match["address"])]
    return [(match["time"][:9], match["address"], int(match["times"] or 1)) for match in found]


@pytest.mark.slow
def test_make_run_spark_has_each_alert_each_hour_and_each_failure_of_a_known_host_and_tells_of_all(
    tmp_path: Path,
) -> None:
    result = make(f"RUNS={tmp_path}", "RATE=20000")
    assert result.returncode == 0, result.stderr
    assert re.search(r"spark: it starts \(pid \d+\)", result.stderr), result.stderr
    assert "spark: Spark starts" in result.stderr
    assert "spark: it is ready, after " in result.stderr
    assert result.stdout.splitlines()[-1].startswith("try next: ")
    (store,) = tmp_path.glob("*/ssh.db")
    with closing(sqlite3.connect(store)) as connection:
        (alerts,) = connection.execute("SELECT count(*) FROM brute_force").fetchone()
        hours = connection.execute("SELECT start, source_ip, failures FROM hourly_failures").fetchall()
        known = connection.execute("SELECT host, owner FROM known_failure").fetchall()
    due: Counter[str] = Counter()
    by_hour: Counter[tuple[str, str]] = Counter()
    for hour, address, times in failures():
        due[address] += 1
        by_hour[hour, address] += times
    months = {"12": "Dec", "01": "Jan"}
    stored = {(f"{months[start[5:7]]} {int(start[8:10]):2d} {start[11:13]}", ip): times for start, ip, times in hours}
    assert len(hours) == len(stored), "each window has come once"
    assert stored == by_hour
    assert alerts == len(auth_log().attacks)
    with (ROOT / "examples/known_hosts.csv").open(newline="") as file:
        table = {row["source_ip"]: (row["host"], row["owner"]) for row in csv.DictReader(file)}
    assert Counter(known) == Counter({table[address]: due[address] for address in table})
