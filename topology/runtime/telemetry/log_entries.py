"""One log entry as plain values: text, traceback, the component and task that logged it, and further fields.

Entries are made from the standard library's records, for any logger and any way of logging. An entry crosses from a
worker to its supervisor as it is. It has no locals of a traceback (S12). Must not know how entries are shown.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from topology.runtime.current_task import HERE
from topology.text import printable
from topology.user_frames import described, shown

TEXT_MAX: Final = 10_000  # characters of a text, and of a traceback
VALUE_MAX: Final = 2_000  # characters of one field
FIELDS_MAX: Final = 32  # fields of one entry; further fields are left out
INT_BITS_MAX: Final = 63  # bits of an int; a longer int becomes text, because few readers of JSON take it
SAID: Final = "kedge"  # the attribute of a record that holds a LogEntry

Value = str | int | float | bool | None

_OF_RECORDS: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", SAID})
_formatter: Final = logging.Formatter()


@dataclass(frozen=True)
class LogEntry:
    """One entry. `at` is in seconds since 1970, `level` as in logging, and `trace` is the traceback, if there is one.
    For an entry from outside a component, `worker` and `task` are None and `component` is empty."""

    text: str
    trace: str = ""
    component: str = ""
    task: int | None = None
    worker: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    level: int = logging.INFO
    logger: str = "kedge"
    at: float = 0.0


def about(text: str, *, trace: str = "", component: str = "", fields: Mapping[str, Any] | None = None) -> Any:
    """Return the `extra=` of a logging call: the parts of its text."""
    return {SAID: LogEntry(text, trace, component, fields=fields or {})}


def entry_of(record: logging.LogRecord) -> LogEntry:
    """Return the entry for a record. Call it where the record was made: the task is the one whose code runs here.

    If the text of a call cannot be formatted, the entry says why and where. Nothing is raised, and the entry is not
    lost.
    """
    attached = getattr(record, SAID, None)
    if isinstance(attached, LogEntry) and attached.at:
        return attached  # complete: it comes from a worker, or was converted before
    entry = attached if isinstance(attached, LogEntry) else LogEntry(_text(record), fields=_extras(record))
    place = HERE.get()
    if place is not None:
        same = entry.component in ("", place.component)
        component, task = (place.component, place.task) if same else (entry.component, None)
        entry = replace(entry, component=component, task=task, worker=place.worker)
    return replace(
        entry,
        text=cut(entry.text.rstrip()),
        trace=_cut_inside(entry.trace or _trace(record)),
        fields={_name(name): _plain(value) for name, value in [*entry.fields.items()][:FIELDS_MAX]},
        level=record.levelno,
        logger=cut(record.name),
        at=record.created,
    )


def record_of(entry: LogEntry) -> logging.LogRecord:
    """Return a record for an entry; its time is now if `at` is 0.0. Its message is for handlers that do not know
    entries."""
    where = f"worker {entry.worker}: " if entry.worker is not None else ""
    text = "\n".join(filter(None, [f"{where}{entry.text}", entry.trace]))
    record = logging.makeLogRecord(
        {
            "name": entry.logger,
            "levelno": entry.level,
            "levelname": logging.getLevelName(entry.level),
            "msg": text,
        }
    )
    record.created = entry.at or record.created
    setattr(record, SAID, entry if entry.at else replace(entry, at=record.created))
    return record


def as_text(entry: LogEntry) -> str:
    """Return level, component, text and traceback for people, for when nothing else can show them. The text is safe
    (S11), and each line after the first is indented."""
    place = f" [{entry.component}.{entry.task}]" if entry.component else ""
    first, *others = f"{entry.text}\n{entry.trace}".rstrip().split("\n")
    head = f"{logging.getLevelName(entry.level).lower()}{place} {first}  logger={entry.logger}"
    return "\n".join([printable(head), *(f"    {printable(line)}" for line in others)])


def cut(text: str) -> str:
    """Return the beginning of a text and how much is left out, without lone surrogates, because no encoding accepts
    them."""
    if len(text) > TEXT_MAX:
        text = f"{text[:TEXT_MAX]}… ({len(text) - TEXT_MAX:,} more characters)"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def put_together(text: object, arguments: Any) -> str:
    """Return the text of a call with its arguments, as the standard library does. If the arguments do not fit or raise,
    return a text that shows them and the reason."""
    try:
        made = str(text)
        return made % arguments if arguments else made
    except Exception as error:
        what = shown(text, VALUE_MAX) + (f" with {shown(arguments, VALUE_MAX)}" if arguments else "")
        return f"a log entry can't be formatted from {what}: {described(error)}"


def _text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        return f"{put_together(record.msg, record.args)} ({record.pathname}:{record.lineno})"


def _cut_inside(trace: str) -> str:
    """Cut as `cut` does, but from the middle: the last exception stands at the end."""
    left_out = len(trace) - TEXT_MAX
    if left_out > 0:
        half = TEXT_MAX // 2
        trace = f"{trace[:half]}\n… {left_out:,} more characters …\n{trace[-half:]}"
    return trace.encode("utf-8", "backslashreplace").decode("utf-8")


def _name(name: object) -> str:
    return cut((name if isinstance(name, str) else shown(name, VALUE_MAX))[:VALUE_MAX])


def _trace(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append(_formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(_formatter.formatStack(record.stack_info))
    return "\n".join(parts)


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a caller passed as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _OF_RECORDS}


def _plain(value: object) -> Value:
    """Return a value that every reader takes; for other values, their text. Never raises."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= INT_BITS_MAX:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    return cut(value[:VALUE_MAX] if isinstance(value, str) else shown(value, VALUE_MAX))
