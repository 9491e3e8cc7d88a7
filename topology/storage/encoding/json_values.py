"""Keys and values of state as JSON, exactly: converting back gives the same bytes.

JSON's own types stand for themselves; 1 and 1.0 are different. Other types are an object with one name, which marks the
type: {"bytes": base64}, {"datetime": ISO 8601}, {"decimal": text}, {"float": "nan"}, {"set": […]}, {"record": […]},
{"enum": value}, {"map": [[key, value], …]}. The key of a stream that is read as a whole is {"whole": true}. Bytes that
would not convert back exactly are {"msgpack": base64} or {"form": base64}. The values of records are lists of their
fields, because no class is available, and their Decimals are texts. Pure; must not know stores.
"""

import base64
import binascii
import json
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from struct import error as StructError
from typing import Any, Final

import msgspec

from topology.errors import EmitError, RecordError
from topology.groupings import joined, key_bytes
from topology.keys import parts_of, value_of
from topology.records import encoded

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_BITS_MAX: Final = 8_192  # of an int: Python reads no text of many more
_decode: Final = msgspec.msgpack.Decoder().decode
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, TypeError, RecursionError, StructError, EmitError, RecordError)


# -- values


def value_json(value: bytes | None) -> Any:
    """Return an encoded value in the form for `json.dumps`; None for none."""
    if value is None:
        return None
    try:
        form = _json_of(_decode(value))
        if form is not None and value_bytes(form) == value:
            return form
    except _UNREADABLE:
        pass
    return {"msgpack": _base64(value)}


def value_bytes(form: Any) -> bytes | None:
    """Return the encoded value of such a form. Raises ValueError."""
    if form is None:
        return None
    if type(form) is dict and form.keys() == {"msgpack"}:
        return _bytes_of(form["msgpack"])
    try:
        return encoded(_meant(form))
    except (RecordError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _json_of(value: Any) -> Any:
    match value:
        case int() if value.bit_length() > _BITS_MAX:
            raise ValueError("too long for a number in JSON")
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case bytes():
            return {"bytes": _base64(value)}
        case datetime():
            return {"datetime": value.isoformat()}
        case list():
            return [_json_of(member) for member in value]
        case dict():
            return {"map": [[_json_of(key), _json_of(content)] for key, content in value.items()]}
    raise ValueError(f"no JSON for {type(value).__name__}")


def _meant(form: Any) -> Any:
    if type(form) is list:
        return [_meant(member) for member in form]
    if type(form) is not dict:
        return _scalar(form)
    kind, content = _tagged(form)
    if kind == "map" and type(content) is list and all(type(pair) is list and len(pair) == 2 for pair in content):
        return {_hashable(_meant(key)): _meant(pair) for key, pair in content}
    return _scalar_of(kind, content)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


# -- keys


def key_json(key: bytes) -> Any:
    """Return a key, given in its byte form, in the form for `json.dumps`."""
    try:
        form = _key_json(key)
        if key_form(form) == key:
            return form
    except _UNREADABLE:
        pass
    return {"form": _base64(key)}


def key_form(form: Any) -> bytes:
    """Return the byte form of such a key. Raises ValueError."""
    try:
        return _form(form)
    except (EmitError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _key_json(key: bytes) -> Any:
    kind, content = key[:1], key[1:]
    if not key:
        return {"whole": True}
    if kind == b"\x0a":
        return {"enum": _key_json(content)}
    if kind in b"\x0b\x0c\x0d":
        form = [_key_json(part) for part in parts_of(content)]
        return form if kind == b"\x0b" else {"set" if kind == b"\x0c" else "record": form}
    value = value_of(key)
    return {"decimal": str(value)} if isinstance(value, Decimal) else _json_of(value)


def _form(form: Any) -> bytes:
    if type(form) is list:
        return b"\x0b" + joined(map(_form, form))
    if type(form) is not dict:
        return key_bytes(_scalar(form))
    kind, content = _tagged(form)
    if kind == "whole" and content is True:
        return b""
    if kind == "form":
        return _bytes_of(content)
    if kind == "enum":
        return b"\x0a" + _form(content)
    if kind in ("set", "record") and type(content) is list:
        parts = map(_form, content)
        return b"\x0c" + joined(sorted(parts)) if kind == "set" else b"\x0d" + joined(parts)
    if kind == "decimal" and type(content) is str:
        try:
            return key_bytes(Decimal(content))
        except InvalidOperation:
            raise ValueError(f"{content!r:.80} is no decimal") from None
    return key_bytes(_scalar_of(kind, content))


# -- times, and what both have


def time_text(due: int) -> str:
    """Return the due time of a timer, in microseconds since 1970 (UTC), as ISO 8601."""
    return (_EPOCH + due * _MICROSECOND).isoformat()


def due_of(text: Any) -> int:
    """Return the due time of such a text. Raises ValueError."""
    found = datetime.fromisoformat(text) if type(text) is str else None
    if found is None or found.tzinfo is None:
        raise ValueError(f"{text!r:.80} is no time with a zone")
    return (found - _EPOCH) // _MICROSECOND


def _tagged(form: dict[Any, Any]) -> tuple[str, Any]:
    if len(form) != 1:
        raise ValueError(f"{json.dumps(form):.80} is not an object with one name")
    return next(iter(form.items()))


def _scalar(form: Any) -> Any:
    if form is None or type(form) in (bool, int, float, str):
        return form
    raise ValueError(f"no value can be made of {form!r:.80}")


def _scalar_of(kind: str, content: Any) -> Any:
    if kind == "bytes":
        return _bytes_of(content)
    if kind == "datetime" and type(content) is str:
        if (time := datetime.fromisoformat(content)).tzinfo is None:
            raise ValueError(f"{content!r:.80} has no time zone")
        return time
    if kind == "float" and content in ("nan", "inf", "-inf"):
        return float(content)
    raise ValueError(f"{kind!r:.80} is not a known mark of a value, or its content has another type")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes_of(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, binascii.Error) as error:
        raise ValueError(f"{text!r:.80} is no base64: {error}") from None
