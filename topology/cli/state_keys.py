"""The keys that a word on the command line can mean, and the text for one key's state.

Pure. A word has no type, and 42 and "42" are two keys. So `keys_meant` returns every key that the word can mean, the
likeliest first. Must not know where state is kept.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from topology.cli.output.numbers import counted
from topology.errors import EmitError
from topology.groupings import joined, key_bytes
from topology.storage.encoding.json_values import key_form, key_json, time_text, value_json
from topology.storage.rescale.partition import KeptKey
from topology.text import escaped

MEANT_MAX: Final = 256  # keys that one word can mean at most


def keys_meant(text: str) -> list[bytes]:
    """Return the byte forms of the keys that the text can mean: as JSON, and as a plain text."""
    found: dict[bytes, None] = {}
    try:
        value = json.loads(text, parse_float=_Float)
    except (ValueError, RecursionError):
        pass
    else:
        found.update(dict.fromkeys(itertools.islice(_forms(value), MEANT_MAX)))
    if text == "":
        found[b""] = None  # the key of a stream read by global_()
    found.update(dict.fromkeys(_of_text(text)))
    return [*found]


class _Float(float):
    """A float that keeps its text, since it may be an exact Decimal."""

    def __new__(cls, text: str) -> "_Float":
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def _forms(value: Any) -> Iterator[bytes]:
    """Yield the keys that one JSON value can mean: itself, an enum's value, a Decimal, a time, a tuple or a record."""
    plain: list[bytes] = []
    if type(value) is list:
        for parts in itertools.product(*(list(itertools.islice(_forms(form), 8)) for form in value)):
            plain += [b"\x0b" + joined(parts), b"\x0d" + joined(parts)]
            if len(plain) >= MEANT_MAX:
                break
    elif type(value) is str:
        plain += _of_text(value)
    elif type(value) is dict:
        plain += _tried(lambda: key_form(value))
    else:
        plain += _tried(lambda: key_bytes(float(value) if type(value) is _Float else value))
        if type(value) in (int, _Float):
            number = value.text if type(value) is _Float else value
            plain += _tried(lambda: key_bytes(Decimal(number)))
            if type(value) is int:
                plain += _tried(lambda: key_bytes(float(value)))
    for form in plain:
        yield form
    for form in plain:
        yield b"\x0a" + form


def _of_text(text: str) -> list[bytes]:
    """Return the keys that a text can mean: a text, an enum's value, or a time."""
    plain = _tried(lambda: key_bytes(text))
    return [*plain, *(b"\x0a" + form for form in plain), *_tried(lambda: key_bytes(datetime.fromisoformat(text)))]


def _tried(form: Callable[[], bytes]) -> list[bytes]:
    try:
        return [form()]
    except (ValueError, OverflowError, InvalidOperation, EmitError):
        return []


def shown_key(key: bytes) -> str:
    """Return a key as a user writes it."""
    value = key_json(key)
    return escaped(value) if isinstance(value, str) else json.dumps(value)


def shown(
    component: str, kept: KeptKey, task: int | None, state: str, decode: Callable[[bytes], Any] | None
) -> list[str]:
    """Return the details of one key, one per line. `state` is the type of the value, and `decode` decodes the value."""
    facts = {
        "slot": f"{kept.slot}" + (f", which is task {task}'s" if task is not None else ""),
        "type": escaped(state.replace("Ellipsis", "...")),
        "value": _value(kept.value, decode),
    }
    timers = sorted(kept.timers.items(), key=lambda one: one[1])
    lines = [f"{escaped(component)} {shown_key(kept.key)}"]
    lines += [f"  {name:<6} {text}" for name, text in facts.items() if text]
    lines += [f"  timer  {time_text(due)}" + (f" {escaped(name)!r}" if name else "") for name, due in timers]
    if kept.outputs or kept.timer_outputs:
        of_timers = f", and {counted(kept.timer_outputs, 'output')} of timers" if kept.timer_outputs else ""
        lines.append(f"  had    {counted(kept.outputs, 'output')}{of_timers}")
    return lines


def _value(value: bytes | None, decode: Callable[[bytes], Any] | None) -> str:
    if value is None:
        return "none"
    return escaped(repr(decode(value))) if decode is not None else json.dumps(value_json(value))
