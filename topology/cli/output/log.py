"""The log on stderr: entries of all loggers look alike, and no text in an entry can forge another entry (S11).

Two kinds of lines go to stderr: entries of the log, and lines for people (the first lines, progress, errors).

    --log-format   entries of the log                              lines for people
    console        12:00:01 warning  [alerts.0 w1] text  k=v       plain text
    json           one JSON object per line                        the same: one event each, with figures as fields
    auto           console on a terminal, else json                plain text

So with `json` a collector can parse all of stderr, and with `auto` a redirected stderr still reads as a report. An
entry has a time, level, logger and text. An entry of a component, by any logger, also has its worker, component and
task. It has the fields that the caller passed, and a traceback without locals, which may hold secrets (S12). Kedge does
not change the prints of user code. If user code sets up logging or structlog while it is imported, Kedge leaves that
setup alone: only Kedge's own entries are formatted here."""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import structlog
from structlog.dev import Column
from structlog.typing import EventDict, Processor, WrappedLogger

from topology.cli.log_levels import LogFormat, LogLevel
from topology.cli.output import terminal
from topology.runtime.telemetry.log_capture import KEDGE, Remaining, listen
from topology.runtime.telemetry.log_entries import LogEntry, entry_of, record_of
from topology.text import printable

OURS: Final = ("timestamp", "level", "logger", "event", "worker", "component", "task", "exception")
STRUCTLOG: Final = (
    "_record",
    "_from_structlog",
    "exc_info",
    "stack",
    "stack_info",
)  # keys with a meaning for structlog
STYLES: Final = {
    "debug": "2",
    "info": "32",
    "warning": "33",
    "error": "31",
    "critical": "31;1",
}  # numbers of terminal styles


class _Said(logging.Handler):
    """A handler that writes through `terminal`, which finds the current stderr: the live view replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            terminal.write(self.format(record_of(entry_of(record))))
        except Exception:
            self.handleError(record)


def configure(log_format: LogFormat, log_level: LogLevel, *, numbered: bool) -> Remaining:
    """Show Kedge's own entries from this level on. `numbered`: a console also shows the worker's number. Call the
    returned object after the topology is loaded: then entries of all loggers are shown, unless the topology's code has
    set up logging itself."""
    as_json = log_format is LogFormat.JSON or (log_format is LogFormat.AUTO and not _is_terminal())
    if log_format is LogFormat.JSON:
        speak_json()
    handler = _Said()
    handler.setFormatter(_formatter(_as_json() if as_json else _for_people(numbered=numbered)))
    return listen(handler, level_of(log_level))


def level_of(log_level: LogLevel) -> int:
    """Return the level as a number of the module logging."""
    return logging.getLevelNamesMapping()[log_level.upper()]


def speak_json() -> None:
    """Make each line for people a JSON event from now on."""
    formatter = _formatter(_as_json())

    def as_event(level: str, text: str, figures: Mapping[str, Any]) -> str:
        number = logging.getLevelNamesMapping()[level.upper()]
        return formatter.format(record_of(LogEntry(text, level=number, logger="kedge.cli", fields=figures)))

    terminal.VOICE.as_event = as_event


def _is_terminal() -> bool:
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def _formatter(render: list[Processor]) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[_taken_apart],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
    )


def _taken_apart(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Convert an entry to structlog's form. Fields with a reserved name get an underscore."""
    entry = entry_of(event["_record"])
    place = {"worker": entry.worker, "component": entry.component or None, "task": entry.task}
    return {
        **{name: event[name] for name in ("_record", "_from_structlog")},
        "timestamp": datetime.fromtimestamp(entry.at, UTC),
        "level": logging.getLevelName(entry.level).lower(),
        "logger": entry.logger,
        "event": entry.text,
        **{name: value for name, value in place.items() if value is not None},
        **{f"{name}_" if name in (*OURS, *STRUCTLOG, "place") else name: value for name, value in entry.fields.items()},
        **({"exception": entry.trace} if entry.trace else {}),
    }


# -- JSON


def _as_json() -> list[Processor]:
    return [_iso_time, structlog.processors.JSONRenderer(default=str)]


def _iso_time(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    event["timestamp"] = event["timestamp"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return event


# -- console


def _for_people(*, numbered: bool) -> list[Processor]:
    """Return the processors for a console. A terminal shows times only; a file shows dates too."""
    day = "%H:%M:%S" if _is_terminal() else "%Y-%m-%d %H:%M:%S"
    dim, bright, reset = ("\x1b[2m", "\x1b[1m", "\x1b[0m") if terminal.colours() else ("", "", "")

    def at(key: str, value: Any) -> str:
        return f"{dim}{value.astimezone().strftime(day)}{reset}"

    def level(key: str, value: object) -> str:
        style = f"\x1b[{STYLES.get(str(value), '0')}m" if reset else ""
        return f"{style}{value!s:<8}{reset}"

    def place(key: str, value: object) -> str:
        return f"[{bright}{value}{reset}]" if value else ""

    columns = [
        Column("timestamp", at),
        Column("level", level),
        Column("place", place),
        Column("event", lambda key, value: str(value)),
        Column("", lambda key, value: f" {dim}{key}={reset}{value}"),
    ]
    return [partial(_readable, numbered), structlog.dev.ConsoleRenderer(columns=columns, sort_keys=False)]


def _readable(numbered: bool, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Combine text and traceback into one block, with everything escaped (S11), and shorten the origin."""
    component, task, worker = event.pop("component", ""), event.pop("task", None), event.pop("worker", None)
    name = f"{component}.{task}" if component and task is not None else component
    event["place"] = printable(" ".join(filter(None, [name, f"w{worker}" if numbered and worker is not None else ""])))
    logger, trace = event.pop("logger"), event.pop("exception", "")
    fields = {printable(name): _short(event.pop(name)) for name in [*event] if name not in (*OURS, "place")}
    text, *more = str(event["event"]).split("\n")
    event["event"] = printable(text)
    if logger != KEDGE and not logger.startswith(
        f"{KEDGE}."
    ):  # the text of Kedge's own entries already has their fields
        event.update({**fields, "logger": printable(logger)})
    if more or trace:
        event["exception"] = terminal.block("\n".join(["", *more, *filter(None, [trace])])).removeprefix("\n")
    return event


def _short(value: object) -> str:
    """Return a value in one line, quoted if it would look like several values."""
    text = printable(value if isinstance(value, str) else str(value))
    return repr(text) if isinstance(value, str) and (" " in text or not text or "=" in text) else text
