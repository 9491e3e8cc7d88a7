"""The clock of a run: the loop's monotonic time and the wall clock. No other module of the runtime reads either.

Virtual time replaces the loop, and with it all deadlines. `topology.testing` supplies the matching wall clock.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the time of the wall clock."""
    return datetime.now(UTC)


class LoopClock:
    """`topology.components.Clock` over an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, utc: Callable[[], datetime] | None = None) -> None:
        self.monotonic = loop.time
        self.utc = utc or utc_now
