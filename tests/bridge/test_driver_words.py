"""What a driver says of errors that are neither Spark's nor the query's own, and of the query's own among results.
Without Spark."""

import io
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'kedge[spark]'")

import pyarrow as pa

from bridge.batches import Epoch, QueryFolder
from bridge.driver import Voice, ended_by, named
from bridge.keeping import Life, keep
from bridge.mistakes import NeedsMending
from bridge.schema import arrow_schema
from bridge.segments import damaged
from bridge.spec import QuerySpec, schema_text
from topology import Record


class Row(Record):
    number: int


def said_of(error: BaseException, query: str, folder: Path) -> str:
    out = io.StringIO()
    ended_by(error, query, folder, 1.0, Voice(out))
    return out.getvalue()


def test_a_file_of_ours_that_is_damaged_ends_the_run_at_once(tmp_path: Path) -> None:
    """Three starts of Spark would find the same."""
    error = damaged(tmp_path / "epoch", "can't be read (Expecting value)")
    assert said_of(error, "hourly", tmp_path) == (
        f"failed query 'hourly' can't go on: {tmp_path / 'epoch'} can't be read (Expecting value); put the file back "
        "from a backup; or begin anew with --fresh, which reads the sources from their start. (K372)\n"
    )
    assert said_of(error, "", tmp_path).startswith(f"failed {tmp_path / 'epoch'} can't be read")


def test_what_has_to_be_mended_says_of_which_query_it_is() -> None:
    assert named("the table has no column 'key'", "known") == "query 'known': the table has no column 'key'"
    assert named("query 'known' returns a list", "known") == "query 'known' returns a list"
    assert named("no Master of Spark's answers", "") == "no Master of Spark's answers"


def test_what_a_function_of_the_users_raises_in_a_batch_is_not_taken_for_rows_that_do_not_fit(tmp_path: Path) -> None:
    spec = QuerySpec("known", "append", {}, schema_text(arrow_schema(Row)), "Row", "")
    life = Life(spec, QueryFolder(tmp_path), Epoch(), "life")

    def table(frame: Any, say: Any) -> Any:
        raise ValueError("no such table")

    frame: Any = None
    with pytest.raises(ValueError, match="no such table"):
        keep(life, frame, 0, table, print)

    class Given:
        def toArrow(self) -> pa.Table:
            return pa.table({"number": pa.array([1, None])})

    given: Any = Given()
    with pytest.raises(NeedsMending, match="query 'known' gives what Row can't hold: 'number' is NULL in 1 of 2 rows"):
        keep(life, frame, 0, lambda frame, say: given, print)
