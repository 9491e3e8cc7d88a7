"""The key of an append sink's rows: 24 bytes that name an output for ever, and its content too (B2 iv).

Pure. Knows tuples; must not know any store. The first 16 bytes are (origin, identity), the same for every replay; the
last eight are a hash of the content. A replay has all 24 bytes in common with its row and is dropped. A bolt that is
not deterministic gives the same 16 bytes another content. That is a row of its own, stored and counted as divergent,
never dropped.

C5: the key does not name the input. A sink that reads one emission through two subscriptions stores it once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from struct import Struct, pack
from typing import Any, Final

from acker.identity import content_hash
from topology.core.tuples import Tuple

PAIR_BYTES: Final = 16  # bytes: origin and identity, big-endian, so that the hexadecimal form reads as the two numbers
KEY_BYTES: Final = 24

_KEYS: Final = Struct(f"{KEY_BYTES}s")
_first: Final[Callable[[tuple[bytes]], bytes]] = itemgetter(0)


def sink_keys(tuples: Sequence[Tuple[Any]], contents: Sequence[bytes]) -> list[bytes]:
    """Return the key of each tuple with its content: the canonical byte form of what is stored."""
    return [*split_keys(joined_keys(tuples, contents))]


def joined_keys(tuples: Sequence[Tuple[Any]], contents: Sequence[bytes]) -> bytes:
    """Return the keys of the tuples with their contents, one after the other."""
    assert len(tuples) == len(contents)
    numbers = [0] * (3 * len(tuples))
    numbers[0::3] = [tup.origin for tup in tuples]
    numbers[1::3] = [tup.identity for tup in tuples]
    numbers[2::3] = map(content_hash, contents)
    return pack(f">{len(numbers)}Q", *numbers)


def split_keys(joined: bytes) -> Iterator[bytes]:
    return map(_first, _KEYS.iter_unpack(joined))


def key_name(taken: Iterable[str]) -> str:
    """Return the name of the key's column: `key`, with underscores before it if a field has that name.

    ASCII case is ignored, as in SQL.
    """
    names = {name.lower() for name in taken}
    name = "key"
    while name in names:
        name = "_" + name
    return name


@dataclass
class WriteCounts:
    """The result of one write: new rows, replays, and rows that diverge (which are new rows too)."""

    stored: int = 0
    duplicates: int = 0
    divergent: list[str] = field(default_factory=list)  # "table key" of each row

    def add(self, other: "WriteCounts") -> None:
        self.stored += other.stored
        self.duplicates += other.duplicates
        self.divergent += other.divergent
