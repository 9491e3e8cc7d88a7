"""News of a table by LISTEN and NOTIFY: a connection of its own, which is made again whenever it is lost.

Knows psycopg's notifications; must not know rows. A notification says only that it is worth looking.
"""

import asyncio
import contextlib
import logging
from random import Random
from typing import Final

from spouts.postgres.address import PostgresAddress
from spouts.postgres.session import CLOSE_S, listening
from spouts.postgres.statements import quoted

AGAIN_FIRST_S: Final = 0.05  # seconds before a lost connection is made again; doubled each time …
AGAIN_LAST_S: Final = 5.0  # … up to this many seconds

log = logging.getLogger("kedge.spouts")


class Wakeups:
    """Wakes its one waiter when it is worth looking for rows. Without a channel it never does.

    `is_listening` is False while the connection is lost: the waiter then has to look by itself.
    """

    def __init__(self, address: PostgresAddress, channel: str | None, random: Random, component: str) -> None:
        self.is_listening = False
        self._address, self._channel, self._random, self._component = address, channel, random, component
        self._news = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to listen, unless that is under way."""
        if self._channel is not None and self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(
                self._listen(quoted(self._channel)), name=f"{self._component} listens"
            )

    def wake(self) -> None:
        """Let the waiter look now."""
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Return when something has happened since the last call, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    async def close(self) -> None:
        """Stop listening. Does not raise, and takes some seconds at most."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.cancel()
            await asyncio.wait((listener,), timeout=2 * CLOSE_S)

    async def _listen(self, channel: str) -> None:
        library, delay = self._address.library, AGAIN_FIRST_S
        while True:
            try:
                connection = await listening(self._address, channel)
                try:
                    self.is_listening, delay = True, AGAIN_FIRST_S
                    self._news.set()  # something may have been missed
                    async for _ in connection.notifies():
                        self._news.set()
                finally:
                    self.is_listening = False
                    self._news.set()
                    with contextlib.suppress(Exception):
                        async with asyncio.timeout(CLOSE_S):
                            await connection.close()
            except (library.Error, OSError) as error:
                text = "%s: does not hear NOTIFY, and looks for rows more often meanwhile: %s"
                log.info(text, self._component, self._address.said(error))
            await asyncio.sleep(delay * (0.5 + self._random.random() / 2))
            delay = min(delay * 2, AGAIN_LAST_S)
