"""Marks: which pairs were perhaps added, in a fixed memory (Bloom, 1970). Pure; must not know files.

A pair is marked at the place that its last bytes say, those of its identity, which is a hash. All pairs of a call are
done by a few steps of the interpreter: their bytes are cut into columns.
"""

import sys
from array import array
from collections.abc import Sequence
from itertools import compress
from operator import itemgetter
from typing import Final

from bolts.sinks.keys import PAIR_BYTES

PLACE_BITS: Final = 24

# a byte of a pair → two bits of a byte
_TWO_BITS: Final = bytes(1 << (each & 7) | 1 << ((each & 7) + 1 + (each >> 3) % 7) % 8 for each in range(256))


class PairMarks:
    """Takes 16 MB from the first pair on. With ten million pairs, one other pair in thirty has the marks of some."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, pairs: Sequence[bytes]) -> None:
        marked = self._bytes = self._bytes or bytearray(1 << PLACE_BITS)
        for place, bits in zip(*_marks_of(pairs), strict=True):
            marked[place] |= bits

    def among(self, pairs: Sequence[bytes]) -> list[bytes]:
        """Return those of the pairs that are marked: all that were added, and perhaps a few others."""
        if not self._bytes or not pairs:
            return []
        places, bits = _marks_of(pairs)
        found = itemgetter(*places, 0)(self._bytes)[:-1]  # a place more: of one alone it would give no tuple
        return [
            pair
            for pair, marked, wanted in zip(
                compress(pairs, found), filter(None, found), compress(bits, found), strict=True
            )
            if marked & wanted == wanted
        ]


def _marks_of(pairs: Sequence[bytes]) -> tuple[list[int], bytes]:
    """Return the place of each pair, and its two bits there."""
    joined = b"".join(pairs)
    columns = bytearray(4 * len(pairs))
    for column in range(PLACE_BITS // 8):
        columns[column::4] = joined[PAIR_BYTES - 1 - column :: PAIR_BYTES]
    places = array("I", bytes(columns))
    if sys.byteorder == "big":
        places.byteswap()
    return places.tolist(), joined[PAIR_BYTES - 1 - PLACE_BITS // 8 :: PAIR_BYTES].translate(_TWO_BITS)
