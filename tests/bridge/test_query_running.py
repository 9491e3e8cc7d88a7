"""A query over segments written by hand, in one Spark session of this process: its results, its ends, its mistakes."""

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from queries_kit import Queries
from spark_kit import needs_spark

from topology import Record

pytestmark = [needs_spark, pytest.mark.timeout(300)]

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


class Failure(Record):
    at: datetime
    source_ip: str
    user: str | None


class Hourly(Record):
    start: datetime
    source_ip: str
    failures: int


def failures(minutes: range) -> list[Failure]:
    return [Failure(FIRST + timedelta(minutes=one), f"ip{one % 3}", None) for one in minutes]


def by_hour(given: Any) -> Any:
    from pyspark.sql.functions import col, window

    hours = given.withWatermark("at", "5 minutes").groupBy(window("at", "1 hour").alias("w"), "source_ip").count()
    return hours.select(col("w.start").alias("start"), "source_ip", col("count").alias("failures"))


def counted(records: list[Failure]) -> Counter[tuple[datetime, str]]:
    """The same in plain Python."""
    return Counter((one.at.replace(minute=0), one.source_ip) for one in records)


@pytest.fixture
def queries(session: Any, tmp_path: Path) -> Iterator[Queries]:
    made = Queries(session, tmp_path, Failure, Hourly)
    yield made
    for one in session.streams.active:
        one.stop()


def told(results: list[Hourly]) -> dict[tuple[datetime, str], int]:
    found = {(one.start, one.source_ip): one.failures for one in results}
    assert len(found) == len(results), "a window has two results"
    return found


def test_each_window_has_one_result_the_last_ones_with_the_end_and_what_comes_after_an_end_is_not_late(
    queries: Queries,
) -> None:
    """C7, D16: across an end, lives of the driver, and a second run of the same records' times."""
    first, folder = failures(range(600)), queries.folder
    queries.input.put(first[:100])
    queries.input.put(first[100:300], task=1)
    running = queries.begin(by_hour)
    queries.until(running, lambda: len(folder.batches()) > 0)
    queries.stop(running)
    queries.input.put(first[300:])
    queries.input.end()
    running = queries.begin(by_hour)
    queries.until(running, lambda: folder.ended() is not None)
    assert told(queries.results()) == counted(first)
    assert folder.ended() == {"failures": {"0": 2, "1": 1}}
    assert queries.input.done() == {0: 2, 1: 1}

    for task, number in ((0, 0), (0, 1), (1, 0)):
        queries.input.forget(task, number)
    queries.input.begin()
    second, newest = failures(range(120)), folder.batches()[-1]
    queries.input.put(second, task=1)
    running = queries.begin(by_hour)
    assert folder.ended() is not None  # until it has looked
    queries.until(running, lambda: folder.ended() is None)
    queries.input.end()
    queries.until(running, lambda: folder.ended() is not None)
    assert told(queries.results(since=newest + 1)) == counted(second)
    assert queries.input.done() == {0: 2, 1: 2}


def test_a_driver_that_dies_between_the_end_and_its_last_windows_goes_on_there_and_takes_nothing_new_in(
    queries: Queries,
) -> None:
    """C7, D16: where an epoch ends is settled before its watermark moves; later segments are for the next one."""
    first, folder = failures(range(300)), queries.folder
    queries.input.put(first)
    queries.input.end()
    running = queries.begin(by_hour)
    pause = threading.Event()
    while folder.closing() is None:
        pause.wait(0.001)
    queries.stop(running)
    assert folder.ended() is None
    queries.input.begin()
    second = failures(range(60))
    queries.input.put(second, task=1)
    running = queries.begin(by_hour)
    queries.until(running, lambda: folder.epoch() is not None and folder.epoch().number == 1)  # type: ignore[union-attr]
    ended = told(queries.results())
    assert ended == counted(first)
    newest = folder.batches()[-1]
    queries.input.end()
    queries.until(running, lambda: folder.ended() is not None)
    assert told(queries.results(since=newest + 1)) == counted(second)


def test_spark_listens_on_loopback_alone(session: Any) -> None:
    java = [one for one in psutil.Process().children(recursive=True) if one.name() == "java"]
    places = {one.laddr.ip for jvm in java for one in jvm.net_connections("inet") if one.status == psutil.CONN_LISTEN}
    assert places, "no port at all?"
    assert {place.removeprefix("::ffff:") for place in places} <= {"127.0.0.1", "::1"}


def test_a_query_in_update_mode_gives_each_change_and_its_end_changes_nothing(queries: Queries) -> None:
    records = failures(range(90))
    queries.input.put(records)
    queries.input.end()
    queries.until(queries.begin(by_hour, mode="update"), lambda: queries.folder.ended() is not None)
    assert told(queries.results()) == counted(records)


def test_a_filter_that_drops_what_has_no_user_does_not_keep_the_last_windows_from_closing(queries: Queries) -> None:
    """The end is no row, so nothing of a query can drop it, or take it for a record."""
    records = [Failure(FIRST + timedelta(minutes=one), "ip", "root" if one % 2 else None) for one in range(90)]
    queries.input.put(records)
    queries.input.end()
    running = queries.begin(lambda given: by_hour(given.where("user = 'root'")))
    queries.until(running, lambda: queries.folder.ended() is not None)
    assert told(queries.results()) == counted([one for one in records if one.user == "root"])


