"""Inputs that tasks know, as the bytes of one row.

Columns of numbers, and additional fields for some inputs: several messages, outputs, a timer in place of an input.
Outputs are (class, bytes of the record). Their targets are chosen again when they are sent again (D2). Their identities
follow from the input's, or from their count at a key. Pure: values in, bytes out, and back; must not know tasks, nor
what a store is made of.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import error as StructError
from struct import pack, unpack
from typing import Annotated, Final, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

ENTRIES_MAX: Final = 1 << 20  # of a row
ENTRY_BYTES: Final = 40  # bytes of a row that stand for one entry, and for one of its outputs beside its record
OUTPUT_BYTES: Final = 8

Outputs = Sequence[tuple[int, bytes]]  # the number of the class among the row's, and the record's bytes


class KnownEntry(NamedTuple):
    """One input: its key's slot (D7), its identity, the messages that it belongs to (roots without their attempts), and
    its outputs. `timer`: a due timer in place of an input; only the task that knows it sends its outputs again.
    `first`: the count of the first output at `key`, if outputs are named by their count; else -1."""

    slot: int
    origin: int
    identity: int
    messages: tuple[int, ...]
    outputs: Outputs = ()
    timer: bool = False
    key: bytes = b""
    first: int = -1


class OutputClass(NamedTuple):
    """A record class, as its outputs were encoded: its stream's name, and a number that changes with its fields."""

    name: str
    fields: int


class _Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    classes: list[tuple[str, int]]
    slots: bytes
    origins: bytes
    identities: bytes
    firsts: bytes  # the first message of each; 0: it has none
    more: dict[int, list[int]]  # index → the others
    outputs: dict[int, Sequence[tuple[Annotated[int, msgspec.Meta(ge=0)], bytes]]]
    timers: list[int]
    counted: dict[int, tuple[int, bytes]] = {}  # index → the count of the first output, and the key


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Row).decode


def output_class(name: str, schema: str) -> OutputClass:
    """Return the class of a record with these fields, as `topology.records.schema` writes them."""
    return OutputClass(name, xxh3_64_intdigest(schema.encode("utf-8", "surrogatepass")) >> 1)


class NamedEntry(NamedTuple):
    """An entry apart from its row: `outputs` in place of those of `entry`, each with its class."""

    entry: KnownEntry
    outputs: tuple[tuple[OutputClass, bytes], ...]

    @property
    def pair(self) -> tuple[int, int]:
        return self.entry.origin, self.entry.identity


def named(data: bytes) -> list[NamedEntry]:
    """Return the entries of a row. Raises ValueError for other bytes."""
    classes, entries = unpacked(data)
    return [
        NamedEntry(entry, tuple([(classes[number], record) for number, record in entry.outputs])) for entry in entries
    ]


def packed_named(entries: Iterable[NamedEntry]) -> Iterator[bytes]:
    """Yield rows of these entries, of ENTRIES_MAX bytes each, except for a single larger entry."""
    group: list[NamedEntry] = []
    size = 0
    for entry in entries:
        length = ENTRY_BYTES + sum(len(record) + OUTPUT_BYTES for _, record in entry.outputs)
        if group and size + length > ENTRIES_MAX:
            yield _packed_group(group)
            group, size = [], 0
        group.append(entry)
        size += length
    if group:
        yield _packed_group(group)


def _packed_group(group: Sequence[NamedEntry]) -> bytes:
    numbers: dict[OutputClass, int] = {}
    entries = [
        known.entry._replace(
            outputs=[(numbers.setdefault(name, len(numbers)), record) for name, record in known.outputs]
        )
        for known in group
    ]
    return packed([*numbers], entries)


def packed(classes: Sequence[OutputClass], entries: Sequence[KnownEntry]) -> bytes:
    """Return the row of these entries, of which there is at least one."""
    return packed_columns(
        classes,
        [(entry.origin, entry.identity) for entry in entries],
        [entry.slot for entry in entries],
        [entry.messages for entry in entries],
        [entry.outputs for entry in entries],
        [at for at, entry in enumerate(entries) if entry.timer],
        {at: (entry.first, entry.key) for at, entry in enumerate(entries) if entry.first >= 0},
    )


def packed_columns(
    classes: Sequence[OutputClass],
    pairs: Sequence[tuple[int, int]],
    slots: Sequence[int],
    messages: Sequence[tuple[int, ...]],
    outputs: Sequence[Outputs],
    timers: list[int],
    counted: dict[int, tuple[int, bytes]],
) -> bytes:
    """Return the row of entries that are given in columns. `timers`: the indexes of the entries that are timers;
    `counted`: of those whose outputs are named by their count, with the first count and the key."""
    count = len(pairs)
    numbers = f"<{count}Q"
    with_outputs = {at: records for at, records in enumerate(outputs) if records}
    row = _Row(
        [*classes] if with_outputs else [],
        pack(f"<{count}H", *slots),
        pack(numbers, *[origin for origin, _ in pairs]),
        pack(numbers, *[identity for _, identity in pairs]),
        pack(numbers, *[roots[0] if roots else 0 for roots in messages]),
        {at: [*roots[1:]] for at, roots in enumerate(messages) if len(roots) > 1},
        with_outputs,
        timers,
        counted,
    )
    return _encode(row)


def unpacked(data: bytes) -> tuple[list[OutputClass], list[KnownEntry]]:
    """Return the classes and entries of a row. Raises ValueError for other bytes."""
    try:
        row = _decode(data)
        count = len(row.slots) // 2
        numbers = f"<{count}Q"
        slots = unpack(f"<{count}H", row.slots)
        origins, identities, firsts = (unpack(numbers, column) for column in (row.origins, row.identities, row.firsts))
        timers = {*row.timers}
        classes = [OutputClass(*entry) for entry in row.classes]
        if any(number >= len(classes) for outputs in row.outputs.values() for number, _ in outputs):
            raise ValueError("an output of no class")
    except (msgspec.MsgspecError, StructError, ValueError) as error:
        raise ValueError(f"a row of known inputs can't be read: {error}") from None
    entries = [
        KnownEntry(
            slots[at],
            origins[at],
            identities[at],
            (firsts[at], *row.more.get(at, ())) if firsts[at] else (),
            tuple(row.outputs.get(at, ())),
            at in timers,
            *_key_and_first(row.counted.get(at)),
        )
        for at in range(count)
    ]
    return classes, entries


def _key_and_first(counted: tuple[int, bytes] | None) -> tuple[bytes, int]:
    return (b"", -1) if counted is None else (counted[1], counted[0])
