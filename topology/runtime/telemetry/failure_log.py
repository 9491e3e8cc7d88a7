"""Log failures: each kind once with the user's frames, then its count once per minute. Each dead message is always
logged.

Uses the standard library's logger "kedge"; the command or the host decides how entries are shown. The first line of
each entry ends in a code; `kedge explain` and the docs say more about each code.
"""

import logging
from collections import Counter
from typing import Any, Final

from acker.identity import MessageId
from topology.codes.runtime import DEAD_LETTER_BOLT_FAILED, DEAD_LETTER_NOT_REPLAYABLE, MESSAGE_DEAD
from topology.components import Message
from topology.errors import WorkerError
from topology.runtime.failures import Failure
from topology.runtime.telemetry.log_entries import about
from topology.storage.store import StoreBroken
from topology.storage.values import Letter
from topology.user_frames import shown, users_place

KINDS_MAX: Final = 1_000  # kinds of failure that are counted apart; further kinds are counted together, as OTHERS
OTHERS: Final = f"failures of other kinds than the first {KINDS_MAX:,}"
TEXT_MAX: Final = 2_000  # characters of a record that are shown

logger = logging.getLogger("kedge")


class Reporter:
    """Logs failures. Call `failed` at any rate, `remind` once per minute, and `broke` for what ends the run."""

    def __init__(self) -> None:
        self._since: Counter[str] = Counter()
        self._known: set[str] = set()

    def failed(self, failure: Failure) -> None:
        """Log a failure. Only count it if its kind was logged before, or too many kinds were."""
        kind = _kind(failure)
        if self._is_new(kind):
            text = f"{failure}; further ones like it are counted ({failure.code})"
            _tell(logging.WARNING, text, failure, code=str(failure.code))
        else:
            self._since[kind if kind in self._known else OTHERS] += 1

    def broke(self, failure: Failure) -> None:
        """Log an error that ends the run: a source raised, or a part of the runtime failed.

        A broken disk or store is not an error in code, so it is logged without frames. With several workers it ends
        only the worker's process.
        """
        broken = isinstance(failure.error, StoreBroken | WorkerError)
        text = f"{failure.error}; this process ends" if broken else f"{failure}; the run ends"
        plain = isinstance(failure.error, StoreBroken)
        _tell(logging.ERROR, f"{text} ({failure.code})", failure, traced=not plain, code=str(failure.code))

    def died(self, component: str, message: Message[Any], attempts: int, failure: Failure, letter: str = "") -> None:
        """Log a message that is not replayed any more, with frames if its kind of failure is new. `letter` is the name
        of its dead letter, if there is one."""
        times = f"{attempts} attempt{'s' * (attempts != 1)}{f', and kept as dead letter {letter}' if letter else ''}"
        record = shown(message.record, TEXT_MAX)
        sentence = f"message {message.id!r} of {component!r} is dead after {times}: {failure} ({MESSAGE_DEAD})"
        text = f"{sentence}\nrecord: {record}"
        known = {"message_id": message.id, "spout": component, "attempts": attempts, "record": record}
        known |= {"letter": letter} if letter else {}
        new = self._is_new(_kind(failure))
        _tell(logging.ERROR, text, failure, traced=new, code=str(MESSAGE_DEAD), **known)

    def unheard(self, letter: Letter, attempts: int, failure: Failure) -> None:
        """Log a dead letter whose readers have failed as often as they may."""
        which = f"dead letter {letter.name} of {letter.component!r}" if letter.name else f"one of {letter.component!r}"
        times = f"{attempts} attempt{'s' * (attempts != 1)}"
        text = f"{which} is not given to its readers any more, after {times}: {failure} ({DEAD_LETTER_BOLT_FAILED})"
        _tell(
            logging.ERROR, text, failure, code=str(DEAD_LETTER_BOLT_FAILED), letter=letter.name, spout=letter.component
        )

    def not_replayed(self, letter: Letter, why: str) -> None:
        """Log a dead letter whose replay was requested and did not happen. The letter stays as it is."""
        logger.error("dead letter %s is not replayed, and stays: %s (%s)", letter.name, why, DEAD_LETTER_NOT_REPLAYABLE)

    def revived(self, letter: Letter) -> None:
        """Log a dead letter whose message was replayed and is done."""
        logger.info("dead letter %s was replayed: message %.200r of %r is done", *_message_of(letter))

    def _is_new(self, kind: str) -> bool:
        """Return True if this kind is new, and remember it. Return False after KINDS_MAX kinds."""
        new = kind not in self._known and len(self._known) < KINDS_MAX
        if new:
            self._known.add(kind)
        return new

    def remind(self) -> None:
        """Log how often each kind has happened since the last reminder."""
        for kind, count in self._since.items():
            logger.warning("again, %s: %s", "once" if count == 1 else f"{count:,} times", kind)
        self._since.clear()


def _tell(level: int, text: str, failure: Failure, *, traced: bool = True, **fields: Any) -> None:
    """Log a text, with the user's frames below it if there are any. `fields` has what the text says, for machines."""
    trace = failure.traceback().rstrip() if traced else ""
    parts = about(text, trace=trace, component=failure.component, fields=fields)
    logger.log(level, "%s", f"{text}\n{trace}".rstrip(), extra=parts)


def _message_of(letter: Letter) -> tuple[str, MessageId, str]:
    return letter.name, letter.id, letter.component


def _kind(failure: Failure) -> str:
    """Return the kind of a failure: equal for failures that a person would call the same."""
    if failure.error is None:
        # the failure came over a link
        lines = [line.strip() for line in failure.trace.split("\n") if line.startswith("  File ")]
        place = f": {failure.text.partition(':')[0]:.200}, {lines[-1]}" if lines else ""
        return f"{failure.reason.value} in {failure.component!r}{place}"
    place = users_place(failure.error).partition(", in ")[0] or _innermost(failure.error)
    return f"{type(failure.error).__name__} in {failure.component!r}{f' at {place}' if place else ''}"


def _innermost(error: BaseException) -> str:
    """Return the line that raised the error; empty if it was never raised."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    return f"{frames.tb_frame.f_code.co_filename}:{frames.tb_lineno}" if frames else ""
