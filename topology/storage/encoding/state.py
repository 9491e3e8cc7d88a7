"""The rows of one bolt's state, as bytes: the body of a key, and the changed keys of a task.

A body has a checksum over its component, slot, key and content, so that no row is mistaken for another (F22). A content
is the value, and the key's timers if it has some. Pure; must not know what a value means, nor what a store is made of.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from topology.groupings import SLOTS
from topology.storage.values import StateChange, StateRow

SUM_BYTES: Final = 8
PLAIN: Final = b"\x00"  # the prefix of a content that is only a value
_TIMED: Final = b"\x01"  # msgpack: value or nil, and name → due time, in microseconds since 1970

_encode: Final = msgspec.msgpack.Encoder().encode


class KeyContent(NamedTuple):
    """The stored data of a key: its value as `topology.records` encodes it, or None, and its timers, name → due time in
    microseconds since 1970 (UTC)."""

    value: bytes | None
    timers: Mapping[str, int]


_timed: Final = msgspec.msgpack.Decoder(tuple[bytes | None, dict[str, int]])


def seed_of(component: str, slot: int) -> int:
    """Return the seed for the checksums of this component's rows in a slot."""
    return xxh3_64_intdigest(component.encode("utf-8", "surrogatepass"), slot)


def body_of(seed: int, key: bytes, content: bytes) -> bytes:
    """Return a row's body; `content` is not empty."""
    return xxh3_64_digest(len(key).to_bytes(4, "little") + key + content, seed) + content


def sum_of(body: bytes) -> int:
    """Return a body's part of the digest of all rows; 0 for an empty body, that of a key without a row."""
    return int.from_bytes(body[:SUM_BYTES], "little")


def is_intact(seed: int, key: bytes, body: bytes) -> bool:
    """Return True if a body is what was written for this key."""
    return len(body) > SUM_BYTES and body == body_of(seed, key, body[SUM_BYTES:])


def packed(value: bytes | None, timers: Mapping[str, int]) -> bytes:
    """Return a content; empty if there is nothing to keep."""
    if timers:
        return _TIMED + _encode((value, timers))
    return b"" if value is None else PLAIN + value


def content_of(content: bytes) -> KeyContent:
    """Return the data of a content; no data for an empty one. Raises ValueError for invalid bytes."""
    kind = content[:1]
    if kind == PLAIN:
        return KeyContent(content[1:], {})
    if kind == _TIMED:
        value, timers = _timed.decode(memoryview(content)[1:])
        return KeyContent(value, timers)
    if not content:
        return KeyContent(None, {})
    raise ValueError(f"a state of unknown kind {kind!r}")


def value_of(content: bytes) -> bytes | None:
    """Return only the value of a content."""
    return content[1:] if content[:1] == PLAIN else content_of(content).value


def timers_of(content: bytes) -> Mapping[str, int]:
    """Return only the timers of a content."""
    return content_of(content).timers if content[:1] == _TIMED else {}


class StateKeys:
    """The keys of one task. `bodies` are those of all keys with data, as of the last `gather`."""

    def __init__(self, component: str) -> None:
        self.bodies: dict[bytes, bytes] = {}
        self._component = component
        self._seeds = [seed_of(component, slot) for slot in range(SLOTS)]
        self._changed: dict[bytes, tuple[int, bytes]] = {}  # since `gather`: key → slot and content
        self._gathered: dict[bytes, tuple[int, bytes]] = {}  # being committed: key → slot, and the body before
        self._undone: dict[bytes, tuple[int, bytes]] = {}  # gathered and not committed: key → slot, and the body before

    def restore(self, rows: Iterable[StateRow]) -> None:
        """Take the stored rows of these keys; the store has checked them."""
        bodies = self.bodies
        for _, key, body in rows:
            bodies[key] = body

    def content(self, key: bytes) -> bytes:
        """Return the stored or pending content of a key; empty if there is none."""
        changed = self._changed.get(key)
        return self.bodies.get(key, b"")[SUM_BYTES:] if changed is None else changed[1]

    def put(self, slot: int, key: bytes, content: bytes) -> None:
        """Set the content of a key of this slot; an empty content removes it."""
        self._changed[key] = slot, content

    def gather(self) -> StateChange | None:
        """Return the changes since the last `gather`, as bytes; None if there are none. A key has one checksum per
        group, however often it has changed."""
        changed, self._changed = self._changed, {}
        undone, self._undone = self._undone, {}
        self._gathered = gathered = {}
        if not changed and not undone:
            return None
        bodies, seeds = self.bodies, self._seeds
        for key, (slot, _) in undone.items():
            changed.setdefault(key, (slot, bodies.get(key, b"")[SUM_BYTES:]))
        rows, sums, row = [], [], tuple.__new__  # a NamedTuple's own is three times as slow
        for key, (slot, content) in changed.items():
            now = before = bodies.get(key, b"")
            if before[SUM_BYTES:] != content:
                if content:
                    now = bodies[key] = body_of(seeds[slot], key, content)
                else:
                    now = b""
                    del bodies[key]
            if key in undone:
                before = undone[key][1]
            if now != before:
                gathered[key] = slot, before
                rows.append(row(StateRow, (slot, key, now)))
                sums += [before[:SUM_BYTES], now[:SUM_BYTES]]
        return StateChange(self._component, rows, _xored([checksum for checksum in sums if checksum])) if rows else None

    def not_kept(self) -> None:
        """Record that the changes of the last `gather` are not on the disk; the next `gather` has them again."""
        self._undone, self._gathered = self._gathered, {}

    def __len__(self) -> int:
        """Return the number of keys with data."""
        bodies = self.bodies
        return len(bodies) + sum(bool(content) - (key in bodies) for key, (_, content) in self._changed.items())

    def __iter__(self) -> Iterator[bytes]:
        return iter([key for key in {**self.bodies, **self._changed} if self.content(key)])


def _xored(sums: list[bytes]) -> int:
    """Return the XOR of many checksums, as little-endian ints; combines half of them at a time."""
    count = 1 << max(0, len(sums) - 1).bit_length()
    value = int.from_bytes(b"".join(sums), "little")
    while count > 1:
        count >>= 1
        bits = count * SUM_BYTES * 8
        value = (value >> bits) ^ (value & ((1 << bits) - 1))
    return value
