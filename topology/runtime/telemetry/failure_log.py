"""Tells people about failures: each kind once with the user's frames, then a count a minute; each dead message always.

Through the standard library's logging, under "kedge"; who shows it, and how, is for the command or the host to say. The
first line of each entry ends in a code, which `kedge explain` and the docs say more of.
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

KINDS_MAX: Final = 1_000  # kinds of failure that are told apart; further ones are counted together, as OTHERS
OTHERS: Final = f"failures of other kinds than the first {KINDS_MAX:,}"
TEXT_MAX: Final = 2_000  # characters of a record that are shown

logger = logging.getLogger("kedge")


class Reporter:
    """`failed` may be called at any rate; `remind` once a minute; `broke` for what ends the run."""

    def __init__(self) -> None:
        self._since: Counter[str] = Counter()
        self._known: set[str] = set()

    def failed(self, failure: Failure) -> None:
        """Tells of a failure, or counts it where its kind was told before, or too many kinds were."""
        kind = _kind(failure)
        if self._is_new(kind):
            text = f"{failure}; further ones like it are counted ({failure.code})"
            _tell(logging.WARNING, text, failure, code=str(failure.code))
        else:
            self._since[kind if kind in self._known else OTHERS] += 1

    def broke(self, failure: Failure) -> None:
        """Tells of what the run can't go on for: a source that has raised, or a part of the runtime. A disk or a store
        that is broken is nobody's mistake in code: no frames, and with several workers it ends one of them only."""
        broken = isinstance(failure.error, StoreBroken | WorkerError)
        text = f"{failure.error}; this process ends" if broken else f"{failure}; the run ends"
        plain = isinstance(failure.error, StoreBroken)
        _tell(logging.ERROR, f"{text} ({failure.code})", failure, traced=not plain, code=str(failure.code))

    def died(self, component: str, message: Message[Any], attempts: int, failure: Failure, letter: str = "") -> None:
        """Tells of a message that will not be replayed again; with the frames, where they were not told before.
        `letter`: the name of its dead letter, where that is kept."""
        times = f"{attempts} attempt{'s' * (attempts != 1)}{f', and kept as dead letter {letter}' if letter else ''}"
        record = shown(message.record, TEXT_MAX)
        what = f"message {message.id!r} of {component!r} is dead after {times}: {failure} ({MESSAGE_DEAD})"
        text = f"{what}\nrecord: {record}"
        known = {"message_id": message.id, "spout": component, "attempts": attempts, "record": record}
        known |= {"letter": letter} if letter else {}
        new = self._is_new(_kind(failure))
        _tell(logging.ERROR, text, failure, traced=new, code=str(MESSAGE_DEAD), **known)

    def unheard(self, letter: Letter, attempts: int, failure: Failure) -> None:
        """Tells of a dead letter whose readers have failed for it as often as they may."""
        which = f"dead letter {letter.name} of {letter.component!r}" if letter.name else f"one of {letter.component!r}"
        times = f"{attempts} attempt{'s' * (attempts != 1)}"
        text = f"{which} is not given to its readers any more, after {times}: {failure} ({DEAD_LETTER_BOLT_FAILED})"
        _tell(
            logging.ERROR, text, failure, code=str(DEAD_LETTER_BOLT_FAILED), letter=letter.name, spout=letter.component
        )

    def not_replayed(self, letter: Letter, why: str) -> None:
        """Tells of a dead letter that was to be replayed, and stays as it is."""
        logger.error("dead letter %s is not replayed, and stays: %s (%s)", letter.name, why, DEAD_LETTER_NOT_REPLAYABLE)

    def revived(self, letter: Letter) -> None:
        """Tells of a dead letter whose message was replayed and is done."""
        logger.info("dead letter %s was replayed: message %.200r of %r is done", *_message_of(letter))

    def _is_new(self, kind: str) -> bool:
        """Whether this kind is told for the first time; takes note of it, within KINDS_MAX."""
        new = kind not in self._known and len(self._known) < KINDS_MAX
        if new:
            self._known.add(kind)
        return new

    def remind(self) -> None:
        """Tells how often each kind has happened since it was told last."""
        for kind, count in self._since.items():
            logger.warning("again, %s: %s", "once" if count == 1 else f"{count:,} times", kind)
        self._since.clear()


def _tell(level: int, text: str, failure: Failure, *, traced: bool = True, **fields: Any) -> None:
    """Logs it, with the user's frames below where there are any; `fields`: what the text says, for machines."""
    trace = failure.traceback().rstrip() if traced else ""
    parts = about(text, trace=trace, component=failure.component, fields=fields)
    logger.log(level, "%s", f"{text}\n{trace}".rstrip(), extra=parts)


def _message_of(letter: Letter) -> tuple[str, MessageId, str]:
    return letter.name, letter.id, letter.component


def _kind(failure: Failure) -> str:
    """Equal for failures that a person would call the same."""
    if failure.error is None:
        lines = [line.strip() for line in failure.trace.split("\n") if line.startswith("  File ")]  # over a link
        place = f": {failure.text.partition(':')[0]:.200}, {lines[-1]}" if lines else ""
        return f"{failure.reason.value} in {failure.component!r}{place}"
    place = users_place(failure.error).partition(", in ")[0] or _innermost(failure.error)
    return f"{type(failure.error).__name__} in {failure.component!r}{f' at {place}' if place else ''}"


def _innermost(error: BaseException) -> str:
    """The line that has raised it; empty where it was never raised."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    return f"{frames.tb_frame.f_code.co_filename}:{frames.tb_lineno}" if frames else ""
