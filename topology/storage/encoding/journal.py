"""The memory of inputs that one task has committed together, as the bytes of one row of the journal.

Columns of numbers, and additional fields for some inputs: several messages, outputs, a timer in place of an input.
Outputs are (class, bytes of the record). Their targets are chosen again when they are sent again (D2), and their
identities follow from the input's. Pure: values in, bytes out, and back; must not know tasks, nor what a store is made
of.
"""

from collections.abc import Sequence
from struct import error as StructError
from struct import pack, unpack
from typing import Annotated, Final, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

ENTRIES_MAX: Final = 1 << 20  # of a row

Outputs = Sequence[tuple[int, bytes]]  # the number of the class among the row's, and the record's bytes


class JournalInput(NamedTuple):
    """One input: its key's slot (D7), its identity, the messages that it belongs to (roots without their attempts), and
    its outputs. `timer`: a due timer in place of an input; only the task that remembers it sends its outputs again."""

    slot: int
    origin: int
    identity: int
    messages: tuple[int, ...]
    outputs: Outputs = ()
    timer: bool = False


class OutputClass(NamedTuple):
    """A record class, as its outputs were encoded: its stream's name, and a number that changes with its fields."""

    name: str
    fields: int


class _Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    classes: list[tuple[str, int]]
    slots: bytes
    origins: bytes
    identities: bytes
    firsts: bytes  # the first message of each
    more: dict[int, list[int]]  # index → the others
    outputs: dict[int, Sequence[tuple[Annotated[int, msgspec.Meta(ge=0)], bytes]]]
    timers: list[int]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Row).decode


def output_class(name: str, schema: str) -> OutputClass:
    """Return the class of a record with these fields, as `topology.records.schema` writes them."""
    return OutputClass(name, xxh3_64_intdigest(schema.encode("utf-8", "surrogatepass")) >> 1)


def packed(classes: Sequence[OutputClass], entries: Sequence[JournalInput]) -> bytes:
    """Return the row of these entries, of which there is at least one."""
    return packed_columns(
        classes,
        [(entry.origin, entry.identity) for entry in entries],
        [entry.slot for entry in entries],
        [entry.messages for entry in entries],
        [entry.outputs for entry in entries],
        [at for at, entry in enumerate(entries) if entry.timer],
    )


def packed_columns(
    classes: Sequence[OutputClass],
    pairs: Sequence[tuple[int, int]],
    slots: Sequence[int],
    messages: Sequence[tuple[int, ...]],
    outputs: Sequence[Outputs],
    timers: list[int],
) -> bytes:
    """Return the row of entries that are given in columns; `timers`: the indexes of the entries that are timers."""
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
    )
    return _encode(row)


def unpacked(data: bytes) -> tuple[list[OutputClass], list[JournalInput]]:
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
        raise ValueError(f"a row of the journal can't be read: {error}") from None
    entries = [
        JournalInput(
            slots[at],
            origins[at],
            identities[at],
            () if at in timers else (firsts[at], *row.more.get(at, ())),
            tuple(row.outputs.get(at, ())),
            at in timers,
        )
        for at in range(count)
    ]
    return classes, entries
