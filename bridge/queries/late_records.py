"""Count the records that arrive after one of their windows was closed, before Spark aggregates them.

Spark's own number counts rows that reach its state: 300 records of a batch with the same key and window count as one.
The source therefore adds to each record, as one more column, the watermark at which its batch drops late records, and
the query counts by that. Knows a checkpoint's log of offsets and DataFrames; must not know a session, nor pyspark
before a query is made.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

COLUMN: Final = "watermark "  # in ms; no field's name can contain the blank
METRIC: Final = "late"
RECORDS: Final = "records"


def counts_late(function: object) -> bool:
    """Return True if this query wants COLUMN and counts by it."""
    return bool(getattr(function, "counts_late", False))


def drops_below(checkpoint: Path) -> int:
    """Return the watermark, in ms, below which the batch that was begun last drops records: that of the batch before
    it."""
    numbers = [int(path.name) for path in checkpoint.glob("offsets/*") if path.name.isdecimal()]
    if not numbers or (before := max(numbers) - 1) < 0:
        return 0
    try:
        lines = (checkpoint / "offsets" / str(before)).read_text().splitlines()
    except FileNotFoundError:  # Spark keeps the last hundred, so a user has removed the file
        return 0
    found: int = json.loads(lines[1])["batchWatermarkMs"]
    return found


def counted(frame: Any, at: str, every_s: int, slide_s: int, gap_s: int) -> Any:
    """Return the same rows. Spark then reports with each batch how many of them miss a window that they belong to. With
    sliding windows, the first window of a record closes first."""
    from pyspark.sql import functions as f

    time = f.unix_micros(f.col(at))
    if gap_s:
        closes = time + f.lit(gap_s * 1_000_000)
    else:
        every, slide = f.lit(every_s * 1_000_000), f.lit((slide_s or every_s) * 1_000_000)
        latest = time - every  # the first window of the record begins after this
        closes = latest - f.pmod(latest, slide) + slide + every
    late = closes <= f.col(f"`{COLUMN}`") * f.lit(1_000)
    return frame.observe(METRIC, f.count(f.when(late, 1)).alias(RECORDS))


def late_records(progress: Iterable[Mapping[str, Any]]) -> int:
    """Return how many records of these batches were late, as counted by `counted`."""
    rows = (dict(row["observedMetrics"] or {}).get(METRIC) for row in progress)
    return sum(_count(row) for row in rows if row is not None)


def _count(row: Any) -> int:
    """Return the count of a metric's row. Over Spark Connect the row has a list of values and no names. The list may be
    empty."""
    fields = row.asDict()
    found = fields["values"][0] if "values" in fields else fields.get(RECORDS)
    return int(found or 0)


def dropped_rows(progress: Iterable[Mapping[str, Any]]) -> int:
    """Return how many rows Spark dropped in these batches, by its own count."""
    return sum(part["numRowsDroppedByWatermark"] for batch in progress for part in batch["stateOperators"])
