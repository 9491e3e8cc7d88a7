"""How many records come after a window of theirs was closed, counted before Spark sums them up.

Spark's own number counts what reaches its state: 300 records of a batch with one key and window are one there. So the
source gives each record the watermark by which its batch drops, as one more column, and the query counts by that. Knows
a checkpoint's log of offsets and DataFrames; must not know a session, nor pyspark before a query is made.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

COLUMN: Final = "watermark "  # in ms; the blank: no field is called so
METRIC: Final = "late"
RECORDS: Final = "records"


def counts_late(function: object) -> bool:
    """Whether this query wants COLUMN, and counts by it."""
    return bool(getattr(function, "counts_late", False))


def drops_below(checkpoint: Path) -> int:
    """The watermark, in ms, by which the batch that was begun last drops what is late: that of the batch before it."""
    numbers = [int(path.name) for path in checkpoint.glob("offsets/*") if path.name.isdecimal()]
    if not numbers or (before := max(numbers) - 1) < 0:
        return 0
    try:
        lines = (checkpoint / "offsets" / str(before)).read_text().splitlines()
    except FileNotFoundError:  # Spark keeps a hundred; it was removed by hand
        return 0
    found: int = json.loads(lines[1])["batchWatermarkMs"]
    return found


def counted(frame: Any, at: str, every_s: int, slide_s: int, gap_s: int) -> Any:
    """The same rows; Spark tells with each batch how many of them miss a window that they would be in. Of sliding
    windows the first that a record is in is closed first."""
    from pyspark.sql import functions as f

    time = f.unix_micros(f.col(at))
    if gap_s:
        closes = time + f.lit(gap_s * 1_000_000)
    else:
        every, slide = f.lit(every_s * 1_000_000), f.lit((slide_s or every_s) * 1_000_000)
        latest = time - every  # the first window begins after this
        closes = latest - f.pmod(latest, slide) + slide + every
    late = closes <= f.col(f"`{COLUMN}`") * f.lit(1_000)
    return frame.observe(METRIC, f.count(f.when(late, 1)).alias(RECORDS))


def late_records(progress: Iterable[Mapping[str, Any]]) -> int:
    """How many of the records of these batches were late, as `counted` has it."""
    told = (dict(one["observedMetrics"] or {}).get(METRIC) for one in progress)
    return sum(_count(one) for one in told if one is not None)


def _count(row: Any) -> int:
    """Of a metric's row, which over Spark Connect has a list of its values, and no names. There may be none."""
    told = row.asDict()
    found = told["values"][0] if "values" in told else told.get(RECORDS)
    return int(found or 0)


def dropped_rows(progress: Iterable[Mapping[str, Any]]) -> int:
    """How many rows Spark has dropped in these batches, as it counts them."""
    return sum(part["numRowsDroppedByWatermark"] for one in progress for part in one["stateOperators"])
