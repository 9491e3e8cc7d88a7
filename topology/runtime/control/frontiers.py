"""The form in which notes and frontiers travel between a supervisor and its workers: 8 bytes per message.

A note may have thousands of messages, and all notes go to all workers several times per second. Must not know who sends
them, nor when.
"""

from collections.abc import Collection, Mapping
from struct import pack, unpack

import msgspec

from acker.frontier import Frontier, Note


class PackedNote(msgspec.Struct, frozen=True, array_like=True):
    """A note: `acker.frontier.Note`, with unsigned 64-bit numbers, little-endian."""

    owners: tuple[int, ...]
    newest: int
    unfinished: bytes
    dropped: bytes
    lost: bytes
    catches_up: bool


def packed_note(note: Note) -> PackedNote:
    """Return a note as it is sent."""
    numbers = _packed(note.unfinished), _packed(note.dropped), _packed(note.lost)
    return PackedNote(note.owners, note.newest, *numbers, note.catches_up)


def unpacked_note(note: PackedNote) -> Note:
    """Return a note as it was. Raises ValueError if it is malformed."""
    numbers = _numbers(note.unfinished), _numbers(note.dropped), _numbers(note.lost)
    return Note(note.owners, note.newest, *numbers, note.catches_up)


def packed_notes(frontier: Frontier) -> dict[int, PackedNote]:
    """Return the notes of a frontier, by worker, as they are sent."""
    return {worker: packed_note(note) for worker, note in frontier.notes.items()}


def frontier_of(checkpoint: int, notes: Mapping[int, PackedNote]) -> Frontier:
    """Return the frontier of these notes. Raises ValueError if one is malformed."""
    return Frontier(checkpoint, {worker: unpacked_note(note) for worker, note in notes.items()})


def _packed(numbers: Collection[int]) -> bytes:
    return pack(f"<{len(numbers)}Q", *numbers)


def _numbers(data: bytes) -> frozenset[int]:
    count, rest = divmod(len(data), 8)
    if rest:
        raise ValueError(f"{len(data)} bytes are not made of 64-bit numbers")
    return frozenset(unpack(f"<{count}Q", data))
