"""Ticker: the time as a source."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from acker.identity import MessageId
from spouts.checks import alone, no_position
from topology.codes.settings import INVALID_TICKER
from topology.components import Message, Spout, Task
from topology.errors import ConfigurationError
from topology.records import Record

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
LONGEST_SLEEP_S: Final = 1.0  # the wall clock may be set during the sleep


class Tick(Record):
    """A multiple of the ticker's period. `at` is the time at which it was due, in UTC."""

    at: datetime


class Ticker(Spout):
    """Emits a `Tick` at each multiple of `every_s` seconds since 1970 in UTC, `count` of them, or without end.

        ticks = topology.spout("minutes", Ticker(60.0))

    A message's id is its due time in microseconds since 1970, so that after a restart, or after the clock was set back,
    another tick never has the id of an earlier one (C2). Ids only grow: while the clock is behind the last tick, the
    ticker emits none. Missed ticks are skipped: after a pause only the latest due tick comes, late. Ticks that were due
    while no run was active do not come at all, unless a position says that the last one was not done.

    One task. Raises ConfigurationError for a period under a millisecond, a count under 1, or several tasks.
    """

    given_again = "never"

    def __init__(self, every_s: float, count: int | None = None) -> None:
        if not 0.001 <= every_s < float("inf"):
            text = f"Ticker's every_s is a number of seconds of at least 0.001, not {every_s!r}"
            raise ConfigurationError(text, code=INVALID_TICKER)
        if count is not None and count < 1:
            raise ConfigurationError(f"Ticker's count is at least 1, not {count!r}", code=INVALID_TICKER)
        self.every_s = every_s
        self.count = count
        self._period = round(every_s * 1_000_000)
        self._last = 0
        self._emitted = 0

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        """Begin with the next due tick, or with the one at the position."""
        alone(task, "is a clock")
        self._clock = task.clock
        position = positions.get("")
        if position is None:
            self._last = self._now() - 1  # a tick that is due right now is emitted
        elif type(position) is int:
            self._last = position - 1
        else:
            raise no_position(position, "a position of a ticker is a number of microseconds")

    async def poll(self, limit: int) -> list[Message[Tick]]:
        """Wait for the next tick. Cancelling it skips none."""
        if self._emitted == self.count:
            return []
        while True:
            now = self._now()
            due = now - now % self._period
            if due > self._last:
                self._last = due
                self._emitted += 1
                at = EPOCH + due * MICROSECOND
                return [Message(Tick(at), due, at=at)]
            next_due = self._last - self._last % self._period + self._period
            await asyncio.sleep(min((next_due - now) / 1_000_000, LONGEST_SLEEP_S))

    def _now(self) -> int:
        """Return microseconds since 1970."""
        return (self._clock.utc() - EPOCH) // MICROSECOND