def test_a_stream_without_a_record_ends_without_a_result(queries: Queries) -> None:
    queries.input.end()
    queries.until(queries.begin(by_hour), lambda: queries.folder.ended() is not None)
    assert queries.results() == []
    assert queries.folder.ended() == {"failures": {"0": 0, "1": 0}}


def test_columns_that_the_output_does_not_declare_are_named_before_the_query_starts(queries: Queries) -> None:
    from bridge.errors import UserError

    with pytest.raises(UserError) as caught:
        queries.begin(lambda given: by_hour(given).withColumnRenamed("failures", "count").selectExpr("*", "1L as one"))
    text = str(caught.value)
    assert "query 'hourly' returns other columns than Hourly has" in text
    assert "there is no column 'failures'" in text
    assert "'count' is not declared" in text
    assert "'one' is not declared" in text
    with pytest.raises(UserError, match="'failures' is string, but int64 is declared"):
        queries.begin(lambda given: by_hour(given).selectExpr("start", "source_ip", "string(failures) as failures"))


def test_a_function_that_returns_no_stream_is_told_so(queries: Queries) -> None:
    from bridge.errors import UserError

    with pytest.raises(UserError, match="returns a NoneType; it must return a DataFrame made from its input"):
        queries.begin(lambda given: None)
    with pytest.raises(UserError, match="returns a DataFrame that is no stream"):
        queries.begin(lambda given: queries.session.range(3))


def test_a_null_where_the_output_has_none_is_named_and_nothing_of_its_batch_is_kept(queries: Queries) -> None:
    from bridge.errors import UserError

    queries.input.put(failures(range(3)))
    running = queries.begin(lambda given: given.selectExpr("at as start", "user as source_ip", "1L as failures"))
    with pytest.raises(UserError, match=r"cannot hold: 'source_ip' is NULL in 3 of 3 rows"):
        queries.until(running, lambda: False)
    assert queries.folder.batches() == []


def test_what_comes_later_than_its_watermark_is_told(queries: Queries) -> None:
    """D16."""
    folder = queries.folder
    queries.input.put(failures(range(600)))
    running = queries.begin(by_hour)
    queries.until(running, lambda: len(folder.batches()) > 0)
    queries.input.put(failures(range(3)))
    queries.input.end()
    queries.until(running, lambda: folder.ended() is not None)
    assert any(
        "hourly: Spark has dropped rows that came later than its watermark, 3 so far" in one for one in queries.said
    )
    assert told(queries.results()) == counted(failures(range(600)))


def test_what_may_pass_is_no_mistake_of_the_users(queries: Queries) -> None:
    """A JVM that is gone, or a folder that is: starting the driver again may help."""
    from py4j.protocol import Py4JNetworkError

    from bridge.driver.main import first_end
    from bridge.spark.errors import users_mistake

    def asking_nobody(given: Any) -> Any:
        raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(Py4JNetworkError) as gone:
        queries.begin(asking_nobody)
    assert users_mistake(gone.value, "hourly") == ("", [])
    queries.input.put(failures(range(3)))
    queries.folder.results.mkdir(parents=True, exist_ok=True)
    running = queries.begin(lambda given: given.selectExpr("at as start", "source_ip", "1L as failures"))
    queries.folder.results.rmdir()
    queries.folder.results.touch()
    name, away = first_end([running])
    assert name == "hourly"
    assert isinstance(away, NotADirectoryError)
    assert users_mistake(away, "hourly") == ("", [])


@pytest.mark.filterwarnings("ignore:Cannot infer the eval type")  # Spark's, about any function of values
def test_what_a_query_raises_is_the_users_to_mend_wherever_it_is_raised(queries: Queries) -> None:
    from pyspark.sql.functions import udf

    from bridge.spark.errors import users_mistake

    def raising(given: Any) -> Any:
        raise ValueError("no such hour")

    with pytest.raises(ValueError, match="no such hour") as built:
        queries.begin(raising)
    sentence, lines = users_mistake(built.value, "hourly")
    assert sentence.startswith("query 'hourly' has raised ValueError: no such hour (")
    assert sentence.endswith(", in raising)")
    assert "test_query_running.py" in lines[1]

    def asking_for_nothing(given: Any) -> Any:
        return given.select("nothing")

    with pytest.raises(Exception, match="nothing") as analysed:
        queries.begin(asking_for_nothing)
    assert "AnalysisException" in users_mistake(analysed.value, "hourly")[0]

    def broken(text: str) -> str:
        raise KeyError(text)

    queries.input.put(failures(range(3)))
    running = queries.begin(
        lambda given: given.select("at", udf(broken)("source_ip").alias("source_ip")).selectExpr(
            "at as start", "source_ip", "1L as failures"
        )
    )
    with pytest.raises(Exception, match="KeyError") as ran:
        queries.until(running, lambda: False)
    sentence, lines = users_mistake(ran.value, "hourly")
    assert sentence.startswith("query 'hourly' has raised KeyError: 'ip0' (")
    assert sentence.endswith(", in broken)")
    assert "raise KeyError(text)" in "\n".join(lines)
