"""Tells people about failures: each kind once with the user's frames, then a count a minute; each dead message always.

Through the standard library's logging, under "kedge"; who shows it, and how, is for the command or the host to say. The
first line of each entry ends in a code, which `kedge explain` and the docs say more of.
"""

import logging
from collections import Counter
from typing import Any, Final

from topology.codes.running import K520
from topology.components import Message
from topology.runtime.entries import about
from topology.runtime.failures import Failure, shown

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
        """Tells of what the run can't go on for: a source that has raised, or a part of the runtime."""
        _tell(logging.ERROR, f"{failure}; the run ends ({failure.code})", failure, code=str(failure.code))

    def died(self, component: str, message: Message[Any], attempts: int, failure: Failure) -> None:
        """Tells of a message that will not be replayed again; with the frames, where they were not told before."""
        times = f"{attempts} attempt{'s' * (attempts != 1)}"
        record = shown(message.record, TEXT_MAX)
        text = f"message {message.id!r} of {component!r} is dead after {times}: {failure} ({K520})\nrecord: {record}"
        known = {"message_id": message.id, "spout": component, "attempts": attempts, "record": record}
        new = self._is_new(_kind(failure))
        _tell(logging.ERROR, text, failure, traced=new, code=str(K520), **known)

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


def _kind(failure: Failure) -> str:
    """Equal for failures that a person would call the same."""
    if failure.error is None:
        lines = [line.strip() for line in failure.trace.split("\n") if line.startswith("  File ")]  # over a link
        place = f": {failure.text.partition(':')[0]:.200}, {lines[-1]}" if lines else ""
        return f"{failure.reason.value} in {failure.component!r}{place}"
    frames = failure.error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    place = f" at {frames.tb_frame.f_code.co_filename}:{frames.tb_lineno}" if frames else ""
    return f"{type(failure.error).__name__} in {failure.component!r}{place}"
