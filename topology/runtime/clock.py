"""The clock of a run: the loop's monotonic time and the wall clock. The only place of the runtime that asks for either.

Virtual time replaces the loop, and with it all deadlines; `topology.testing` brings the wall clock that goes with it.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime


class LoopClock:
    """`topology.components.Clock` over an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, utc: Callable[[], datetime] | None = None) -> None:
        self.monotonic = loop.time
        self.utc = utc or (lambda: datetime.now(UTC))
