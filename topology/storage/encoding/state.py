"""The rows of one bolt's state, as bytes: the content of a key, and the body of its row.

A body has a checksum over its component, slot, key and content, so that no row is mistaken for another (F22). A content
is the value, and the key's timers if it has some. Pure; must not know what a value means, nor what a store is made of.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from xxhash import xxh3_64_digest, xxh3_64_intdigest

SUM_BYTES: Final = 8
PLAIN: Final = b"\x00"  # the prefix of a content that is only a value
_TIMED: Final = b"\x01"  # msgpack: value or nil, and name → due time, in microseconds since 1970
_COUNTED: Final = b"\x02"  # msgpack: the same, and how many outputs its inputs have had
_TIMERS_COUNTED: Final = b"\x03"  # msgpack: the same, and how many its timers have had

_encode: Final = msgspec.msgpack.Encoder().encode


class KeyContent(NamedTuple):
    """The stored data of a key: its value as `topology.records` encodes it, or None; its timers, name → due time in
    microseconds since 1970 (UTC); and how many outputs its inputs and its timers have had, if these are named by their
    count."""

    value: bytes | None
    timers: Mapping[str, int]
    outputs: int = 0
    timer_outputs: int = 0


_timed: Final = msgspec.msgpack.Decoder(tuple[bytes | None, dict[str, int]])
_counted: Final = msgspec.msgpack.Decoder(tuple[bytes | None, dict[str, int], int])
_timers_counted: Final = msgspec.msgpack.Decoder(tuple[bytes | None, dict[str, int], int, int])


def seed_of(component: str, slot: int) -> int:
    """Return the seed for the checksums of this component's rows in a slot."""
    return xxh3_64_intdigest(component.encode("utf-8", "surrogatepass"), slot)


def body_of(seed: int, key: bytes, content: bytes) -> bytes:
    """Return a row's body; `content` is not empty."""
    return xxh3_64_digest(key_head(key) + content, seed) + content


def key_head(key: bytes) -> bytes:
    """Return the bytes that stand before the content where a row's checksum is made."""
    return len(key).to_bytes(4, "little") + key


def sum_of(body: bytes) -> int:
    """Return a body's part of the digest of all rows; 0 for an empty body, that of a key without a row."""
    return int.from_bytes(body[:SUM_BYTES], "little")


def is_intact(seed: int, key: bytes, body: bytes) -> bool:
    """Return True if a body is what was written for this key."""
    return len(body) > SUM_BYTES and body == body_of(seed, key, body[SUM_BYTES:])


def packed(value: bytes | None, timers: Mapping[str, int], count: int = 0, timer_count: int = 0) -> bytes:
    """Return a content; empty if there is nothing to keep."""
    if timer_count:
        return _TIMERS_COUNTED + _encode((value, timers, count, timer_count))
    if count:
        return _COUNTED + _encode((value, timers, count))
    if timers:
        return _TIMED + _encode((value, timers))
    return b"" if value is None else PLAIN + value


def content_of(content: bytes) -> KeyContent:
    """Return the data of a content; no data for an empty one. Raises ValueError for invalid bytes."""
    kind = content[:1]
    if kind == PLAIN:
        return KeyContent(content[1:], {})
    if kind == _COUNTED:
        return KeyContent(*_counted.decode(memoryview(content)[1:]))
    if kind == _TIMERS_COUNTED:
        return KeyContent(*_timers_counted.decode(memoryview(content)[1:]))
    if kind == _TIMED:
        return KeyContent(*_timed.decode(memoryview(content)[1:]))
    if not content:
        return KeyContent(None, {})
    raise ValueError(f"a state of unknown kind {kind!r}")


def value_of(content: bytes) -> bytes | None:
    """Return only the value of a content."""
    return content[1:] if content[:1] == PLAIN else content_of(content).value


def timers_of(content: bytes) -> Mapping[str, int]:
    """Return only the timers of a content."""
    return content_of(content).timers if content[:1] in (_TIMED, _COUNTED, _TIMERS_COUNTED) else {}


def xored(sums: list[bytes]) -> int:
    """Return the XOR of many checksums of SUM_BYTES, as little-endian ints; combines half of them at a time."""
    count = 1 << max(0, len(sums) - 1).bit_length()
    value = int.from_bytes(b"".join(sums), "little")
    while count > 1:
        count >>= 1
        bits = count * SUM_BYTES * 8
        value = (value >> bits) ^ (value & ((1 << bits) - 1))
    return value
