"""Calls that are repeated while a server is away, the wait between two tries, and the messages meanwhile.

Knows the loop and the log; must not know what a call does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
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
STEADY_S: Final = 5.0  # seconds after which a server that was away counts as back, if nothing fails

log = logging.getLogger("kedge.spouts")


class ServerOutage:
    """The outages of one server, one after the other: the wait before each next try, `away`, and the log. Create it in
    a running loop.

    An outage begins with the first `failed`, and lasts until `over`. A new connection is not its end: a server that
    takes one, and then refuses what is said there, is asked at longer and longer intervals. `set_away` receives the
    text for `Spout.away`.
    """

    def __init__(self, component: str, random: Random, set_away: Callable[[str], None]) -> None:
        self.retries = 0  # number of repeated calls, over all outages
        self._component = component
        self._random = random
        self._set_away = set_away
        self._loop = asyncio.get_running_loop()
        self._steady: asyncio.TimerHandle | None = None
        self._begin()

    def _begin(self) -> None:
        self._tries, self._delay = 0, FIRST_S
        self._started_at = self._reported_at = float("-inf")
        self._is_refused = False  # the last confirmation was refused
        self._reason: ServerAway | None = None  # why; the connection is lost for it

    def failed(self, error: ServerAway) -> float:
        """Note a call that has failed, for this reason. Return the number of seconds to wait before the next one."""
        self.stop()
        error, self._reason = self._reason or error, None
        now = self._loop.time()
        if not self._tries:
            self._started_at = now
        self._tries += 1
        self.retries += 1
        away = f"{error}, retry {self._tries}"
        self._set_away(away)
        lasts_s = now - self._started_at
        if lasts_s >= LOGGED_S and now - self._reported_at >= AGAIN_S:
            self._reported_at = now
            text = "%s: %s, for %.0f s so far; its messages wait (%s)"
            log.warning(text, self._component, away, lasts_s, SERVER_AWAY)
        delay = self._delay * (0.5 + self._random.random() / 2)
        self._delay = min(self._delay * 2, LAST_S)
        return delay

    def refused(self, error: ServerAway) -> None:
        """Note that the server has refused a confirmation. The connection fails next, for this reason."""
        self._is_refused, self._reason = True, error
        self._set_away(str(error))

    def connected(self) -> None:
        """Note a new connection. It is the end of the outage if nothing fails within STEADY_S."""
        if not self._is_refused:
            self._set_away("")
        self._steady = self._loop.call_later(STEADY_S, self.over)

    def came(self) -> None:
        """Note a new message: the server is back, unless it refuses confirmations."""
        if not self._is_refused:
            self.over()

    def over(self) -> None:
        """Note that the server can be used: it has taken a confirmation, for example."""
        if not (self._tries or self._is_refused):
            return
        self.stop()
        self._set_away("")
        if self._reported_at > float("-inf"):
            log.warning("%s: its server is back, after %.0f s", self._component, self._loop.time() - self._started_at)
        self._begin()

    def stop(self) -> None:
        """Wait no longer for the end of the outage."""
        if self._steady is not None:
            self._steady.cancel()
            self._steady = None


class ServerRetries:
    """Repeats the calls of one task of a source. Create it in a running loop.

    `set_away` receives the text for `Spout.away`; the text is empty once the server answers.
    """

    def __init__(self, component: str, random: Random, set_away: Callable[[str], None]) -> None:
        self._outage = partial(ServerOutage, component, random, set_away)
        self._set_away = set_away

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Run a call, and repeat it while it raises ServerAway. Raises any other exception of the call at once."""
        outage = self._outage()
        while True:
            try:
                result = await call()
            except ServerAway as error:
                delay = outage.failed(error)
            except BaseException:
                self._set_away("")
                raise
            else:
                outage.over()
                return result
            await asyncio.sleep(delay)
