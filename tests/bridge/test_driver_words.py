"""What a driver says of errors that are neither Spark's nor the query's own, and of the query's own among results.
Without Spark."""

import io
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

import pyarrow as pa

from bridge.arrow.schema import arrow_schema
from bridge.driver.batch import QueryRun, keep
from bridge.driver.main import DriverVoice, ended_by, named
from bridge.errors import UserError
from bridge.files.query import Epoch, QueryFolder
from bridge.files.segments import damaged
from bridge.queries.driver_spec import QuerySpec, schema_text
from topology import Record


class Row(Record):
    number: int


def said_of(error: BaseException, query: str, folder: Path) -> str:
    out = io.StringIO()
    ended_by(error, query, folder, 1.0, DriverVoice(out))
    return out.getvalue()


def test_a_file_of_ours_that_is_damaged_ends_the_run_at_once(tmp_path: Path) -> None:
    """Three starts of Spark would find the same."""
    error = damaged(tmp_path / "epoch", "can't be read (Expecting value)")
    assert said_of(error, "hourly", tmp_path) == (
        f"failed query 'hourly' cannot resume: {tmp_path / 'epoch'} can't be read (Expecting value); put the file back "
        "from a backup; or give up all positions and all state and read every source from its start, by "
        "--fresh. (K372)\n"
    )
    assert said_of(error, "", tmp_path).startswith(f"failed {tmp_path / 'epoch'} can't be read")


def test_what_has_to_be_mended_says_of_which_query_it_is() -> None:
    assert named("the table has no column 'key'", "known") == "query 'known': the table has no column 'key'"
    assert named("query 'known' returns a list", "known") == "query 'known' returns a list"
    assert named("no Spark master answers", "") == "no Spark master answers"


def test_what_a_function_of_the_users_raises_in_a_batch_is_not_taken_for_rows_that_do_not_fit(tmp_path: Path) -> None:
    spec = QuerySpec("known", "append", {}, schema_text(arrow_schema(Row)), "Row", "")
    life = QueryRun(spec, QueryFolder(tmp_path), Epoch(), "life")

    def table(frame: Any, say: Any) -> Any:
        raise ValueError("no such table")

    frame: Any = None
    with pytest.raises(ValueError, match="no such table"):
        keep(life, frame, 0, table, print)

    class Given:
        def toArrow(self) -> pa.Table:
            return pa.table({"number": pa.array([1, None])})

    given: Any = Given()
    with pytest.raises(
        UserError, match="query 'known' has a result that Row cannot hold: 'number' is NULL in 1 of 2 rows"
    ):
        keep(life, frame, 0, lambda frame, say: given, print)


PYTHONS = """
Traceback (most recent call last):
  File "/x/engine_parts.py", line 1, in take
    raise RuntimeError(
RuntimeError: no room for a row
"""


def called(*causes: str) -> RuntimeError:
    """As py4j tells an error of Java's: what is around it comes first."""
    frames = "\n\tat a.b(c.scala:1)\n\t... 3 more\n"
    return RuntimeError("An error occurred while calling o114.getResult.\n: " + f"{frames}Caused by: ".join(causes))


@pytest.mark.parametrize(
    ("causes", "told"),
    [
        (
            [
                "org.apache.spark.SparkException: Exception thrown in awaitResult: ",
                "org.apache.spark.SparkException: Job aborted due to stage failure: Total size of serialized results "
                "of 2 tasks (1.2 MiB) is bigger than spark.driver.maxResultSize (1024.0 KiB)\n",
            ],
            "org.apache.spark.SparkException: Job aborted due to stage failure: Total size of serialized results of 2 "
            "tasks (1.2 MiB) is bigger than spark.driver.maxResultSize (1024.0 KiB)",
        ),
        (
            ["org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", "java.io.EOFException"],
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        ),
        (["java.lang.StackOverflowError"], "java.lang.StackOverflowError"),
        (
            [f"org.apache.spark.SparkException: Job aborted:{PYTHONS}", f"a.b.PythonException:{PYTHONS}"],
            "RuntimeError: no room for a row",
        ),
    ],
)
def test_what_kills_a_driver_again_and_again_is_told_by_what_java_says_of_its_cause(
    tmp_path: Path, causes: list[str], told: str
) -> None:
    error = called(*causes)
    assert [said_of(error, "hourly", tmp_path) for _ in range(2)] == ["", ""], "it may pass"
    assert said_of(error, "hourly", tmp_path) == (
        f"failed query 'hourly' has died 3 times without progress in between: {told}; "
        f"see {tmp_path.parent / 'companions' / 'spark.log'}\n"
    )


class Unsaid(Exception):
    """As an error of Java's whose JVM has gone since."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


def test_an_error_of_a_jvm_that_is_gone_since_counts_as_a_death(tmp_path: Path) -> None:
    """It would be asked for its own text, and begin the driver anew for ever."""
    assert [said_of(Unsaid(), "hourly", tmp_path) for _ in range(2)] == ["", ""]
    assert said_of(Unsaid(), "hourly", tmp_path).startswith("failed query 'hourly' has died 3 times without progress")
