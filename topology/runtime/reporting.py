"""Tells people about failures: each kind once with the user's frames, then a count a minute; each dead message always.

Through the standard library's logging, under "kedge"; who shows it, and how, is for the command or the host to say.
"""

import logging
from collections import Counter
from typing import Any, Final

from topology.components import Message
from topology.runtime.failures import Failure, shown

KINDS_MAX: Final = 1_000  # kinds of failure that are told apart; further ones are counted together, as OTHERS
OTHERS: Final = f"failures of other kinds than the first {KINDS_MAX:,}"
TEXT_MAX: Final = 2_000  # characters of a record that are shown

logger = logging.getLogger("kedge")


class Reporter:
    """`failed` may be called at any rate; `remind` once a minute."""

    def __init__(self) -> None:
        self._since: Counter[str] = Counter()
        self._known: set[str] = set()

    def failed(self, failure: Failure) -> None:
        """Tells of a failure, or counts it where its kind was told before, or too many kinds were."""
        kind = _kind(failure)
        if kind in self._known:
            self._since[kind] += 1
            return
        if len(self._known) >= KINDS_MAX:
            self._since[OTHERS] += 1
            return
        self._known.add(kind)
        logger.warning("%s; further ones like it are counted\n%s", failure, failure.traceback().rstrip())

    def died(self, component: str, message: Message[Any], attempts: int, failure: Failure) -> None:
        """Tells of a message that will not be replayed again."""
        logger.error(
            "message %r of %r is dead after %d attempts: %s\nrecord: %s\n%s",
            message.id,
            component,
            attempts,
            failure,
            shown(message.record, TEXT_MAX),
            failure.traceback().rstrip(),
        )

    def remind(self) -> None:
        """Tells how often each kind has happened since it was told last."""
        for kind, count in self._since.items():
            logger.warning("again, %d times: %s", count, kind)
        self._since.clear()


def _kind(failure: Failure) -> str:
    """Equal for failures that a person would call the same."""
    if failure.error is None:
        return f"{failure.reason.value} in {failure.component!r}"
    frames = failure.error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    place = f" at {frames.tb_frame.f_code.co_filename}:{frames.tb_lineno}" if frames else ""
    return f"{type(failure.error).__name__} in {failure.component!r}{place}"
