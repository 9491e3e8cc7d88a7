"""The numbers of tuples as columns of bytes, and tuples from them: what a frame costs for each tuple.

The columns are of unsigned 64-bit numbers, little-endian on every host: all roots, all origins, all identities. This is
the Python core's; `tuple_columns.pyx` makes the same bytes, and no object for a number. Must not know frames.
"""

from itertools import repeat
from operator import attrgetter
from struct import pack, unpack
from typing import Any, Final

from topology.core.source import Source
from topology.core.tuples import Tuple

TUPLE_BYTES: Final = 3 * 8  # bytes of a tuple's numbers
OTHERS: Final = attrgetter("others")


def packed(tuples: list[Tuple[Any]]) -> tuple[bytes, bool]:
    """Return the columns of these tuples, and whether one of them belongs to further trees."""
    values = [tup.root for tup in tuples]
    values += [tup.origin for tup in tuples]
    values += [tup.identity for tup in tuples]
    return pack(f"<{len(values)}Q", *values), any(map(OTHERS, tuples))


def tuples_of(
    data: bytes, records: list[Any], others: list[tuple[int, ...]] | None, source: Source
) -> list[Tuple[Any]]:
    """Return the tuples of these columns, each with its record and, unless `others` is None, its further roots.

    Raises ValueError if the columns, or `others`, are not those of as many tuples.
    """
    count = len(records)
    if len(data) != TUPLE_BYTES * count or (others is not None and len(others) != count):
        raise ValueError(f"{len(data)} bytes are no columns of {count} tuples")
    values = unpack(f"<{3 * count}Q", data)
    roots, origins, identities = values[:count], values[count : 2 * count], values[2 * count :]
    further = repeat(()) if others is None else others
    return list(map(Tuple, records, origins, identities, roots, further, repeat(source)))
