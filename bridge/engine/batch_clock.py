"""The time that bolts on Spark see: when Spark began the batch, by its own log of offsets. It is the same in each
attempt at the batch.

Spark may compute a batch, or a part of one, several times. Of each part's state it keeps what the first attempt wrote,
and of the rows those of the last attempt. All attempts must therefore produce the same state and rows, and a timer's
time is part of both. Knows positions; must not know bolts or Spark.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

TIME: Final = 8  # bytes at the beginning of a position that hold the time
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def in_batch(batch_started_us: int, position: bytes) -> bytes:
    """Return the position of a row in a batch that began at `batch_started_us`, in microseconds since 1970.
    `query.timed` does the same in Spark."""
    return batch_started_us.to_bytes(TIME, "big") + position


def batch_started_us(position: bytes) -> int:
    """Return when the batch of a position began: the reverse of `in_batch`."""
    return int.from_bytes(position[:TIME], "big")


class BatchClock:
    """The `topology.components.Clock` of bolts on Spark. `utc` returns the start of the present batch, not the wall
    clock. Before the first batch, in `open`, it returns the wall clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.monotonic = loop.time
        self.now_us = 0

    def utc(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.now_us) if self.now_us else datetime.now(UTC)
