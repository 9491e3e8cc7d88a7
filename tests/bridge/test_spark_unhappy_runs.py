"""Runs of the command whose Spark can't start, whose disk is full or whose files are gone: one clear sentence each, and
nothing is lost. Those that take long are in `make test-all`."""

import socket
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from disks_kit import copied, small_disk
from runs_kit import REFUSED_S, Run, runs_of
from spark_kit import needs_spark
from spark_topology import numbered

pytestmark = [needs_spark, pytest.mark.timeout(420)]

MORE = pytest.mark.slow
COUNT = 30_000


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    yield from runs_of(Path(__file__).with_name("spark_topology.py"), tmp_path)


def totals(store: Path) -> list[tuple[int, int, int]]:
    """Rows, records in them, and the sum of these."""
    database = sqlite3.connect(store)
    try:
        return database.execute("select count(*), sum(count), sum(total) from checked").fetchall()
    finally:
        database.close()


def expected(count: int) -> list[tuple[int, int, int]]:
    windows = {(one.number // 600, one.key) for one in numbered(count)}
    return [(len(windows), count, count * (count - 1) // 2)]


def test_a_java_that_ends_at_once_is_tried_three_times_and_its_log_is_named(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    ended = run("count=100", "--spark-conf spark.driver.memory=1x")
    assert ended.end() == 1, ended.text()
    said = "Spark has died 3 times without progress in between: Invalid maximum heap size: -Xmx1x"
    assert said in ended.text()
    log = tmp_path / "state" / "kept" / "companions" / "spark.log"
    assert f"see {log}" in ended.text()
    assert "Invalid maximum heap size" in log.read_text()
    assert len(ended.starts()) == 3


def test_of_two_runs_on_one_state_directory_the_second_is_refused_and_the_first_goes_on(
    run: Callable[..., Run],
) -> None:
    first = run("count=3000", "rate=100")
    first.until_said("spark: it starts")
    second = run("count=3000")
    assert second.end() not in (0, None)
    assert "state is in use by another run" in second.text()
    assert "spark: it starts" not in second.text()
    assert first.process.poll() is None


@MORE
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["--spark local[0]"],
            "Spark could not be started: org.apache.spark.SparkException: Asked to run locally with 0 threads",
        ),
        (
            ["--spark-conf spark.sql.shuffle.partitions=no"],
            "Spark could not be started: org.apache.spark.SparkIllegalArgumentException: "
            "[INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'no' "
            "in the config \"spark.sql.shuffle.partitions\" is invalid. It should be a/an 'int' value.",
        ),
    ],
    ids=["master", "setting"],
)
def test_what_spark_does_not_start_with_is_said_once(run: Callable[..., Run], settings: list[str], said: str) -> None:
    ended = run("count=100", *settings)
    assert ended.end(REFUSED_S) == 1, ended.text()
    assert said in ended.text()
    assert len(ended.starts()) == 1


@MORE
def test_a_port_that_is_in_use_is_said(run: Callable[..., Run]) -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = f"--spark-conf spark.driver.port={used.getsockname()[1]}"
        ended = run("count=100", port, "--spark-conf spark.port.maxRetries=0")
        assert ended.end() == 1, ended.text()
    assert "Spark could not be started: " in ended.text()
    assert "Address already in use" in ended.text()


@MORE
def test_a_run_without_a_record_ends_by_itself_and_has_no_result(run: Callable[..., Run], tmp_path: Path) -> None:
    ended = run("count=0", "--workers 2")
    assert ended.end() == 0, ended.text()
    assert "windows: complete, 0 results" in ended.text()
    assert list((tmp_path / "state" / "kept" / "spark" / "windows" / "results").glob("batch-*")) == []


@MORE
def test_a_table_without_the_key_of_its_join_ends_the_run_at_once_with_what_it_has(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    table = tmp_path / "owners.csv"
    table.write_text("address,owner\nkey0,owner0\n")
    ended = run(f"table={table}", program=Path(__file__).with_name("table_topology.py"))
    assert ended.end() == 1, ended.text()
    assert "query 'owned': the table has no column 'key'; it has address, owner" in ended.text()
    assert len(ended.starts()) == 1


def works_on_a_batch(checkpoint: Path) -> bool:
    """Whether Spark has begun a batch that is not done."""
    begun, done = (
        max((int(one.name) for one in (checkpoint / what).glob("*") if one.name.isdecimal()), default=-1)
        for what in ("offsets", "commits")
    )
    return begun > done


@MORE
def test_a_disk_that_is_full_is_waited_for_by_spark_too_and_nothing_is_lost(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """F16: segments, results, checkpoint and state of the run are all on it. It is full in the middle of a batch, so
    that Spark finds it out whatever the hand-over still finds room for."""
    with small_disk(tmp_path / "state", megabytes=128) as disk:
        one = run(f"count={COUNT}", "rate=200", "--workers 2", before=disk.enter)
        one.until_ready(1)
        query = disk.view / "kept/spark/windows"
        one.until(lambda: any((query / "results").glob("batch-*")) and works_on_a_batch(query / "checkpoint" / "0"))
        disk.fill()
        one.until_said("Spark resumes once it has")
        one.until_said("windows-numbered: its store is away (")
        disk.free()
        one.hurry()
        assert one.end(300.0) == 0, one.text()
        assert one.text().count("there is no room (") <= 2, one.text()
    assert totals(copied(tmp_path / "counted.db", tmp_path / "copy")) == expected(COUNT)
