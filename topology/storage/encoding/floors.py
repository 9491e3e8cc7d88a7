"""The byte form of a home's announcement, stored together with the deletions that it allowed (D5).

What the home has heard of other homes is not stored: it announces that again, under a new number. Pure: must not know
tasks, nor what a store is made of.
"""

from struct import pack, unpack
from typing import Annotated, Final

import msgspec

from acker.progress import Progress
from acker.roots import INCARNATIONS, NUMBERS, WORKERS

UNFINISHED_MAX: Final = 1 << 22  # messages that one progress lists, and origins of dead ones: 32 MiB of each


class _Floor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    newest: Annotated[int, msgspec.Meta(ge=0, lt=WORKERS * INCARNATIONS * NUMBERS)]
    unfinished: Annotated[bytes, msgspec.Meta(max_length=8 * UNFINISHED_MAX)]
    first: Annotated[int, msgspec.Meta(ge=0, lt=WORKERS * INCARNATIONS)]
    caught_up: bool
    dead: Annotated[bytes, msgspec.Meta(max_length=8 * UNFINISHED_MAX)]
    refused: Annotated[bytes, msgspec.Meta(max_length=8 * UNFINISHED_MAX)] = b""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Floor).decode


def packed_floor(progress: Progress) -> bytes:
    """Return the bytes of a progress, without its `settled`, `number` and `heard`. Raises ValueError if it is longer
    than allowed."""
    if max(map(len, (progress.unfinished, progress.dead, progress.refused))) > UNFINISHED_MAX:
        raise ValueError(f"a floor may list {UNFINISHED_MAX:,} messages")
    unfinished, dead, refused = map(_column, (progress.unfinished, progress.dead, progress.refused))
    return _encode(_Floor(progress.newest, unfinished, progress.first, progress.caught_up, dead, refused))


def floor_of(data: bytes) -> Progress:
    """Return the progress of such bytes. Raises ValueError for other bytes."""
    try:
        read = _decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"not the bytes of a floor: {error}") from None
    unfinished, dead, refused = map(_numbers, (read.unfinished, read.dead, read.refused))
    return Progress(read.newest, unfinished, read.first, read.caught_up, dead, refused=refused)


def _column(numbers: frozenset[int]) -> bytes:
    return pack(f"<{len(numbers)}Q", *sorted(numbers))


def _numbers(column: bytes) -> frozenset[int]:
    count, rest = divmod(len(column), 8)
    if rest:
        raise ValueError("not the bytes of a floor: a column that is cut")
    return frozenset(unpack(f"<{count}Q", column))
