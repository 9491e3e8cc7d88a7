"""Retries of one task's timers, and of what they have emitted: for how long, and how often.

Must not know what a try is.
"""

import asyncio
import logging
from collections.abc import Iterable
from random import Random

from topology.codes.runtime import TIMER_FAILED
from topology.runtime.failures import DEAD_AT_ONCE, Failure
from topology.runtime.state.lookups import Pair
from topology.runtime.tasks.replays import BACKOFF_FIRST_S, BACKOFF_MAX_S, HURRIED_MAX_S
from topology.runtime.tasks.retry_policy import GivingUp

logger = logging.getLogger("kedge")


class Fired:
    """The timers of one worker that have fired, and whose outputs are not processed yet.

    `not_done` are the messages of their trees: these must not be announced as done while the trees can begin again.
    `open` counts what is in flight or waits for another attempt. `given_up` counts what this run does not try any more,
    be it `on_timer` itself: it is kept, and the next run tries it.
    """

    def __init__(self) -> None:
        self.trees: dict[Pair, list[int]] = {}  # a timer → the messages of all of its attempts
        self.open = self.given_up = 0

    @property
    def not_done(self) -> Iterable[int]:
        return (message for messages in self.trees.values() for message in messages)


class TimerRetries:
    """The retries of one task. Make it in a running loop.

    `draining`: what is left then is for the next run. `closed`: nothing is tried any more. `ended_at`: the loop time at
    which all inputs had ended, or None.
    """

    def __init__(self, component: str, fired: Fired, giving_up: GivingUp, random: Random) -> None:
        self.draining = self.closed = False
        self.ended_at: float | None = None
        self._component, self._fired, self._giving_up, self._random = component, fired, giving_up, random
        self._most_s = BACKOFF_MAX_S
        self._loop = asyncio.get_running_loop()

    def inputs_ended(self) -> None:
        """Wait less long between two tries from now on: the run waits for the timers."""
        if self.ended_at is None:
            self.ended_at = self._loop.time()
            self._most_s = HURRIED_MAX_S if self._giving_up.timed else BACKOFF_MAX_S

    def is_spent(self, failure: Failure, own: int, others: int, failing_s: float, *, draining: bool) -> bool:
        """Return whether something that has failed so often is not tried again; see `GivingUp.spent`."""
        ended_s = self._loop.time() - self.ended_at if self.ended_at is not None else None
        return failure.reason in DEAD_AT_ONCE or self._giving_up.spent(
            failure, own, others, failing_s, ended_s=ended_s, draining=draining
        )

    def give_up(self, what: str, times: int) -> None:
        """Report that this run does not try something any more. One poison timer must not keep a run from its end."""
        self._fired.given_up += 1
        text = "%s in %r was given up by this run after %d attempts, and is kept for the next (%s)"
        logger.error(text, what, self._component, times, TIMER_FAILED)

    def back_off_s(self, times: int) -> float:
        """Return the seconds to wait after so many failures."""
        return min(self._most_s, BACKOFF_FIRST_S * 2.0 ** min(times - 1, 20)) * (0.5 + self._random.random() / 2)
