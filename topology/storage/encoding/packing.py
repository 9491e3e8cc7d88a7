"""Reversible byte forms of stored values: marks, dead letters, trials and rows of known inputs; of their keys, and of
ids and letters' names.

The store uses them, and so do messages about dead letters. Nothing is evaluated: invalid bytes raise ValueError. Must
not know SQL or files.

A value is a msgpack list of its fields in order. Texts are stored as bytes, because they may be invalid UTF-8 (a file's
name with surrogates). Ids keep their type, so 1, "1" and b"1" are three ids. An added field comes last and has a
default, which applies to older rows. Docs: explanation/state-format.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from acker.identity import MessageId, id_bytes
from topology.storage.values import Begun, EntryRow, Letter, Mark, Span, Trial

LETTERS_BYTES_MAX: Final = 8 << 20  # of the letters in one answer, which is one control message

S = TypeVar("S", bound=msgspec.Struct)

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode
_bytes_pair: Final = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1  # the range of msgpack


def packed_id(message_id: MessageId) -> int | bytes:
    """Return an id as msgpack has it: an int that fits as it is, everything else in its tagged form (B12)."""
    if type(message_id) is int and _INT_MIN <= message_id <= _INT_MAX:
        return message_id
    return id_bytes(message_id)


def id_of(packed: object) -> MessageId:
    """Return the id of such a form. Raises ValueError."""
    if type(packed) is int:
        return packed
    data = _bytes_of(packed)
    kind, content = data[:1], data[1:]
    if kind == b"\x02" and content:
        return int.from_bytes(content, "little", signed=True)
    if kind == b"\x03":
        return content.decode("utf-8", "surrogatepass")
    if kind == b"\x04":
        return content
    raise ValueError(f"an id of unknown kind {kind!r}")


def letter_order(name: str) -> tuple[int, int]:
    """Return (3, 17) for "3-17": letters are listed in this order. Raises ValueError for a text that is not a letter's
    name."""
    store, dash, number = name.partition("-")
    if not (dash and _is_number(store) and _is_number(number)):
        raise ValueError(f"{name!r:.40} is not the name of a dead letter, like 0-17")
    return int(store), int(number)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 15


def packed_mark(mark: Mark) -> bytes:
    return _packed(mark, _MARK)


def mark_of(data: bytes) -> Mark:
    return _value_of(Mark, data, _MARK)


def mark_key(mark: Mark) -> bytes:
    return _encode([_text(mark.component), mark.task, _text(mark.partition), _text(mark.epoch)])


def packed_begun(begun: Begun) -> bytes:
    return _packed(begun, _BEGUN)


def begun_of(data: bytes) -> Begun:
    return _value_of(Begun, data, _BEGUN)


def begun_key(begun: Begun) -> bytes:
    return _encode([_text(begun.component), begun.task])


def packed_trial(trial: Trial) -> bytes:
    return _packed(trial, _TRIAL)


def trial_of(data: bytes) -> Trial:
    return _value_of(Trial, data, _TRIAL)


def trial_key(trial: Trial) -> bytes:
    texts = (_text(trial.component), trial.task, _text(trial.partition), _text(trial.epoch))
    return _encode([*texts, packed_id(trial.id)])


def packed_letter(letter: Letter, *, record: bool = True) -> bytes:
    """Return the bytes of a letter; with `record=False`, without its record."""
    return _packed(letter if record else msgspec.structs.replace(letter, record=b""), _LETTER)


def letter_of(data: bytes) -> Letter:
    return _value_of(Letter, data, _LETTER)


def packed_contents(letter: Letter) -> bytes:
    """Return the bytes of a letter's long fields: its record and its traceback."""
    return _encode([letter.record, _text(letter.traceback)])


def without_contents(letter: Letter) -> Letter:
    return msgspec.structs.replace(letter, record=b"", traceback="")


