"""Logs for people, on stderr: a time, a level and a text that no record can forge (S11).

The runtime and the sinks use the standard library's logging, under "kedge"; a user's bolts may use any logger. All are
rendered alike, by structlog. Tracebacks are plain: no locals, which may hold secrets (S12).
"""

import logging
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from topology.cli import terminal

TEXT_MAX = 10_000  # characters of one entry, traceback and all


class _Said(logging.Handler):
    """Writes through `terminal.say`, which finds today's stderr: the live progress replaces it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            terminal.say(self.format(record))
        except Exception:
            self.handleError(record)


def configure(*, debug: bool) -> None:
    """Shows "kedge" from INFO on (from DEBUG with `debug`), others from WARNING on, unless the user's code has set up
    logging itself: then others are left to that."""
    handler = _Said()
    coloured = terminal.colours()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.processors.TimeStamper(fmt=_time_format(), utc=False),
                _safe,
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.dev.ConsoleRenderer(
                    colors=coloured, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
                ),
            ],
        )
    )
    kedge = logging.getLogger("kedge")
    kedge.addHandler(handler)
    kedge.setLevel(logging.DEBUG if debug else logging.INFO)
    kedge.propagate = False
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(handler)


def _time_format() -> str:
    """Who watches knows the day; who reads a file does not."""
    return "%H:%M:%S" if terminal.live(sys.stderr) else "%Y-%m-%d %H:%M:%S"


def _safe(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Puts text and traceback into one event, escaped and cut."""
    record: logging.LogRecord = event["_record"]
    text = str(event["event"])
    if record.exc_info and record.exc_info[0] is not None:
        text += "\n" + logging.Formatter().formatException(record.exc_info)
    if len(text) > TEXT_MAX:
        text = f"{text[:TEXT_MAX]}… ({len(text) - TEXT_MAX} more characters)"
    safe: dict[str, Any] = {**event, "event": terminal.block(text)}
    safe.pop("exc_info", None)
    return safe
