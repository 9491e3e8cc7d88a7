"""Check that a value has exactly the types that its annotations name, so that its byte form keeps it unchanged (B13).

Between tasks of one worker a record is passed by reference, so a field of a wrong type passes there. On its way to
another worker the record becomes bytes, and fails or arrives with another value. Pure; must not know emission or the
runtime.
"""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from topology.errors import RecordError
from topology.records import Record, decoder, encode, encoded, field_types

# types whose equal values are the same, if both have one type
_PLAIN: Final = frozenset({int, str, bytes, bool, type(None)})


class Inexact(ValueError):
    """A field holds a value that its annotation does not name, or that bytes do not keep. The sentence names the
    field."""


_decoders: dict[type[Record], Callable[[bytes], Record]] = {}


def copies(record: Record, count: int) -> list[Record]:
    """Return `count` copies of a record, each decoded from its byte form. The record is checked even if `count` is 0.

    Raises Inexact, naming the field, if the byte form does not keep the record unchanged; RecordError if it has none.
    """
    data = encode(record)
    decode = _decoders.get(type(record)) or _decoders.setdefault(type(record), decoder(type(record)))
    try:
        made = [decode(data) for _ in range(count or 1)]
    except RecordError as error:
        raise Inexact(_wrong_field(record) or str(error)) from None
    if not _same(record, made[0]):
        raise Inexact(difference(record, made[0], type(record).__name__))
    return made[:count]


def check_when_made() -> None:
    """Check each record of a class that is defined from now on, when it is made. A field of another type than its
    annotation raises TypeError at the line that makes the record.

    Holds for the whole process, and cannot be undone. Classes that exist already are not checked.
    """
    Record.__post_init__ = _check  # type: ignore[attr-defined]  # msgspec looks for it when it makes a class


class _Checking(threading.local):
    now = False  # True while this thread checks a record: the decoded copy is not checked in turn


_checking = _Checking()


def _check(record: Record) -> None:
    if _checking.now:
        return
    _checking.now = True
    try:
        copies(record, 0)
    except (Inexact, RecordError) as error:
        raise TypeError(error.args[0]) from None
    finally:
        _checking.now = False


def _wrong_field(record: Record) -> str | None:
    """Return a sentence about the first field whose value does not have the type of its annotation."""
    for name, kind in field_types(type(record)).items():
        value = getattr(record, name)
        try:
            msgspec.msgpack.decode(encoded(value), type=kind)
        except (RecordError, msgspec.MsgspecError, ValueError):
            return (
                f"{type(record).__name__}.{name} holds {value!r:.80}, a {type(value).__name__}; "
                f"its annotation is {getattr(kind, '__name__', kind)}"
            )
    return None


def _same(value: Any, again: Any) -> bool:
    """Fast check that `difference` finds none; nearly always True."""
    kind = type(value)
    if kind is not type(again):
        return False
    if kind in _PLAIN:
        return bool(value == again)
    if kind is tuple:
        return len(value) == len(again) and all(map(_same, value, again))
    if issubclass(kind, Record):
        return all(_same(getattr(value, name), getattr(again, name)) for name in kind.__struct_fields__)
    return difference(value, again, "") is None


def difference(value: Any, again: Any, where: str) -> str | None:
    """Return a sentence about the part of a value that its byte form does not keep. None if `again` is the same, types
    included."""
    if type(value) is not type(again):
        return f"{where} holds {value!r:.80}, a {type(value).__name__}; by its annotation it is {again!r:.80}"
    if isinstance(value, Record):
        fields = value.__struct_fields__
        pairs = ((getattr(value, name), getattr(again, name), f"{where}.{name}") for name in fields)
        return next((found for pair in pairs if (found := difference(*pair))), None)
    if isinstance(value, tuple):
        pairs = (
            (item, other, f"{where}[{index}]") for index, (item, other) in enumerate(zip(value, again, strict=True))
        )
        return next((found for pair in pairs if (found := difference(*pair))), None)
    if isinstance(value, datetime) and value.utcoffset() != timedelta(0):
        return f"{where} holds {value!r}, which is not in UTC"
    if isinstance(value, frozenset):
        same = value == again and sorted(map(_kind, value)) == sorted(map(_kind, again))
    else:
        same = value == again or (value != value and again != again)  # NaN comes back as NaN
    return None if same else f"{where} holds {value!r:.80}, and comes back as {again!r:.80}"


def _kind(value: Any) -> str:
    return type(value).__name__
