"""The key of an append sink's rows: 24 bytes that name an output for ever, and its content too (B2 iv).

Pure. Knows tuples; must not know any store. The first 16 bytes are (origin, identity), the same for every replay; the
last eight are a hash of the content. A replay has all 24 bytes in common with its row and is dropped. A bolt that is
not deterministic gives the same 16 bytes another content. That is a row of its own, stored and counted as divergent,
never dropped.

C5: the key does not name the input. A sink that reads one emission through two subscriptions stores it once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final

from acker.identity import content_hash
from topology.components import Tuple

PAIR_BYTES: Final = 16  # bytes: origin and identity, big-endian, so that the hexadecimal form reads as the two numbers
KEY_BYTES: Final = 24

_pack = Struct(">QQQ").pack


def sink_key(origin: int, identity: int, content: bytes) -> bytes:
    """Return the key of one output. `content` is the canonical byte form of what is stored."""
    return _pack(origin, identity, content_hash(content))


def sink_keys(tuples: Sequence[Tuple[Any]], contents: Sequence[bytes]) -> list[bytes]:
    """Return the key of each tuple with its content."""
    return [sink_key(tup.origin, tup.identity, content) for tup, content in zip(tuples, contents, strict=True)]


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
