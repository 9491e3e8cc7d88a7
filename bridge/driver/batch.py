"""The handling of one batch of a query's results: write its rows to a file, and determine how far its input was read.
Runs in the driver or, over Spark Connect, in the server that calls functions per batch.

Knows files and what a query declares; must not know who runs it, nor what happens at its end.
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
    """One query in one life of its driver and in one of its epochs."""

    spec: QuerySpec
    folder: QueryFolder
    epoch: Epoch
    life: str


@dataclass(frozen=True)
class BatchOutcome:
    """The result of a batch. `before`: the end of the batch before it, below which no reader will read again. `ended`:
    the end of the stream, set only in the batch that holds nothing but the reports of all tasks that they end."""

    rows: int
    before: Ends | None
    ended: Ends | None


def keep(of: QueryRun, frame: DataFrame, batch: int, in_batch: InBatch, say: Callable[[str], None]) -> BatchOutcome:
    """Write the rows of a batch, which are durable when this returns. Raises UserError."""
    declared = of.spec.output_schema()
    try:
        table = fitted(in_batch(frame, say).toArrow(), wanted(of.spec))
    except ValueError as error:
        if users_place(error):
            raise  # raised in a user's function, for example for a table: reported with its traceback
        raise UserError(f"query {of.spec.name!r} has a result that {of.spec.declares} cannot hold: {error}") from error
    number = of.epoch.base + batch
    if of.spec.revision:
        table = table.append_column(of.spec.revision, pa.array([number] * table.num_rows, pa.int64()))
    of.folder.write(number, table.select(declared.names))
    before = reached(offsets(of, batch - 1)) if batch else None
    read = offsets(of, batch)
    ended = all(offset["ended"] == of.life for found in read.values() for offset in found)
    return BatchOutcome(table.num_rows, before, reached(read) if ended else None)


def wanted(spec: QuerySpec) -> pa.Schema:
    """Return the columns that a query has to return."""
    return pa.schema([field for field in spec.output_schema() if field.name != spec.revision])


def offsets(of: QueryRun, batch: int) -> dict[str, list[dict[str, Any]]]:
    """Return where a batch ends, by input. An input that the query reads twice has two offsets. Raises UserError."""
    lines = (of.folder.checkpoint(of.epoch) / "offsets" / str(batch)).read_text().splitlines()[2:]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in of.spec.inputs}
    for line in lines:
        offset = json.loads(line) if line.startswith("{") else {}
        if offset.get("input") in found:  # otherwise it belongs to a stream that the user's function reads by itself
            found[offset["input"]].append(offset)
    if unread := [name for name, read in found.items() if not read]:
        raise UserError(f"query {of.spec.name!r} does not use its input {unread[0]!r}")
    return found


def reached(read: Mapping[str, list[dict[str, Any]]]) -> Ends:
    """Return how far all readers of each input are."""
    return {name: lowest(offset["next"] for offset in found) for name, found in read.items()}


def as_it_is(frame: DataFrame, say: Callable[[str], None]) -> DataFrame:
    """Return a batch of results unchanged: the `in_batch` of a query that has none."""
    return frame
