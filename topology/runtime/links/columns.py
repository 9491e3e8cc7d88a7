"""The parts of a frame's body: typed structs, numbers in columns, records in arrays, and the bounds of each.

Columns are unsigned 64-bit numbers, little-endian on every host. `struct` makes them, except those of tuples: it is as
fast as `array` for 128 numbers, faster for few numbers or a dict's, and nothing is swapped. Must not know a plan, nor
where a body comes from.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, islice
from struct import pack, unpack
from typing import Annotated, Any, Final, TypeVar

import msgspec

from acker.anchoring import MAX_ROOTS
from topology.core.tuples import Tuple
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.tuple_columns import packed
from topology.runtime.links.protocol import Failed, FrameError

COLUMN_MAX: Final = 65_536  # numbers (or pairs) of one column; further ones go into the next frame
CHECKPOINTS: Final = 2**62  # numbers of checkpoints: more than can be taken

RECORD_BYTES_MAX: Final = 16 << 20  # of one record; several wait in sockets' buffers, and each may be copied twice
BODY_BYTES: Final = 1 << 20  # of a body's tuples, and of its fails; only a body with one larger record has more
ENTRY_BYTES: Final = 64  # around a group or a failure; more than msgpack needs
TEXT_MAX: Final = 2_000  # characters of a failure's text
TRACE_MAX: Final = 10_000  # characters of a failure's traceback: its end, which names the exception

T = TypeVar("T")


class _Part(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """Fields in order, no more and no fewer."""


class Group(_Part):
    """Tuples of one subscription for one task, in order."""

    address: int
    subscription: int  # its index in the plan
    columns: Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES)]  # all roots, then all origins, then all identities
    others: bytes  # pairs of numbers: the index of a tuple, and a further root of it
    records: Annotated[bytes, msgspec.Meta(max_length=RECORD_BYTES_MAX + 5)]  # one msgpack array

    @property
    def cost(self) -> int:
        """Return how many bytes it takes, at most."""
        return ENTRY_BYTES + len(self.columns) + len(self.others) + len(self.records)


class Fails(_Part):
    """Roots that fail for one reason."""

    roots: Annotated[bytes, msgspec.Meta(max_length=8 * COLUMN_MAX)]
    reason: Reason
    component: Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
    text: Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
    trace: Annotated[str, msgspec.Meta(max_length=TRACE_MAX)]

    @property
    def cost(self) -> int:
        """Return how many bytes it takes, at most."""
        return (
            ENTRY_BYTES + len(self.roots) + sum(len(text.encode()) for text in (self.component, self.text, self.trace))
        )


class Body(_Part):
    """A Content, or a part of one."""

    groups: Annotated[list[Group], msgspec.Meta(max_length=BODY_BYTES // ENTRY_BYTES)]
    acks: Annotated[bytes, msgspec.Meta(max_length=16 * COLUMN_MAX)]  # pairs
    touches: Annotated[bytes, msgspec.Meta(max_length=8 * COLUMN_MAX)]
    queued: Annotated[bytes, msgspec.Meta(max_length=8 * COLUMN_MAX)]
    depths: Annotated[bytes, msgspec.Meta(max_length=16 * COLUMN_MAX)]  # pairs
    fails: Annotated[list[Fails], msgspec.Meta(max_length=BODY_BYTES // ENTRY_BYTES)]
    checkpoint: Annotated[int, msgspec.Meta(ge=0, lt=CHECKPOINTS)]


# -- columns


def column(numbers: Sequence[int]) -> bytes:
    """Return the bytes of these numbers."""
    return pack(f"<{len(numbers)}Q", *numbers)


def numbers(data: bytes) -> tuple[int, ...]:
    """Return the numbers of a column. Raises FrameError for invalid bytes."""
    count, rest = divmod(len(data), 8)
    if rest:
        raise FrameError(f"{len(data)} bytes are no column of 64-bit numbers")
    return unpack(f"<{count}Q", data)


def columns(values: Iterable[int]) -> list[bytes]:
    """Return as few columns as the bound allows; none for no values."""
    following = iter(values)
    return [column(part) for part in iter(lambda: list(islice(following, COLUMN_MAX)), [])]


def pair_columns(pairs: Mapping[int, int]) -> list[bytes]:
    """Return columns of pairs, as `columns` does: in each column the keys and then the values."""
    if not pairs:
        return []
    if len(pairs) <= COLUMN_MAX:
        return [pack(f"<{2 * len(pairs)}Q", *pairs, *pairs.values())]
    following = iter(pairs.items())
    parts = iter(lambda: dict(islice(following, COLUMN_MAX)), {})
    return [pack(f"<{2 * len(part)}Q", *part, *part.values()) for part in parts]


def pairs_of(data: bytes) -> dict[int, int]:
    """Return the pairs of a column. Raises FrameError for invalid bytes."""
    if not data:
        return {}
    found = numbers(data)
    half, rest = divmod(len(found), 2)
    if rest:
        raise FrameError(f"a column of pairs has an odd count of numbers, {len(found)}")
    return dict(zip(found[:half], found[half:], strict=True))


def portions(items: list[T], cost: Callable[[T], int], most: int) -> list[list[T]]:
    """Return the items in order, in lists whose cost is at most `most`. A single item that costs more is a list of its
    own."""
    found: list[list[T]] = []
    room = 0
    for item in items:
        needed = cost(item)
        if needed > room:
            found.append([])
            room = most
        found[-1].append(item)
        room -= needed
    return found


# -- tuples


def group_of(address: int, subscription: int, tuples: list[Tuple[Any]], records: bytes) -> Group:
    """Return the group of these tuples. `records` has all of their records."""
    values, have_others = packed(tuples)
    further = b""
    if have_others:
        others = [(index, root) for index, tup in enumerate(tuples) for root in tup.others]
        further = column([number for pair in others for number in pair])
    return Group(address, subscription, values, further, records)


def others_of(data: bytes, count: int) -> list[tuple[int, ...]]:
    """Return the further roots of each of `count` tuples. Raises FrameError."""
    found: list[tuple[int, ...]] = [()] * count
    values = numbers(data)
    if len(values) % 2:
        raise FrameError(f"the further roots of tuples are {len(values)} numbers, which are no pairs")
    for index, root in zip(values[::2], values[1::2], strict=True):
        if index >= count or len(found[index]) >= MAX_ROOTS:
            raise FrameError("a further root is of a tuple that is not there, or has too many")
        found[index] += (root,)
    return found


def array_header(count: int) -> bytes:
    """Return the beginning of a msgpack array of so many items."""
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 65_536 else b"\xdd" + count.to_bytes(4, "big")


# -- failures


def fails_of(failed: Failed) -> list[Fails]:
    """Return each failure once, for consecutive roots with that failure. Its exception stays here, as text."""
    found = []
    for _, alike in groupby(failed, key=lambda pair: id(pair[1])):
        some = list(alike)
        failure = some[0][1]
        component, text = _encodable(failure.component)[:TEXT_MAX], _encodable(failure.text)[:TEXT_MAX]
        trace = _encodable(failure.traceback())[-TRACE_MAX:]
        found += [Fails(roots, failure.reason, component, text, trace) for roots in columns(root for root, _ in some)]
    return found


def failed_of(fails: list[Fails]) -> Failed:
    """Return the roots, each with its failure. Raises FrameError."""
    found: Failed = []
    for fail in fails:
        failure = Failure(fail.reason, fail.component, fail.text, None, fail.trace)
        found += [(root, failure) for root in numbers(fail.roots)]
    return found


def _encodable(text: str) -> str:
    """Return a text that has a byte form: a lone surrogate, which UTF-8 can't carry, becomes its escape."""
    return text.encode(errors="backslashreplace").decode()
