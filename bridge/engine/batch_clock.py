"""The time that bolts on Spark are told: when Spark began the batch, by its own log of offsets, in each attempt at it.

Spark may compute a batch, or a part of one, several times, and keeps of each part's state what the first attempt has
written, and of the rows those of the last. So all attempts have to come to the same state and rows, and a timer's time
is part of both. Knows positions; no bolts, no Spark.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

TIME: Final = 8  # bytes at the beginning of a position
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def in_batch(begun_us: int, position: bytes) -> bytes:
    """The position of a row in a batch that began then, in microseconds since 1970; `engine_query` has Spark do it."""
    return begun_us.to_bytes(TIME, "big") + position


def begun_us(position: bytes) -> int:
    """The reverse: when its batch began."""
    return int.from_bytes(position[:TIME], "big")


class BatchClock:
    """`topology.components.Clock` of bolts on Spark: `utc` is the time of the batch that is worked on, whatever the
    wall clock says; before the first batch, in `open`, it is the wall clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.monotonic = loop.time
        self.now_us = 0

    def utc(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.now_us) if self.now_us else datetime.now(UTC)
