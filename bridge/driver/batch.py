"""What becomes of a batch of a query's results: rows in a file, and how far its input is. In the driver, or where Spark
Connect runs what it is given for batches.

Knows files and what a query declares; not who runs it, nor what its end brings about.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from bridge.arrow.schema import fitted
from bridge.errors import UserError
from bridge.files.query import Ends, Epoch, QueryFolder, lowest
from bridge.queries.driver_spec import QuerySpec
from topology.user_frames import users_place

InBatch: TypeAlias = Callable[..., DataFrame]


@dataclass(frozen=True)
class QueryRun:
    """One query in one life of its driver, and in one of its epochs."""

    spec: QuerySpec
    folder: QueryFolder
    epoch: Epoch
    life: str


@dataclass(frozen=True)
class BatchOutcome:
    """What a batch came to. `before`: up to where no reader will ask again; `ended`: where all tasks have said that
    they end, of the batch that has nothing but that."""

    rows: int
    before: Ends | None
    ended: Ends | None


def keep(of: QueryRun, frame: DataFrame, batch: int, in_batch: InBatch, say: Callable[[str], None]) -> BatchOutcome:
    """Writes the rows of a batch, which are durable when it returns. Raises NeedsMending."""
    declared = of.spec.output_schema()
    try:
        table = fitted(in_batch(frame, say).toArrow(), wanted(of.spec))
    except ValueError as error:
        if users_place(error):
            raise  # of a function of the user's, for a table say: that is told with its traceback
        raise UserError(f"query {of.spec.name!r} gives what {of.spec.declares} can't hold: {error}") from error
    number = of.epoch.base + batch
    if of.spec.revision:
        table = table.append_column(of.spec.revision, pa.array([number] * table.num_rows, pa.int64()))
    of.folder.write(number, table.select(declared.names))
    before = reached(offsets(of, batch - 1)) if batch else None
    read = offsets(of, batch)
    ended = all(one["ended"] == of.life for found in read.values() for one in found)
    return BatchOutcome(table.num_rows, before, reached(read) if ended else None)


def wanted(spec: QuerySpec) -> pa.Schema:
    """The columns that a query has to give."""
    return pa.schema([one for one in spec.output_schema() if one.name != spec.revision])


def offsets(of: QueryRun, batch: int) -> dict[str, list[dict[str, Any]]]:
    """Where a batch ends, by input; one that the query reads twice has two. Raises NeedsMending."""
    lines = (of.folder.checkpoint(of.epoch) / "offsets" / str(batch)).read_text().splitlines()[2:]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in of.spec.inputs}
    for line in lines:
        offset = json.loads(line) if line.startswith("{") else {}
        if offset.get("input") in found:  # else of a stream that the user's function reads by itself
            found[offset["input"]].append(offset)
    if unread := [name for name, read in found.items() if not read]:
        raise UserError(f"query {of.spec.name!r} makes nothing of its input {unread[0]!r}")
    return found


def reached(read: Mapping[str, list[dict[str, Any]]]) -> Ends:
    """How far all readers of each input are."""
    return {name: lowest(one["next"] for one in found) for name, found in read.items()}


def as_it_is(frame: DataFrame, say: Callable[[str], None]) -> DataFrame:
    """What a query without `in_batch` makes of a batch of its results."""
    return frame
