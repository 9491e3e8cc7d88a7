"""What can go wrong with a query that is not Spark's fault: damaged segments, a checkpoint of another query. Each is
one sentence that says what to do, and nothing of it is among the results."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from queries_kit import Queries
from spark_kit import needs_spark
from test_query_running import Failure, Hourly, by_hour, failures

pytestmark = [needs_spark, pytest.mark.timeout(300)]

MORE = pytest.mark.slow


@pytest.fixture
def queries(session: Any, tmp_path: Path) -> Iterator[Queries]:
    made = Queries(session, tmp_path, Failure, Hourly)
    yield made
    for one in session.streams.active:
        one.stop()


def told(queries: Queries, query: Callable[..., Any]) -> str:
    """The sentence that the query ends with."""
    from bridge.spark.errors import users_mistake

    with pytest.raises(Exception, match=r"\w") as caught:  # of py4j, of Spark's, or of Python's: that does not matter
        queries.until(queries.begin(query), lambda: False, "an error of the query")
    sentence, _ = users_mistake(caught.value, "hourly")
    assert sentence, f"starting it again was tried: {caught.value}"
    return sentence


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 10)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "does not match its checksum: it was changed"),
        (garbage, "was not written by Kedge"),
        pytest.param(emptied, "is empty", marks=MORE),
    ],
)
def test_a_segment_that_is_damaged_before_spark_reads_it_is_named_and_what_to_do(
    queries: Queries, damage: Callable[[Path], None], said: str
) -> None:
    queries.input.put(failures(range(300)))
    path = queries.input.folder / "0" / "seg-000000000000.arrow"
    damage(path)
    sentence = told(queries, by_hour)
    assert sentence == (
        f"query 'hourly' cannot read its input: {path} {said}; put the file back from a backup; or "
        "give up all positions and all state and read every source from its start, by --fresh (K372)"
    )
    assert queries.folder.batches() == []


def test_a_segment_that_goes_while_spark_reads_it_is_named(tmp_path: Path) -> None:
    from bridge.driver.source import SegmentPartition, SegmentReader
    from bridge.files.segments import damaged
    from topology import ConfigurationError

    options = {"folder": str(tmp_path), "input": "failures", "begin": "{}", "life": "1", "parts": "1"}
    gone = tmp_path / "seg-000000000000.arrow"
    with pytest.raises(ConfigurationError) as caught:
        next(SegmentReader(options, ["at"]).read(SegmentPartition([str(gone)])))
    assert str(caught.value) == str(damaged(gone, "is missing"))


def by_hour_and_user(given: Any) -> Any:
    from pyspark.sql.functions import col, window

    hours = given.withWatermark("at", "5 minutes").groupBy(window("at", "1 hour").alias("w"), "source_ip", "user")
    return hours.count().select(col("w.start").alias("start"), "source_ip", col("count").alias("failures"))


def each(given: Any) -> Any:
    return given.selectExpr("at as start", "source_ip", "1L as failures")


def twice(given: Any) -> Any:
    return by_hour(given.unionByName(given))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (by_hour, by_hour_and_user, "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE]"),
        pytest.param(by_hour, each, "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA]", marks=MORE),
        pytest.param(each, by_hour, "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY]", marks=MORE),
        pytest.param(by_hour, twice, "There are [1] sources in the checkpoint offsets", marks=MORE),
    ],
    ids=["other keys", "no state", "state", "two inputs"],
)
def test_a_query_that_is_changed_so_that_its_checkpoint_does_not_fit_says_what_to_do(
    queries: Queries, before: Callable[..., Any], after: Callable[..., Any], said: str
) -> None:
    queries.input.put(failures(range(300)))
    running = queries.begin(before)
    queries.until_committed(running, 0)  # a query may take over a first batch that the one before has not committed
    queries.stop(running)
    there = queries.results()
    queries.input.put(failures(range(300, 400)))
    sentence = told(queries, after)
    wanted = "query 'hourly' does not match its checkpoint; restore it as it was; or give it another name;"
    assert sentence.startswith(wanted), sentence
    assert said in sentence
    assert queries.results() == there


def test_a_null_in_a_part_of_an_optional_record_is_named_by_the_driver(session: Any, tmp_path: Path) -> None:
    """And not, batches later, by who reads the results."""
    from test_fitting import Outer

    from bridge.errors import UserError

    queries = Queries(session, tmp_path, Failure, Outer)
    queries.input.put(failures(range(3)))
    inner = "named_struct('a', cast(null as bigint), 'b', 'x') as inner"
    many = "cast(array() as array<struct<a: bigint, b: string>>) as many"
    running = queries.begin(lambda given: given.selectExpr("1L as number", inner, many))
    with pytest.raises(UserError, match=r"has a result that Outer cannot hold: 'inner\.a' is NULL in 3 of 3 rows"):
        queries.until(running, lambda: False)
    assert queries.folder.batches() == []
    queries.stop(running)
