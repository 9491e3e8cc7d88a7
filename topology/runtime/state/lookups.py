"""Lookups of each input of a bolt with state: whether the input is known, and what its key has.

`lookups.pxd` has the types for the compiled core; this source is what both cores run. Must not know when a snapshot is
taken, nor what is in one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from acker.frontier import NUMBER_BITS
from topology.runtime.state.known_input import KnownInput

Pair = tuple[int, int]  # origin and identity of an input

# The content of a key, in one of three forms. Bytes: the content as it is stored; no bolt has asked for it yet, or its
# value is bytes. A KeyValue: the value with timers or counts. Anything else: the value itself.
Held = Any
NOTHING: Final = b""  # what a key has that has nothing
AT_ONCE: Final = 2_048  # that a thread looks at, or frees, without giving way to the loop
NO_MESSAGES: Final[frozenset[int]] = frozenset()
NOT_DONE: Final = -1, NO_MESSAGES  # of a home of which nothing is done


class KnownPairs:
    """Known inputs by age. `now` has those since the last snapshot, `gathered` those of snapshots that are not decided,
    and `older` all others. `bytes`: of those that count, about."""

    def __init__(self) -> None:
        self.now: dict[Pair, KnownInput] = {}
        self.gathered: dict[Pair, KnownInput] = {}
        self.older: dict[Pair, KnownInput] = {}
        self.bytes = 0

    def get(self, pair: Pair) -> KnownInput | None:
        """Return what is known of an input; None if it is not known."""
        return self.now.get(pair) or self.gathered.get(pair) or self.older.get(pair)

    def add(self, pair: Pair, entry: KnownInput, size: int) -> None:
        """Know an input from now on; `size` is in bytes, about."""
        self.now[pair] = entry
        self.bytes += size


def find_open(
    inputs: Iterator[tuple[Pair, KnownInput]],
    done: Mapping[int, tuple[int, frozenset[int]]],
    most: int,
    found: list[tuple[Pair, KnownInput]],
) -> bool:
    """Look at the next inputs, at most so many, and find those that did not come in one message which is done. Return
    False if there are no more. `done`: home's owner → its newest message, and those of it that are unfinished."""
    looked, owner = 0, -1
    newest, unfinished = -1, NO_MESSAGES
    for pair, entry in inputs:
        looked += 1
        if looked > most:
            found.append((pair, entry))  # the caller looks at each that was found
            return True
        messages = entry.messages
        if type(messages) is int:
            message = messages
            if message >> NUMBER_BITS != owner:
                owner = message >> NUMBER_BITS
                newest, unfinished = done.get(owner, NOT_DONE)
            if message <= newest and messages not in unfinished:
                continue
        found.append((pair, entry))
    return False


def drop(trash: dict[Any, Any], most: int) -> bool:
    """Empty a dict that is trash, of at most so many items. Return False if nothing is left in it."""
    left = most
    while trash and left:
        trash.popitem()
        left -= 1
    return bool(trash)


class HeldKeys:
    """The content of each key. `before`: what keys that have changed since the last snapshot had then."""

    def __init__(self) -> None:
        self.held: dict[bytes, Held] = {}
        self.before: dict[bytes, Held] = {}

    def get(self, key: bytes) -> Held:
        """Return what is held for a key; NOTHING if it has nothing."""
        return self.held.get(key, NOTHING)

    def put(self, key: bytes, now: Held) -> None:
        """Set what a key has. NOTHING removes it."""
        held = self.held
        if key not in self.before:
            self.before[key] = held.get(key, NOTHING)
        if type(now) is bytes and not now:
            held.pop(key, None)
        else:
            held[key] = now
