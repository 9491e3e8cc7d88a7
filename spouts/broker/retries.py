"""Calls that are repeated while a server is away, the wait between two tries, and the messages meanwhile.

Knows the loop and the log; must not know what a call does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from topology.clients.errors import ServerAway
from topology.codes.connectors import SERVER_AWAY

T = TypeVar("T")

FIRST_S: Final = 0.05  # seconds before the first repeated call; doubled each time …
# … up to this many seconds; each wait is between half of it and all, so that many tasks do not ask in step
LAST_S: Final = 5.0
LOGGED_S: Final = 1.0  # seconds; a longer outage is logged
AGAIN_S: Final = 30.0  # seconds between two log lines of one outage

log = logging.getLogger("kedge.spouts")


class ServerRetries:
    """Repeats the calls of one task of a source. Create it in a running loop.

    `set_away` receives the text for `Spout.away`; the text is empty once the server answers.
    """

    def __init__(self, component: str, random: Random, set_away: Callable[[str], None]) -> None:
        self.retries = 0  # number of repeated calls, over all outages
        self._component = component
        self._random = random
        self._set_away = set_away
        self._loop = asyncio.get_running_loop()

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Run a call, and repeat it while it raises ServerAway. Raises any other exception of the call at once."""
        started_at, reported_at, tries = self._loop.time(), float("-inf"), 0
        delay = FIRST_S
        while True:
            try:
                result = await call()
            except ServerAway as error:
                now = self._loop.time()
                tries += 1
                self.retries += 1
                away = f"{error}, retry {tries}"
                self._set_away(away)
                if now - started_at >= LOGGED_S and now - reported_at >= AGAIN_S:
                    reported_at = now
                    text = "%s: %s, for %.0f s so far; its messages wait (%s)"
                    log.warning(text, self._component, away, now - started_at, SERVER_AWAY)
            except BaseException:
                self._set_away("")
                raise
            else:
                if tries:
                    self._set_away("")
                if reported_at > started_at:
                    away_s = self._loop.time() - started_at
                    log.warning("%s: its server is back, after %.0f s", self._component, away_s)
                return result
            await asyncio.sleep(delay * (0.5 + self._random.random() / 2))
            delay = min(delay * 2, LAST_S)
