"""`Directory` in whole runs: whatever is killed, each line of each file counts once; deleted files were done."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from directory_kit import names_in, place

from topology.testing import Crash, run_processes

FILE = Path(__file__).with_name("directory_topology.py")
WAIT_S = 60.0  # on a busy machine
FEW, MANY = 5_000, 100_000


def fill(folder: Path, count: int, files: int) -> None:
    """Numbers from 1 on, in files of all kinds: packed, in folders, with and without a last newline."""
    for index in range(files):
        lines = [msgspec.json.encode({"number": number, "text": ""}) for number in range(index + 1, count + 1, files)]
        name = f"{index % 7}/{index:05}.jsonl" + ".gz" * (index % 5 == 0)
        place(folder / name, b"\n".join(lines) + b"\n" * (index % 2))


def stored(path: Path) -> list[tuple[int, int]]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        try:
            return database.execute("select number, times from counted").fetchall()
        except sqlite3.OperationalError:
            return []


def exactly(path: Path, count: int) -> None:
    """Each number is there once, and was counted once."""
    assert Counter(stored(path)) == Counter((number, 1) for number in range(1, count + 1))


@pytest.mark.parametrize("after", ["", "delete"])
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_a_killed_worker_changes_nothing(tmp_path: Path, count: int, after: str) -> None:
    folder, out = tmp_path / "in", tmp_path / "out.db"
    fill(folder, count, files=100)
    report = run_processes(
        FILE,
        set={"pattern": f"{folder}/**/*.jsonl*", "out": str(out), "after": after, "rate": count / 4},
        crashes=[Crash("items", acked=count // 10), Crash("count", acked=count // 2)],
        state_dir=tmp_path / "state",
        within_s=110.0,
    )
    assert report.exit_status == 0, report.told
    assert len(report.killed) == 2
    exactly(out, count)
    if after:
        assert names_in(folder) == []


def command(folder: Path, *options: str, **settings: object) -> list[str]:
    found = [sys.executable, "-m", "kedge", "run", str(FILE), "--state-dir", str(folder / "state"), *options]
    settings = {"pattern": f"{folder}/in/**/*.jsonl*", "out": folder / "out.db", **settings}
    for name, value in settings.items():
        found += ["--set", f"{name}={value}"]
    return found


def ran(arguments: Sequence[str], folder: Path) -> str:
    run = subprocess.run(arguments, cwd=folder, capture_output=True, timeout=WAIT_S, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.decode() + run.stderr.decode()


@pytest.mark.parametrize("after", ["", "delete", "move"])
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_a_run_that_is_killed_again_and_again_counts_each_line_once(tmp_path: Path, after: str, count: int) -> None:
    chance, out = random.Random(f"{after} {count}"), tmp_path / "out.db"
    fill(tmp_path / "in", count, files=200)
    settings = {"after": f"move:{tmp_path / 'done'}" if after == "move" else after}
    for _ in range(4):
        goal = len(stored(out)) + count // 6
        arguments = command(tmp_path, **settings, rate=count / 4)
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(arguments, cwd=tmp_path, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + WAIT_S
        while len(stored(out)) < goal and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(chance.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
    ran(command(tmp_path, **settings), tmp_path)
    exactly(out, count)
    assert len(names_in(tmp_path / "in")) == (0 if after else 200)
    if after == "move":
        assert len(names_in(tmp_path / "done")) == 200


def test_a_second_run_reads_nothing_again_though_there_are_more_files_than_positions(tmp_path: Path) -> None:
    fill(tmp_path / "in", 4_000, files=4_000)  # the runtime remembers the last 1,000 of a task
    ran(command(tmp_path), tmp_path)
    exactly(tmp_path / "out.db", 4_000)
    assert "no new input since the last run" in ran(command(tmp_path), tmp_path)
    exactly(tmp_path / "out.db", 4_000)


def test_a_run_that_follows_takes_files_as_they_come_and_drains(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    arguments = command(tmp_path, "--workers", "2", follow=True, after="delete")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(arguments, cwd=tmp_path, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        for index in range(20):
            lines = [msgspec.json.encode({"number": number, "text": ""}) for number in range(index + 1, 1_001, 20)]
            place(tmp_path / "in" / f"{index}.jsonl", b"\n".join(lines))
            time.sleep(0.05)
        deadline = time.monotonic() + WAIT_S
        while names_in(tmp_path / "in"):
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.05)
        exactly(tmp_path / "out.db", 1_000)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0, (tmp_path / "log").read_text()
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()


def test_an_at_most_once_run_deletes_a_file_whose_lines_have_left(tmp_path: Path) -> None:
    fill(tmp_path / "in", 500, files=20)
    arguments = [*command(tmp_path, after="delete"), "--config", "guarantee=at-most-once"]
    ran(arguments, tmp_path)
    assert sorted(number for number, _ in stored(tmp_path / "out.db")) == [*range(1, 501)]
    assert names_in(tmp_path / "in") == []
