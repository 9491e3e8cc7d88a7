"""What one entry of a log says, as plain values: text, traceback, who has logged it and in which task, further fields.

Made from the standard library's records, whoever has logged them and whichever way; crosses from a worker to its
supervisor as it is. Nothing in it has locals of a traceback (S12). Must not know how entries are shown.
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
FIELDS_MAX: Final = 32  # of one entry; further ones are left out
INT_BITS_MAX: Final = 63  # a longer one is a text, as few readers of JSON take it
SAID: Final = "kedge"  # the attribute of a record that has an Entry

Value = str | int | float | bool | None

_OF_RECORDS: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", SAID})
_formatter: Final = logging.Formatter()


@dataclass(frozen=True)
class LogEntry:
    """One entry. `at` in seconds since 1970; `level` as in logging; `trace`: the traceback, if there is one. `worker`
    and `task` are None, and `component` is empty, where it was logged outside of components."""

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
    """The `extra=` of a call of logging: what its text says, in parts."""
    return {SAID: LogEntry(text, trace, component, fields=fields or {})}


def entry_of(record: logging.LogRecord) -> LogEntry:
    """What a record says. Call it where the record was made: the task is the one whose code runs here. Of a call whose
    text can't be made, why, and where it is: who logs has no use for an exception, and the entry is not lost."""
    said = getattr(record, SAID, None)
    if isinstance(said, LogEntry) and said.at:
        return said  # whole: it comes from a worker, or was taken apart before
    entry = said if isinstance(said, LogEntry) else LogEntry(_text(record), fields=_extras(record))
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
    """A record that says the same, now where `at` is 0.0. Its message is for handlers that know nothing of entries."""
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
    """Level, component, text and traceback for people, where nothing else can show it; safe (S11), and each line after
    the first is indented."""
    place = f" [{entry.component}.{entry.task}]" if entry.component else ""
    first, *others = f"{entry.text}\n{entry.trace}".rstrip().split("\n")
    head = f"{logging.getLevelName(entry.level).lower()}{place} {first}  logger={entry.logger}"
    return "\n".join([printable(head), *(f"    {printable(line)}" for line in others)])


def cut(text: str) -> str:
    """The text's beginning, without lone surrogates, which no encoding takes; and how much is left out."""
    if len(text) > TEXT_MAX:
        text = f"{text[:TEXT_MAX]}… ({len(text) - TEXT_MAX:,} more characters)"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def put_together(text: object, arguments: Any) -> str:
    """The text of a call with its arguments, as the standard library does it. Of arguments that do not fit, or that
    raise, what they are and why not."""
    try:
        made = str(text)
        return made % arguments if arguments else made
    except Exception as error:
        what = shown(text, VALUE_MAX) + (f" with {shown(arguments, VALUE_MAX)}" if arguments else "")
        return f"a log entry can't be put together, of {what}: {described(error)}"


def _text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        return f"{put_together(record.msg, record.args)} ({record.pathname}:{record.lineno})"


def _cut_inside(trace: str) -> str:
    """As `cut`, from the middle: what was raised last stands at the end."""
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
    """What a caller has given as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _OF_RECORDS}


def _plain(value: object) -> Value:
    """A value that every reader takes; of others what they look like. Never raises."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= INT_BITS_MAX:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    return cut(value[:VALUE_MAX] if isinstance(value, str) else shown(value, VALUE_MAX))
