"""Which errors of the driver of a topology on Spark are laid to what was raised in Spark's processes. Without Spark."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import StreamingQueryException

from bridge.engine.driver import error_to_fix
from bridge.engine.user_errors import ComponentRaised, RaisedNotes
from topology.codes.runtime import SINK_STORE_BROKEN
from topology.errors import WorkerError

BROKEN = WorkerError("sink: its store is broken: disk I/O error", code=SINK_STORE_BROKEN)


@pytest.fixture
def raised(tmp_path: Path) -> RaisedNotes:
    """Of a task that Spark has tried, and that may have gone well when it was tried again."""
    notes = RaisedNotes(tmp_path, "now")
    notes.write(BROKEN)
    return notes


def test_what_was_raised_in_sparks_processes_is_why_the_query_has_failed(raised: RaisedNotes) -> None:
    said, lines = error_to_fix(StreamingQueryException("[STREAM_FAILED] Job aborted due to stage failure"), raised)
    assert said.startswith("sink: its store is broken: disk I/O error; ")
    assert lines == []


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o1.isActive"),
        ConnectionRefusedError(111, "Connection refused"),
        EOFError(),
    ],
)
def test_a_jvm_that_is_gone_is_not_laid_to_what_a_task_has_raised_before_it_was_tried_again(
    raised: RaisedNotes, error: Exception
) -> None:
    """C7: the next life of the driver goes on with the batch."""
    assert error_to_fix(error, raised) == ("", [])


def test_what_a_component_has_raised_in_the_driver_is_told_before_what_spark_says(raised: RaisedNotes) -> None:
    said, _ = error_to_fix(ComponentRaised("it", "open", ValueError("no")), raised)
    assert said == "'it' could not be opened: ValueError: no"
