"""The rows of one bolt's state, as bytes: what a key's body looks like, and which of many keys belong to which slot.

A body has a checksum over its component, slot, key and content, so that no row passes for another (F22). A content is
the value, and the key's timers where it has some. Pure; must not know what a value means, nor what a store is made of.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from xxhash import xxh3_64_digest, xxh3_64_intdigest

SUM_BYTES: Final = 8
PLAIN: Final = b"\x00"  # what a content begins with that is a value alone
_TIMED: Final = b"\x01"  # msgpack: value or nil, and name → when it is due, in microseconds since 1970

_encode: Final = msgspec.msgpack.Encoder().encode


class Content(NamedTuple):
    """What is kept of a key: its value as `topology.records` encodes it, or None, and its timers, name → due in
    microseconds since 1970 (UTC)."""

    value: bytes | None
    timers: Mapping[str, int]


_timed: Final = msgspec.msgpack.Decoder(tuple[bytes | None, dict[str, int]])


def seed_of(component: str, slot: int) -> int:
    """What the checksums of this component's rows in a slot begin with."""
    return xxh3_64_intdigest(component.encode("utf-8", "surrogatepass"), slot)


def body_of(seed: int, key: bytes, content: bytes) -> bytes:
    """A row's body; `content` is not empty."""
    return xxh3_64_digest(len(key).to_bytes(4, "little") + key + content, seed) + content


def sum_of(body: bytes) -> int:
    """What a body puts into the digest of all rows; 0 for an empty one, that of a key without a row."""
    return int.from_bytes(body[:SUM_BYTES], "little")


def is_intact(seed: int, key: bytes, body: bytes) -> bool:
    """Whether a body is what was written for this key."""
    return len(body) > SUM_BYTES and body == body_of(seed, key, body[SUM_BYTES:])


def packed(value: bytes | None, timers: Mapping[str, int]) -> bytes:
    """A content; empty where there is nothing to keep."""
    if timers:
        return _TIMED + _encode((value, timers))
    return b"" if value is None else PLAIN + value


def content_of(content: bytes) -> Content:
    """The reverse; nothing, for an empty one. Raises ValueError for bytes that are none of ours."""
    kind = content[:1]
    if kind == PLAIN:
        return Content(content[1:], {})
    if kind == _TIMED:
        value, timers = _timed.decode(memoryview(content)[1:])
        return Content(value, timers)
    if not content:
        return Content(None, {})
    raise ValueError(f"a state of unknown kind {kind!r}")


def value_of(content: bytes) -> bytes | None:
    """As `content_of`, the value alone."""
    return content[1:] if content[:1] == PLAIN else content_of(content).value


def timers_of(content: bytes) -> Mapping[str, int]:
    """As `content_of`, the timers alone."""
    return content_of(content).timers if content[:1] == _TIMED else {}
