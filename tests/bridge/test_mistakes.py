"""What a driver does about its errors: which ones a person has to mend, where room is waited for, and when it is given
up. Without Spark, by the words that Spark says."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

from bridge.spark.errors import (
    DEATHS_MAX,
    LONG_S,
    TRACEBACK,
    DriverDeaths,
    java_cause,
    java_said,
    no_room,
    not_started,
    until_room,
    users_mistake,
)
from topology.codes.code import FRESH

FAILED = "=== Streaming Query ===\nIdentifier: hourly [id = 1]\nLogical Plan: …"


def spark(text: str) -> Any:
    from pyspark.errors import StreamingQueryException

    return StreamingQueryException(text)


@pytest.mark.parametrize(
    "said",
    [
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match. SQLSTATE: XXKST",
        "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator. SQLSTATE: 42K03",
        "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2] sources requested",
    ],
)
def test_a_query_that_its_checkpoint_is_not_of_is_told_what_to_do(said: str) -> None:
    sentence, lines = users_mistake(spark(f"{said}\n{FAILED}"), "hourly")
    assert sentence.startswith("query 'hourly' does not match its checkpoint; restore it as it was; or give it")
    assert f"another name; or {FRESH}; Spark says: {said}" == sentence[sentence.index("another name") :]
    assert lines == []


def test_what_spark_says_of_a_query_has_its_state_in_the_text_where_it_has_none_of_its_own() -> None:
    sentence, _ = users_mistake(spark(f"[ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003\n{FAILED}"), "hourly")
    assert sentence.startswith("query 'hourly' has raised StreamingQueryException: [ARITHMETIC_OVERFLOW] long overflow")
    assert users_mistake(spark(f"[STREAM_FAILED] it has. SQLSTATE: XXKST\n{FAILED}"), "hourly") == ("", [])


def test_a_python_process_of_sparks_that_has_died_is_nobodys_mistake() -> None:
    said = "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when running: EOFException. SQLSTATE: 38000"
    assert users_mistake(spark(f"{said}\n{FAILED}"), "hourly") == ("", [])


def test_why_spark_was_not_started_is_the_last_cause_and_a_java_that_has_ended_may_pass() -> None:
    caused = RuntimeError(
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": java.lang.ExceptionInInitializerError\n\tat a.b(c)\n"
        "Caused by: org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'\n\tat d.e(f)"
    )
    assert not_started(caused) == "org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'"
    assert not_started(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited")) == ""
    assert not_started(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")) == ""


@pytest.mark.parametrize(("said", "told"), [(": \thello", "hello"), (": a.B: why\nCaused by: \t\n", "a.B: why")])
def test_a_cause_that_begins_with_blanks_is_told_without_them(said: str, told: str) -> None:
    assert java_cause(said) == told


@given(st.lists(st.sampled_from([*"\t\n\r\x0b\x85 :a", "Caused by: ", "\n: ", TRACEBACK])).map("".join))
def test_whatever_java_says_its_cause_is_one_line_or_nothing(said: str) -> None:
    assert len(java_cause(said).splitlines()) <= 1


def test_what_java_has_said_as_it_ended_is_found_in_the_log_of_its_last_life(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    assert java_said(log) == ""
    life = (
        "--- 2026-11-22T17:45:16Z pid 1\nNOTE: Picked up JDK_JAVA_OPTIONS: -X\n{}\nTraceback (most recent call last):\n"
    )
    log.write_text(life.format("earlier") + life.format("Invalid maximum heap size: -Xmx1x\nError: No JVM."))
    assert java_said(log) == "Invalid maximum heap size: -Xmx1x Error: No JVM."
    uncaught = 'Exception in thread "main" org.apache.spark.SparkException: why\n\tat org.apache.x(y.scala:1)'
    log.write_text(life.format(f"26/11/22 17:45:17 WARN Utils: a warning\n{uncaught}"))
    assert java_said(log) == "org.apache.spark.SparkException: why"


def test_what_logging_says_of_itself_is_no_life_of_its_own_and_nothing_of_javas(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    with open(log, "w") as file:
        file.write("--- 2026-11-22T17:45:16Z pid 1\nInvalid maximum heap size: -Xmx1x\n")
        file.flush()
        subprocess.run([sys.executable, "-c", "import logging; logging.error('%d', 'x')"], stderr=file, check=True)
        file.write("Error: No JVM.\nTraceback (most recent call last):\n")
    assert "--- Logging error ---" in log.read_text()
    assert java_said(log) == "Invalid maximum heap size: -Xmx1x Error: No JVM."


def test_no_room_is_no_mistake_whoever_finds_it_out() -> None:
    assert no_room(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/state/kept")) == (
        "/state/kept: No space left on device"
    )
    assert no_room(spark("java.io.IOException: No space left on device\n" + FAILED)) == "No space left on device"
    assert no_room(ValueError("no such window")) == ""


def test_room_is_waited_for_until_there_is_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, pauses = threading.Event(), list[float]()
    full.set()
    synced = os.fsync

    def fsync(fd: int) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced(fd)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            full.clear()

    monkeypatch.setattr(os, "fsync", fsync)
    told = list[str]()
    assert until_room(tmp_path, lambda: told.append("waits"), pause)
    assert len(pauses) == 3
    assert told == ["waits"]
    assert list(tmp_path.iterdir()) == []
    for folder in (tmp_path, tmp_path / "gone"):
        assert not until_room(folder, lambda: told.append("waits"), pause), "something else is wrong"
    assert told == ["waits"]


def test_what_dies_again_and_again_with_nothing_done_between_is_given_up(tmp_path: Path) -> None:
    deaths = DriverDeaths(tmp_path)
    assert [deaths.one_more(1.0) for _ in range(DEATHS_MAX)] == [False] * (DEATHS_MAX - 1) + [True]
    deaths.forget()
    assert [DriverDeaths(tmp_path).one_more(1.0) for _ in range(DEATHS_MAX - 1)] == [False] * (DEATHS_MAX - 1)
    assert not DriverDeaths(tmp_path).one_more(LONG_S), "it has lived for long"
    commits = tmp_path / "checkpoint" / "0" / "commits"
    commits.mkdir(parents=True)
    for number in range(2 * DEATHS_MAX):
        (commits / str(number)).touch()
        assert not DriverDeaths(tmp_path).one_more(1.0), "batches were done"
    (tmp_path / "file").touch()
    assert not DriverDeaths(tmp_path / "file").one_more(1.0), "who can't tell goes on"
