"""Waiting for room: in a queue that must drain, or in a store that must be writable again."""

import asyncio


class WaitingRoom:
    """The futures of those that wait for one thing. Used on the loop alone."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[None]] = []

    def future(self) -> asyncio.Future[None]:
        """Return a new future that `let_in` will set."""
        future = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        return future

    def let_in(self) -> None:
        """Set all futures that are not cancelled."""
        for future in self.futures:
            if not future.done():
                future.set_result(None)
        self.futures.clear()