def with_contents(letter: Letter, data: bytes) -> Letter:
    """Return the letter with its long fields. Raises ValueError."""
    record, traceback = _bytes_pair(data)
    return msgspec.structs.replace(letter, record=record, traceback=_text_of(traceback))


def contents_size(data: bytes) -> int:
    """Return the total length of the long fields. Raises ValueError."""
    return sum(map(len, _bytes_pair(data)))


def packed_entries(row: EntryRow) -> bytes:
    return _encode([_text(row.component), row.entries])


def entries_of(data: bytes) -> EntryRow:
    """Return a row of known inputs. Raises ValueError."""
    component, entries = _bytes_pair(data)
    return EntryRow(_text_of(component), entries)


def component_key(name: str) -> bytes:
    return _text(name)


def component_of(key: bytes) -> str:
    return _text_of(key)


# -- how a field is written, and read


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text_of(packed: object) -> str:
    return _bytes_of(packed).decode("utf-8", "surrogatepass")


def _bytes_of(packed: object) -> bytes:
    if type(packed) is not bytes:
        raise ValueError("not bytes")
    return packed


def _int_of(packed: object) -> int:
    if type(packed) is not int:
        raise ValueError("not a whole number")
    return packed


def _bool_of(packed: object) -> bool:
    if type(packed) is not bool:
        raise ValueError("neither true nor false")
    return packed


def _time(time: datetime | None) -> bytes | None:
    return None if time is None else time.isoformat().encode("ascii")


def _time_of(packed: object) -> datetime:
    return datetime.fromisoformat(_bytes_of(packed).decode("ascii"))


def _maybe_time_of(packed: object) -> datetime | None:
    return None if packed is None else _time_of(packed)


def _spans(spans: tuple[Span, ...]) -> list[int | bytes]:
    return [packed_id(end) for span in spans for end in span]


def _spans_of(packed: object) -> tuple[Span, ...]:
    if type(packed) is not list or len(packed) % 2:
        raise ValueError("not pairs of ids")
    ends = [id_of(packed_end) for packed_end in packed]
    return tuple(map(Span, ends[0::2], ends[1::2]))


def _as_it_is(value: Any) -> Any:
    return value


_FORMS: Final[dict[Any, tuple[Callable[[Any], object], Callable[[object], object]]]] = {
    str: (_text, _text_of),
    bytes: (_as_it_is, _bytes_of),
    int: (_as_it_is, _int_of),
    bool: (_as_it_is, _bool_of),
    MessageId: (packed_id, id_of),
    datetime: (_time, _time_of),
    datetime | None: (_time, _maybe_time_of),
    tuple[Span, ...]: (_spans, _spans_of),
}


class _Fields:
    """The fields of a class in order, each with its two conversions; those from `needed` on have a default. `former`:
    fields that older rows have behind them, which mean nothing any more."""

    def __init__(self, kind: type[msgspec.Struct], former: int = 0) -> None:
        self.former = former
        fields = msgspec.structs.fields(kind)
        self.forms = [(field.name, *_FORMS[field.type]) for field in fields]
        self.needed = sum(field.required for field in fields)


_MARK: Final = _Fields(Mark)
_BEGUN: Final = _Fields(Begun, former=1)
_TRIAL: Final = _Fields(Trial)
_LETTER: Final = _Fields(Letter)


def _packed(value: msgspec.Struct, fields: _Fields) -> bytes:
    return _encode([pack(getattr(value, name)) for name, pack, _ in fields.forms])


def _value_of(kind: type[S], data: bytes, fields: _Fields) -> S:
    try:
        packed = _decode(data)
        if type(packed) is not list or not fields.needed <= len(packed) <= len(fields.forms) + fields.former:
            raise ValueError("another number of fields")
        values = (unpack(content) for content, (_, _, unpack) in zip(packed, fields.forms, strict=False))
        return kind(*values)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"not the bytes of a {kind.__name__}: {error}") from None
