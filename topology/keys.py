"""Keys as people and `on_timer` see them: the reverse of `groupings.key_bytes`, as far as the byte form allows.

An enum comes back as its value, and a record as a tuple of its fields' values, because a key's byte form has no class.
Pure.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from struct import error as StructError
from struct import unpack
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def values_of(key: bytes, fields: int) -> tuple[Any, ...]:
    """Return the values of a grouping's fields from the byte form of a key. `fields`: their number. Raises
    ValueError."""
    if not fields:
        return ()
    value = value_of(key)
    return (value,) if fields == 1 else value


def value_of(key: bytes) -> Any:
    """Return one value from its byte form. Raises ValueError for bytes that are not such a form."""
    try:
        return _value_of(key)
    except (ArithmeticError, StructError, RecursionError) as error:
        raise ValueError(f"a key that can't be read: {error}") from None


def _value_of(key: bytes) -> Any:
    kind, content = key[:1], key[1:]
    match kind:
        case b"\x01" | b"\x02":
            return int.from_bytes(content, "little", signed=True)
        case b"\x03":
            return content.decode("utf-8", "surrogatepass")
        case b"\x04":
            return content
        case b"\x05" if len(content) == 8:
            return unpack("<d", content)[0]
        case b"\x06" if content in (b"\0", b"\1"):
            return content == b"\1"
        case b"\x07" if not content:
            return None
        case b"\x08" if len(content) == 8:
            return _EPOCH + timedelta(microseconds=int.from_bytes(content, "little", signed=True))
        case b"\x09":
            return Decimal(content.decode("ascii"))
        case b"\x0a":
            return _value_of(content)
        case b"\x0b" | b"\x0d":
            return tuple(map(_value_of, parts_of(content)))
        case b"\x0c":
            return frozenset(map(_value_of, parts_of(content)))
        case _:
            raise ValueError(f"a key of unknown kind {kind!r}")


def parts_of(content: bytes) -> list[bytes]:
    """Return the parts in the byte form of a tuple, a set or a record. Raises ValueError."""
    found = []
    at = 0
    while at < len(content):
        (length,) = unpack("<I", content[at : at + 4])
        part = content[at + 4 : at + 4 + length]
        if len(part) != length:
            raise ValueError("a key that was cut off")
        found.append(part)
        at += 4 + length
    return found
