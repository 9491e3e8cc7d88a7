"""Decides that a message whose own tuples fail is not tried again (E18). Knows failures and how long they have lasted,
and neither how a message is emitted nor how it is buried.

With `max_replays` it is dead after that many replays. Without, the kind of the failure and the time decide:

- a mistake of the code (TypeError, AttributeError, …), or of a type, is made again each time: MISTAKE_REPLAYS;
- while more may come, it is tried for `retry_for_s`, with a back-off of up to 30 s: what a bolt needs may be away;
- if those that wait leave the others no room, it is dead after AT_END_REPLAYS, so that it does not hold them up;
- if nothing more comes, as the source has ended or the run drains, it is dead after AT_END_REPLAYS, too; but what an
  OSError has failed, a server that is away say, is tried as well until drain_timeout_s is over.
"""

import asyncio
import builtins
from typing import Any, Final

from topology.config import Config
from topology.runtime.failures import INFRASTRUCTURE_REPLAYS_MAX, OWN, Failure, Reason
from topology.runtime.hot.pending import Pending

MISTAKE_REPLAYS: Final = 1
AT_END_REPLAYS: Final = 5
_MISTAKES: Final = (
    *(TypeError, AttributeError, NameError, ImportError),
    *(SyntaxError, AssertionError, NotImplementedError),
)
_INVALID: Final = "ValidationError"  # msgspec's, and what others call so
_MISTAKEN: Final = frozenset({Reason.EMIT, Reason.UNDECODABLE, Reason.OVERSIZED})
_BUILTINS: Final = {name: one for name, one in vars(builtins).items() if isinstance(one, type)}


class GivingUp:
    """Of one topology: what its Config says."""

    def __init__(self, config: Config) -> None:
        self.timed = config.max_replays is None
        self._max_replays = config.max_replays
        self._retry_for_s = config.retry_for_s
        self._at_end_s = config.drain_timeout_s

    def spent(
        self,
        failure: Failure,
        own: int,
        others: int,
        failing_s: float,
        *,
        ended_s: float | None = None,
        draining: bool = False,
        crowded: bool = False,
    ) -> bool:
        """Return whether it is not tried again. `own` and `others`: how often it has failed for what its own tuples
        did, and for what is around them. `failing_s`: since its first failure of its own. `ended_s`: since when nothing
        more comes; None while more may. `draining`: what is left then is read again by the next run. `crowded`: whether
        it leaves others no room."""
        if others > INFRASTRUCTURE_REPLAYS_MAX:
            return True
        if self._max_replays is not None:
            return own > self._max_replays
        if own and mistaken(failure):
            return own > MISTAKE_REPLAYS
        if failing_s >= self._retry_for_s:
            return own > 0
        if ended_s is None and not draining:
            return crowded and own > AT_END_REPLAYS
        if _raised(failure, OSError) and (draining or ended_s is None or ended_s < self._at_end_s):
            return False
        return own > AT_END_REPLAYS


class RetryPolicy:
    """Of one spout task: what it has under way, and what waits, says how long a message of it is tried."""

    def __init__(self, spout_task: Any, config: Config) -> None:
        self._spout_task, self._giving_up = spout_task, GivingUp(config)
        self._most = config.max_pending / 2
        self._loop = asyncio.get_running_loop()
        self._ended_at: float | None = None
        self._acked_then = 0

    def failed(self, tree: Pending, failure: Failure) -> None:
        """Counts a failure of a message."""
        if failure.reason in OWN:
            tree.own += 1
            tree.failing = tree.failing or self._loop.time()
        else:
            tree.others += 1

    def spent(self, tree: Pending, failure: Failure) -> bool:
        """Return whether a message that has failed is not tried again."""
        now = self._loop.time()
        return self._giving_up.spent(
            failure,
            tree.own,
            tree.others,
            now - tree.failing if tree.own else 0.0,
            ended_s=now - self._ended_at if self._ended_at is not None else None,
            draining=self._spout_task.reader.draining,
            crowded=self._crowded(),
        )

    def _crowded(self) -> bool:
        """Return whether those that wait for a replay hold up others, and some of these get through."""
        task = self._spout_task
        if not task.pauses.reason and len(task.replays) < self._most:
            self._acked_then = task.counters.acked
            return False
        return bool(task.counters.acked > self._acked_then)

    def ends(self) -> None:
        """Nothing more comes: what waits for a replay need not wait for so long."""
        if self._ended_at is None:
            self._ended_at = self._loop.time()
            if self._giving_up.timed:
                self._spout_task.replays.hurry()


def mistaken(failure: Failure) -> bool:
    """Return whether it would fail again in the same way, whatever the world does."""
    if failure.reason is not Reason.RAISED:
        return failure.reason in _MISTAKEN
    invalid = type(failure.error).__name__ if failure.error is not None else failure.text.split(":", 1)[0]
    return invalid == _INVALID or _raised(failure, _MISTAKES)


def _raised(failure: Failure, classes: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    """Return whether it is for one of these; of one that came over a link there is only the name of its class."""
    if failure.error is not None:
        return isinstance(failure.error, classes)
    found = _BUILTINS.get(failure.text.split(":", 1)[0])
    return found is not None and issubclass(found, classes)
