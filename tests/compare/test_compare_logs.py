"""Why a mode has failed: the line that tells the most, in its row, and where its log is. Processes die in earnest."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from measured_kit import Told, counting, job_of

from bridge.compare.job import ComparisonRow
from bridge.compare.measure import compare
from bridge.compare.modes import ways_of, why_not
from bridge.compare.rounds import logs
from bridge.files.process_log import TITLE, title
from bridge.spark import java

TRACED = """\
--- 2026-01-01T00:00:00Z pid 7
KeyError: 'an earlier life'
--- 2026-01-01T00:00:09Z pid 8
Traceback (most recent call last):
  File "driver.py", line 3, in main
py4j.protocol.Py4JJavaError: An error occurred while calling o141.getResult.
Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting a thing.
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)
"""


def round_of(folder: Path, err: str, log: str = "") -> Path:
    """What a round has left: what `kedge run` has told, and the log of its companion."""
    companions = folder / "round" / "state" / "files" / "companions"
    companions.mkdir(parents=True)
    (folder / "round" / "run.err").write_text(err)
    (companions / "spark.log").write_text(log)
    return folder / "round"


@pytest.mark.skipif(bool(java.missing()), reason="needs Java: without it no process of Spark starts")
def test_a_driver_of_sparks_that_dies_at_the_start_has_its_reason_and_its_log_in_the_row(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")
    (tmp_path / "torn" / "py4j").mkdir(parents=True)
    (tmp_path / "torn" / "py4j" / "__init__.py").write_text("raise RuntimeError('the library is torn')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "torn"))
    job = job_of(counting(tmp_path), modes=("spark:1s",), config=("max_restarts=0",))
    problem = compare(job, Told()).modes[0].problem
    assert "'spark'" in problem
    assert "it said: RuntimeError: the library is torn (K552); its log: " in problem
    kept = Path(problem.rpartition("its log: ")[2])
    assert kept.parent == temporary
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "Traceback (most recent call last):" in kept.read_text()
    assert TITLE.search(kept.read_text()), "the title of a companion's life is another one now"


def test_a_mode_whose_process_is_killed_says_so_and_where_its_log_is(tmp_path: Path, temporary: Path) -> None:
    def killed(row: ComparisonRow, phase: str) -> None:
        if phase == "measuring":
            for one in psutil.Process().children():
                if "run" in one.cmdline():
                    one.kill()

    (one,) = compare(job_of(counting(tmp_path), modes=("embedded",)), Told(killed)).modes
    said, _, kept = one.problem.partition("; its log: ")
    assert said == "it ended by signal 9 before it should"
    assert "kedge" in Path(kept).read_text()


def test_an_error_of_javas_is_told_by_its_cause_and_not_by_the_call(tmp_path: Path, temporary: Path) -> None:
    name = "state/files/companions/spark.log"
    err = (
        f"exit status 1: WorkerError: spark: it has died 3 times: An error occurred while calling o141.getResult; "
        f"see {tmp_path / 'round' / name}\n  next: look   (K551: `kedge explain K551`)\n"
    )
    told = logs.why_run_ended("spark:1s", round_of(tmp_path, err, TRACED), 1)
    (kept,) = temporary.iterdir()
    cause = "Python worker exited unexpectedly (crashed)"
    assert told == f"it has died 3 times: {cause}; see {kept} (K551)"
    assert re.fullmatch(r"kedge-compared-spark-1s-\w+\.log", kept.name)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("{lost} is missing; see '{log}'", "{lost} is missing; see '{kept}'"),
        ("{log}: see {log}.1", "{kept}: see {log}.1"),
    ],
)
def test_only_the_path_of_a_log_that_is_kept_becomes_that_of_its_copy(
    tmp_path: Path, temporary: Path, said: str, told: str
) -> None:
    state = tmp_path / "round" / "state"
    lost, log = state / "seg-7.arrow", state / "files" / "companions" / "spark.log"
    found = logs.why_run_ended(
        "spark:1s", round_of(tmp_path, f"kedge: {said.format(lost=lost, log=log)}\n", "gone\n"), 1
    )
    (kept,) = temporary.iterdir()
    assert found == told.format(lost=lost, log=log, kept=kept)


@pytest.mark.parametrize("has_room", [True, False])
def test_of_a_path_that_is_cut_in_a_row_only_the_copys_is_told(tmp_path: Path, temporary: Path, has_room: bool) -> None:
    """Of what goes with the folder no part stays: the copy is told where the path was, or, without room, behind."""
    log = tmp_path / "round" / "state" / "files" / "companions" / "spark.log"
    words = "x" * (logs.SAID_MAX - 1 - (len(str(log)) - 1 if has_room else 10))
    err = f"kedge: {words} {log}\n  next: look   (K551: `kedge explain K551`)\n"
    told = logs.why_run_ended("spark:1s", round_of(tmp_path, err, "gone\n"), 1)
    (kept,) = temporary.iterdir()
    assert told == (f"{words} {kept} (K551)" if has_room else f"{words} (K551); its log: {kept}")


def test_where_no_log_is_named_the_copy_is_told_behind_the_sentence(tmp_path: Path, temporary: Path) -> None:
    lost = tmp_path / "round" / "state" / "seg-7.arrow"
    told = logs.why_run_ended("record", round_of(tmp_path, f"kedge: {lost} is missing\n"), 1)
    (kept,) = temporary.iterdir()
    assert told == f"{lost} is missing; its log: {kept}"


def test_a_folder_that_goes_while_logs_are_looked_for_is_passed_over(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = round_of(tmp_path, "kedge: it is broken\n", "gone\n")
    going = folder / "state" / "files" / "going"
    going.mkdir()
    looked = os.scandir

    def scandir(path: Any) -> Any:
        if str(path) == str(going):
            going.rmdir()  # by the run, between two looks
        return looked(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        told = logs.why_run_ended("spark:1s", folder, 1)
    assert not going.exists()
    assert told.startswith("it is broken; its log: ")
    assert "spark.log <==\ngone" in Path(told.rpartition("its log: ")[2]).read_text()


def test_an_exception_tells_more_than_the_lines_after_it_and_an_earlier_life_tells_nothing(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(f"{TRACED}ValueError: why\nit goes\n")
    assert logs.telling(log) == "ValueError: why"
    log.write_text(f"{title('pid 7')}ValueError: earlier\n{title('pid 8')}killed by the machine\n\n")
    assert logs.telling(log) == "killed by the machine"
    assert logs.telling(log, raised=True) == ""
    assert logs.telling(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("{outer}\n\tat a.b(c)\nCaused by: java.lang.OutOfMemoryError: Java heap space\n\tat a.b(c)", "{heap}"),
        ("{outer}\nCaused by: java.lang.OutOfMemoryError: Java heap space\nCaused by: a.EOFException", "{heap}"),
        ("{outer}\nCaused by: java.io.EOFException\n\tat a.b(c)", "{outer}"),
        ("Py4JJavaError: An error occurred while calling o1.x.\n: {outer}\n\tat a.b(c)", "{outer}"),
        ("{outer}\nCaused by: java.lang.OutOfMemoryError: Java heap space\nValueError: later", "ValueError: later"),
        ("\tat a.b(c)\nCaused by: a.Outer$InnerException\n\tat a.b(c)", "a.Outer$InnerException"),
    ],
)
def test_the_last_cause_that_says_anything_tells_more_than_the_error_that_it_is_of(
    tmp_path: Path, said: str, told: str
) -> None:
    words = {"outer": "org.apache.spark.SparkException: aa", "heap": "java.lang.OutOfMemoryError: Java heap space"}
    (tmp_path / "driver.err").write_text(said.format_map(words) + "\n")
    assert logs.telling(tmp_path / "driver.err") == told.format_map(words)


def test_what_logging_says_of_itself_without_an_end_costs_no_more_than_other_lines(tmp_path: Path) -> None:
    """In CPU time: what is cut off, or written over by another process, has its end nowhere."""
    log = tmp_path / "spark.log"
    log.write_text("--- Logging error ---\n" * 12_500 + "ValueError: why\n")
    begun = time.process_time()
    assert logs.telling(log) == "ValueError: why"
    assert time.process_time() - begun < 3


def test_what_logging_says_of_itself_is_no_new_life_and_not_why_a_process_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    with open(log, "w") as file:
        file.write(f"{title('pid 7')}KeyError: 'earlier'\n{title('pid 8')}ValueError: this is why\n")
        file.flush()
        subprocess.run([sys.executable, "-c", "import logging; logging.error('%d', 'x')"], stderr=file, check=True)
        file.write("gone\n")
    said = log.read_text()
    assert "--- Logging error ---" in said
    assert "TypeError: %d format" in said
    assert logs.telling(log) == "ValueError: this is why"


def test_what_java_says_itself_comes_before_what_python_says_of_it(tmp_path: Path, temporary: Path) -> None:
    log = tmp_path / "driver.err"
    log.write_text(
        f"{title('a mode')}NOTE: Picked up JDK_JAVA_OPTIONS: -XX:+Bogus\nUnrecognized VM option 'Bogus'\n"
        "Traceback (most recent call last):\npyspark.PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java has exited.\n"
    )
    (tmp_path / "driver.out").write_text("failed [JAVA_GATEWAY_EXITED] Java has exited.\n")
    told = logs.why_driver_ended("spark:continuous", tmp_path, 1)
    (kept,) = temporary.iterdir()
    assert told == f"Spark has ended it: Unrecognized VM option 'Bogus'; its log: {kept}"


def test_a_driver_that_is_killed_is_told_by_the_signal_and_not_by_what_java_notes_at_its_start(tmp_path: Path) -> None:
    (tmp_path / "driver.out").write_text("ready\n")
    (tmp_path / "driver.err").write_text(f"{title('a mode')}NOTE: Picked up JDK_JAVA_OPTIONS: \n")
    assert logs.why_driver_ended("spark:continuous", tmp_path, -9) == "it ended by signal 9 before it should"


def test_without_room_for_a_log_the_reason_is_told_all_the_same(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "gone"))
    folder = round_of(tmp_path, "kedge: it is broken\n  next: mend it   (K551: `kedge explain K551`)\n")
    assert logs.why_run_ended("record", folder, 3) == "it is broken (K551)"


def test_logs_are_kept_for_a_week_and_what_is_no_log_of_ours_stays(temporary: Path) -> None:
    names = ("kedge-compared-record-old.log", "kedge-compared-record-new.log", "kedge-compared.txt", "other.log")
    old = time.time() - logs.KEPT_S - 60
    for name in names:
        (temporary / name).touch()
        if not name.endswith("-new.log"):
            os.utime(temporary / name, (old, old))
    logs.sweep()
    assert sorted(one.name for one in temporary.iterdir()) == sorted(names[1:])


def test_the_newest_fifty_logs_are_kept_however_many_files_are_beside_them(temporary: Path) -> None:
    now = time.time()

    def fill(numbers: range) -> None:
        for number in numbers:
            path = temporary / f"kedge-compared-record-{number}.log"
            path.touch()
            os.utime(path, (now - number, now - number))

    fill(range(100))
    for number in range(12_000):
        (temporary / f"of-another-{number}").touch()
    fill(range(100, 200))
    logs.sweep()
    left = {one.name for one in temporary.iterdir() if one.name.startswith(logs.PREFIX)}
    assert left == {f"kedge-compared-record-{number}.log" for number in range(50)}


def test_modes_of_sparks_are_told_without_java_before_they_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for way in ways_of(("spark:default", "spark:continuous"), ""):
        assert why_not(way).startswith(f"Spark needs Java, but JAVA_HOME is {tmp_path}, which has none")
