"""The values of one task's keys, in memory: as they are now, as they were gathered, and as a decided checkpoint has
them.

A value stays the object that the bolt has set, and becomes bytes when a snapshot is packed. The value that a key had
before its first change since a snapshot is remembered, so that the task can go back. Must not know inputs, timers that
fire, nor a store.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from xxhash import xxh3_64_digest

from topology.groupings import SLOTS, slot_of
from topology.runtime.state.lookups import AT_ONCE, NOTHING, Held, HeldKeys, drop
from topology.storage.encoding.state import PLAIN, SUM_BYTES, content_of, key_head, packed, seed_of, xored
from topology.storage.values import StateChange, StateRow


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """All that a key has, if it is more than a value. `value` None: it has no value. `data`: the bytes of the value, if
    they were made already."""

    value: Any
    timers: dict[str, int]
    count: int  # outputs that its inputs have had, if they are named by their count
    timer_count: int = 0  # the same of its timers
    data: bytes = b""


class KeyValues(HeldKeys):
    """The keys of one task of a bolt that is known as `component`. `encode` makes the bytes of a value, and raises for
    none that was put here."""

    def __init__(self, component: str, encode: Callable[[Any], bytes]) -> None:
        super().__init__()
        self._component, self._encode = component, encode
        self._seeds = [seed_of(component, slot) for slot in range(SLOTS)]
        self._gathered: dict[bytes, Held] = {}  # as `before`, for the snapshot under way and the checkpoint before it
        self._since: dict[bytes, Held] = self.before  # as `before`, from the snapshot under way on
        self._trash: list[dict[bytes, Held]] = []  # emptied by the thread: the loop would be held for too long

    def restore(self, rows: Iterable[StateRow]) -> None:
        """Take the stored rows of these keys; the store has checked them."""
        self.held.update({key: body[SUM_BYTES:] for _, key, body in rows})

    def content(self, now: Held) -> bytes:
        """Return the bytes of what is held for a key."""
        return content_of_held(now, self._encode)

    # -- checkpoints

    @property
    def changed(self) -> bool:
        """True if a key has changed since the last snapshot."""
        return bool(self.before)

    def gather(self) -> None:
        """Take a snapshot of what has changed since the last one that was decided. Takes no longer for many keys."""
        self._gathered = self.before
        self._since = self.before = {}

    def pack(self) -> StateChange | None:
        """Return the snapshot as rows; None if nothing has changed. In a thread, beside the loop.

        `put` notes what a key had before it changes the key. So what is held is read first, and counts unless the key
        has changed since the snapshot, even if that happens between the two looks."""
        rows, sums, seeds, row, encode = [], [], self._seeds, tuple.__new__, self._encode
        held, since = self.held, self._since
        for key, before in self._gathered.items():
            now = held.get(key, NOTHING)
            now = since.get(key, now)
            content = now if type(now) is bytes else content_of_held(now, encode)
            former = before if type(before) is bytes else content_of_held(before, encode)
            if content == former:
                continue
            slot, body = slot_of(key), b""
            seed, head = seeds[slot], key_head(key)
            if former:
                sums.append(xxh3_64_digest(head + former, seed))  # as in `body_of`, without two calls for each key
            if content:
                sum_ = xxh3_64_digest(head + content, seed)
                sums.append(sum_)
                body = sum_ + content
            rows.append(row(StateRow, (slot, key, body)))
        return StateChange(self._component, rows, xored(sums)) if rows else None

    def empty_trash(self) -> None:
        """Free what decided snapshots have left. In a thread, beside the loop."""
        while self._trash:
            one = self._trash.pop()
            while drop(one, AT_ONCE):
                pass

    def kept(self) -> None:
        """Take note that the snapshot is decided."""
        self._trash.append(self._gathered)
        self._gathered = {}

    def not_kept(self) -> None:
        """Take note that the snapshot was given up."""
        self.before = {**self.before, **self._gathered}
        self._gathered = {}

    def go_back(self) -> list[bytes]:
        """Be as in the last decided checkpoint. Return the keys that have changed by that."""
        back = {**self.before, **self._gathered}
        for key, before in back.items():
            if type(before) is bytes and not before:
                self.held.pop(key, None)
            else:
                self.held[key] = before
        self.before, self._gathered = {}, {}
        return [*back]

    # -- how it stands

    def __len__(self) -> int:
        """Return the number of keys that have something."""
        return len(self.held)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.held)


def timers_in(held: Held) -> dict[str, int]:
    """Return the timers of what is held for a key."""
    if type(held) is KeyValue:
        return held.timers
    return dict(content_of(held).timers) if type(held) is bytes else {}


def content_of_held(held: Held, encode: Callable[[Any], bytes]) -> bytes:
    """Return the bytes of what is held for a key, as they are stored. `encode` makes those of a value."""
    if type(held) is bytes:
        return held
    if type(held) is KeyValue:
        value = None if held.value is None else held.data or encode(held.value)
        return packed(value, held.timers, held.count, held.timer_count)
    return PLAIN + encode(held)
