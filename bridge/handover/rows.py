"""Rows of a hand-over, made from tuples: each row's identity, content and messages.

Uses parallel lists and no object per row, since a row costs about a microsecond. Knows tuples and identities; must not
know segments, Arrow or which rows are already stored.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar

from acker.identity import content_hash
from acker.roots import NUMBER_SHIFT, message_of
from bridge.handover.dedup import Messages, pair_of
from topology.core.tuples import Tuple

T = TypeVar("T")

SEGMENT_BYTES: Final = 16 * 2**20  # approximate size of the records in one segment

_record: Final[Callable[[Any], Any]] = attrgetter("record")
_origin: Final[Callable[[Any], int]] = attrgetter("origin")
_identity: Final[Callable[[Any], int]] = attrgetter("identity")
_root: Final[Callable[[Any], int]] = attrgetter("root")
_others: Final[Callable[[Any], tuple[int, ...]]] = attrgetter("others")


@dataclass(slots=True)
class Rows:
    """Rows in the order of a batch: their pairs, the hashes of their contents, their tuples, the tuples' places in the
    batch, and the sizes of their contents in bytes. `new`: no pair is known, and none occurs twice."""

    pairs: list[bytes]
    contents: list[int]
    tuples: Sequence[Tuple[Any]]
    places: Sequence[int]
    sizes: list[int]
    new: bool = False

    def __len__(self) -> int:
        return len(self.pairs)

    def part(self, begin: int, end: int) -> "Rows":
        return Rows(
            self.pairs[begin:end],
            self.contents[begin:end],
            self.tuples[begin:end],
            self.places[begin:end],
            self.sizes[begin:end],
            self.new,
        )

    def without(self, left_out: set[int]) -> "Rows":
        """Return the rows except those with these numbers."""
        kept = [number for number in range(len(self)) if number not in left_out]

        def of(values: Sequence[T]) -> list[T]:
            return [values[number] for number in kept]

        return Rows(of(self.pairs), of(self.contents), of(self.tuples), of(self.places), of(self.sizes), self.new)

    def segments(self) -> Iterator["Rows"]:
        """Yield the rows in parts of at most about SEGMENT_BYTES."""
        if sum(self.sizes) <= SEGMENT_BYTES:
            yield self
            return
        begin = filled = 0
        for number, size in enumerate(self.sizes):
            if filled + size > SEGMENT_BYTES and number > begin:
                yield self.part(begin, number)
                begin, filled = number, 0
            filled += size
        yield self.part(begin, len(self))

    @property
    def records(self) -> list[Any]:
        return [*map(_record, self.tuples)]

    def messages(self) -> list[int] | list[Messages]:
        """Return the messages of each input. These are plain numbers if each input has exactly one, which is nearly
        always so."""
        if any(map(_others, self.tuples)):
            return [messages_of(tup) for tup in self.tuples]
        return [root >> NUMBER_SHIFT for root in map(_root, self.tuples)]


def plain_rows(tuples: Sequence[Tuple[Any]], contents: Sequence[bytes]) -> Rows:
    """Return a row for each tuple, with its content."""
    pairs = [*map(pair_of, map(_origin, tuples), map(_identity, tuples))]
    hashes = [*map(content_hash, contents)]
    return Rows(pairs, hashes, tuples, range(len(pairs)), [*map(len, contents)])


def messages_of(tup: Tuple[Any]) -> Messages:
    """Return the messages that an input belongs to. A sub-tree has a message of its own, which stands for several
    (A16)."""
    return tuple(map(message_of, tup.roots))
