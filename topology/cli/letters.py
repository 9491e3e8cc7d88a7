"""Dead letters as they are shown: a table, all that is known of one, or a JSON object each.

Pure: letters in, lines out, safe for a terminal (S11). Records are decoded without their class, which may be gone: a
list of fields, by type tags alone. Must not know where letters are kept.
"""

import base64
import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from topology.durable.values import Letter
from topology.text import escaped

COLUMNS: Final = ("name", "died", "spout", "failed in", "reason", "attempts", "record")
CELL_MAX: Final = 28  # characters of a column that is not the last,
NARROW_MAX: Final = 14  # and on a terminal that is not wide,
WIDE: Final = 100  # which is from so many columns on; others have no years and attempts
UNREADABLE: Final = "(can't be decoded)"


def table(letters: Iterable[Letter], width: int | None) -> Iterator[str]:
    """A line of titles and one for each letter, cut to `width` columns; None: as long as they are."""
    narrow = width is not None and width < WIDE
    rows = [COLUMNS, *(_row(one, narrow=narrow) for one in letters)]
    shown = [at for at, title in enumerate(COLUMNS[:-1]) if not (narrow and title == "attempts")]
    sizes = {at: max(len(row[at]) for row in rows) for at in shown}
    for row in rows:
        right = COLUMNS.index("attempts")
        cells = (row[at].rjust(size) if at == right else row[at].ljust(size) for at, size in sizes.items())
        line = f"{'  '.join(cells)}  {row[-1]}".rstrip()
        yield line if width is None else cut(line, width)


def _row(letter: Letter, *, narrow: bool) -> tuple[str, ...]:
    most = NARROW_MAX if narrow else CELL_MAX
    return (
        letter.name,
        _when(letter.died_at)[len("2026-") if narrow else 0 :],
        cut(escaped(letter.component), most),
        cut(escaped(letter.failed_in), most),
        cut(reason(letter), most),
        f"{letter.attempts:,}",
        escaped(letter.text),
    )


def reason(letter: Letter) -> str:
    """Why it is dead, or that its replay was asked for, in a word or two."""
    return "replaying" if letter.replaying else escaped(letter.reason)


def details(letter: Letter) -> Iterator[str]:
    """Everything about one letter."""
    yield f"{letter.name}: {escaped(letter.text)}"
    facts = {
        "died": f"{_when(letter.died_at)}, {escaped(letter.reason)} in {escaped(letter.failed_in)}",
        "problem": _lined(letter.problem),
        "attempts": f"{letter.attempts:,}" + (f", with {letter.deaths:,} deaths of workers" if letter.deaths else ""),
        "spout": f"{escaped(letter.component)}, task {letter.task}",
        "position": _position(letter),
        "event time": _when(letter.at) if letter.at is not None else "",
        "identity": f"{letter.origin:016x}-{letter.identity:016x}",
        "code": f"{letter.code}: kedge explain {letter.code}" if letter.code else "",
        "replay": "asked for, and not done yet" if letter.replaying else "",
        "subscribers": f"could not process it: {_lined(letter.unheard)}" if letter.unheard else "",
        "record": f"{escaped(letter.record_class)} {_json(_decoded(letter.record))}",
    }
    width = max(map(len, facts))
    yield from (f"  {name:<{width}}  {text}" for name, text in facts.items() if text)
    yield from (f"  {escaped(line)}" for line in letter.traceback.rstrip().split("\n") if line)


def as_json(letter: Letter, *, whole: bool) -> str:
    """One object in one line. `whole`: with its record and traceback."""
    told: dict[str, Any] = {
        "name": letter.name,
        "died_at": _iso(letter.died_at),
        "spout": letter.component,
        "task": letter.task,
        "partition": letter.partition,
        "epoch": letter.epoch,
        "id": _plain(letter.id),
        "event_time": _iso(letter.at) if letter.at is not None else None,
        "origin": f"{letter.origin:016x}",
        "identity": f"{letter.identity:016x}",
        "failed_in": letter.failed_in,
        "reason": letter.reason,
        "code": letter.code or None,
        "problem": letter.problem,
        "attempts": letter.attempts,
        "deaths": letter.deaths,
        "replaying": letter.replaying,
        "stream": letter.record_class,
        "text": letter.text,
    }
    if whole:
        told |= {
            "unheard": letter.unheard or None,
            "record": _decoded(letter.record),
            "bytes": base64.b64encode(letter.record).decode(),
            "traceback": letter.traceback,
        }
    return _json(told)


def _json(value: Any) -> str:
    """In ASCII, so that nothing in it is obeyed by a terminal, nor refused by an encoding."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def _decoded(record: bytes) -> Any:
    """The fields of a record as JSON has them: times as text, bytes in base64."""
    try:
        return _plain(msgspec.msgpack.decode(record))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return UNREADABLE


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return _iso(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list() | tuple():
            return [_plain(one) for one in value]
        case dict():
            return {str(_plain(key)): _plain(one) for key, one in value.items()}
        case float() if not math.isfinite(value):
            return str(value)  # JSON has no such numbers
        case None | bool() | int() | float() | str():
            return value
    return repr(value)


def _position(letter: Letter) -> str:
    parts = [f"id {escaped(repr(letter.id))}"]
    parts += [f"partition {escaped(letter.partition)}"] if letter.partition else []
    parts += [f"epoch {escaped(letter.epoch)}"] if letter.epoch else []
    return ", ".join(parts)


def _when(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _lined(text: str) -> str:
    return escaped(text.strip())


def cut(text: str, width: int) -> str:
    """At most so many characters."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
