"""What one task keeps of its keys, in memory as it will be on the disk: a content a key, and which have changed.

A group of changes is handed to the store as bytes (D11); until it is kept, what was there before is known, so that the
checksums of replaced rows leave the digest. Pure; must not know bolts, inputs, or what a content means.
"""

from collections.abc import Iterable, Iterator

from topology.durable import states
from topology.durable.states import SUM_BYTES
from topology.durable.values import StateChange, StateRow
from topology.groupings import SLOTS


class Keys:
    """Of one task. `bodies` are those of all keys of which something is kept, as they were gathered last."""

    def __init__(self, component: str) -> None:
        self.bodies: dict[bytes, bytes] = {}
        self._component = component
        self._seeds = [states.seed_of(component, slot) for slot in range(SLOTS)]
        self._changed: dict[bytes, tuple[int, bytes]] = {}  # since `gather`: key → slot and content
        self._gathered: dict[bytes, tuple[int, bytes]] = {}  # what is being kept: key → slot, and the body before
        self._undone: dict[bytes, tuple[int, bytes]] = {}  # the same, of what was gathered and is not kept

    def restore(self, rows: Iterable[StateRow]) -> None:
        """Takes what was kept of these keys; the store has checked it."""
        bodies = self.bodies
        for _, key, body in rows:
            bodies[key] = body

    def content(self, key: bytes) -> bytes:
        """What is kept of a key, or will be; empty where that is nothing."""
        changed = self._changed.get(key)
        return self.bodies.get(key, b"")[SUM_BYTES:] if changed is None else changed[1]

    def put(self, slot: int, key: bytes, content: bytes) -> None:
        """A key, of this slot, has this content from now on; an empty one: it has none."""
        self._changed[key] = slot, content

    def gather(self) -> StateChange | None:
        """What has changed since it was gathered last, as bytes; None for nothing. A key has one checksum a group,
        however often it has changed."""
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
                    now = bodies[key] = states.body_of(seeds[slot], key, content)
                else:
                    now = b""
                    del bodies[key]
            if key in undone:
                before = undone[key][1]
            if now != before:
                gathered[key] = slot, before
                rows.append(row(StateRow, (slot, key, now)))
                sums += [before[:SUM_BYTES], now[:SUM_BYTES]]
        return StateChange(self._component, rows, _xored([one for one in sums if one])) if rows else None

    def not_kept(self) -> None:
        """What was gathered last is not on the disk; the next `gather` has it again."""
        self._undone, self._gathered = self._gathered, {}

    def __len__(self) -> int:
        """How many keys there is something of."""
        bodies = self.bodies
        return len(bodies) + sum(bool(content) - (key in bodies) for key, (_, content) in self._changed.items())

    def __iter__(self) -> Iterator[bytes]:
        return iter([key for key in {**self.bodies, **self._changed} if self.content(key)])


def _xored(sums: list[bytes]) -> int:
    """The XOR of many checksums, as little-endian ints: half of all at a time."""
    count = 1 << max(0, len(sums) - 1).bit_length()
    value = int.from_bytes(b"".join(sums), "little")
    while count > 1:
        count >>= 1
        bits = count * SUM_BYTES * 8
        value = (value >> bits) ^ (value & ((1 << bits) - 1))
    return value
