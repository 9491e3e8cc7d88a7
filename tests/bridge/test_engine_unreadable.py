"""What is said where Spark can't read the state of bolts in its checkpoint. Without Spark, by its words."""

from pathlib import Path

import pytest

from bridge.engine.offsets import unreadable

FAILED = """An error occurred while calling o139.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.{}  SQLSTATE: 58030
\tat org.apache.spark.sql.execution.streaming.state.StateStoreErrors$.cannotLoadStore(StateStoreErrors.scala:287)
Caused by: {}
\tat org.apache.spark.sql.execution.streaming.state.StateStoreChangelogReaderFactory.liftedTree2$1(State.scala:377)
"""
LOADING = "UNCATEGORIZED] An error occurred during loading state."
FILE = "Error reading streaming state file of file:/x/1.changelog does not exist"
GONE = (
    f"CANNOT_READ_STREAMING_STATE_FILE] An error occurred during loading state. {FILE}. If the stream job is restarted"
)


@pytest.mark.parametrize(
    ("said", "cause", "why"),
    [
        (
            LOADING,
            "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/x/1.changelog at 0 exp: -1 got: 2",
            "ChecksumException: Checksum error: file:/x/1.changelog at 0 exp: -1 got: 2",
        ),
        (LOADING, "org.rocksdb.RocksDBException: Corruption: no file", "RocksDBException: Corruption: no file"),
        (GONE, "java.io.FileNotFoundException: /x/1.changelog", FILE),
    ],
)
def test_state_that_is_damaged_or_gone_is_told_in_a_sentence_with_what_to_do(said: str, cause: str, why: str) -> None:
    """Three starts of Spark would find the same."""
    assert unreadable(RuntimeError(FAILED.format(said, cause))) == (
        f"the state of bolts in Spark's checkpoint can't be read: {why}; restore the state directory from one copy; or "
        "give up all positions and all state and read every source from its start, by --fresh"
    )


def test_what_may_pass_is_not_taken_for_state_that_is_damaged() -> None:
    for said in (LOADING, GONE):
        assert unreadable(RuntimeError(FAILED.format(said, "java.io.IOException: No space left on device"))) == ""
        cause = "java.io.EOFException: Premature EOF from inputStream"  # of a connection
        assert unreadable(RuntimeError(FAILED.format(said, cause))) == ""
    assert unreadable(RuntimeError("java.io.EOFException: a process has died")) == ""


def test_a_file_that_an_executor_does_not_see_and_the_driver_does_is_not_taken_for_gone(tmp_path: Path) -> None:
    """In a folder that machines share it may only be late."""
    late = tmp_path / "1 (old).changelog"
    cause = f"java.io.FileNotFoundException: File file:{late} does not exist"
    assert unreadable(RuntimeError(FAILED.format(LOADING, cause))) != ""
    late.touch()
    assert unreadable(RuntimeError(FAILED.format(LOADING, cause))) == ""
    assert unreadable(RuntimeError(FAILED.format(GONE.replace("/x/1.changelog", str(late)), cause))) == ""


@pytest.mark.parametrize("said", [LOADING, GONE])
@pytest.mark.parametrize(
    "reason", ["Too many open files", "Permission denied", "No space left on device", "Read-only file system"]
)
def test_a_file_that_could_not_be_opened_for_a_reason_that_may_pass_is_not_taken_for_gone(
    said: str, reason: str
) -> None:
    """The advice to begin anew would throw away state that is whole."""
    cause = f"java.io.FileNotFoundException: /x (old)/1.changelog ({reason})"
    assert unreadable(RuntimeError(FAILED.format(said, cause))) == ""


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.FileNotFoundException: /x (old)/1.changelog (No such file or directory)",
        "java.io.FileNotFoundException: File file:/x (old)/1.changelog does not exist",
    ],
)
def test_a_file_that_is_gone_is_told_as_that_however_java_says_it(cause: str) -> None:
    assert unreadable(RuntimeError(FAILED.format(LOADING, cause))).startswith(
        f"the state of bolts in Spark's checkpoint can't be read: {cause.removeprefix('java.io.')}; restore"
    )
