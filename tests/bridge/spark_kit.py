"""What tests of the bridge share: whether Spark is there, and segments as the hand-over writes them."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from bridge.arrow.schema import arrow_schema, to_table
from bridge.files.segments import Segments
from topology import Record


def missing() -> str:
    """Why Spark can't be run here; empty where it can."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed: pip install 'kedge-streams[spark]'"
    from bridge.spark.java import missing as no_java

    return no_java()


needs_spark = pytest.mark.skipif(bool(missing()), reason=missing())


class HandedOver:
    """Segments of one input, written by hand: what a bolt has handed over, with the columns that are not the user's."""

    def __init__(self, query: Path, name: str, tasks: int = 1) -> None:
        self.folder = query / "stream" / name
        self.next = dict.fromkeys(range(tasks), 0)
        for task in range(tasks):
            (self.folder / str(task)).mkdir(parents=True, exist_ok=True)
        (self.folder / "tasks").write_text(str(tasks))

    def put(self, records: Sequence[Record], task: int = 0) -> None:
        """One segment."""
        cls = type(records[0])
        rows = to_table(cls, records)
        ids = pa.array([bytes(16)] * len(records), pa.binary(16))
        batch = pa.RecordBatch.from_arrays(
            [*rows.columns, ids], schema=pa.schema([*arrow_schema(cls), pa.field("_id", pa.binary(16), False)])
        )
        Segments(self.folder / str(task)).write(self.next[task], batch)
        self.next[task] += 1

    def end(self) -> None:
        """All tasks have flushed."""
        for task, number in self.next.items():
            Segments(self.folder / str(task)).end(number)

    def begin(self) -> None:
        """The next run: nobody is at an end any more."""
        for task in self.next:
            Segments(self.folder / str(task)).goes_on()

    def done(self) -> dict[int, int]:
        """How far the driver says that all readers are."""
        return {task: Segments(self.folder / str(task)).done() for task in self.next}

    def forget(self, task: int, number: int) -> None:
        """What the hand-over does with what is done."""
        Segments(self.folder / str(task)).remove([number])
