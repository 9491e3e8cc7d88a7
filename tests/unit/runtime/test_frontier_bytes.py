"""Notes and frontiers as they travel: each arrives as it was, in 8 bytes per message."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acker.frontier import Frontier, Note
from topology.runtime.control.frontiers import PackedNote, frontier_of, packed_note, packed_notes, unpacked_note
from topology.runtime.control.messages import Barrier, HomeNote, Unpacker, packed

U64 = st.integers(0, 2**64 - 1)
NOTES = st.builds(
    Note,
    st.lists(st.integers(0, 2**26 - 1), min_size=1).map(tuple),
    U64,
    *[st.frozensets(U64) for _ in ("unfinished", "dropped", "lost")],
    st.booleans(),
)


@given(NOTES)
def test_a_note_arrives_as_it_was(note: Note) -> None:
    (word,) = Unpacker(orders=False).fed(packed(HomeNote(7, packed_note(note))))
    assert isinstance(word, HomeNote)
    assert (word.checkpoint, unpacked_note(word.note)) == (7, note)


@given(st.dictionaries(st.integers(0, 63), NOTES, max_size=4), st.booleans())
def test_a_frontier_arrives_as_it_was(notes: dict[int, Note], alone: bool) -> None:
    (order,) = Unpacker(orders=True).fed(packed(Barrier(9, packed_notes(Frontier(9, notes)), alone)))
    assert isinstance(order, Barrier)
    arrived = frontier_of(order.checkpoint, order.notes)
    assert (arrived.checkpoint, arrived.notes, order.alone) == (9, notes, alone)


def test_thousands_of_messages_take_8_bytes_each() -> None:
    note = Note((1,), 10_000, frozenset(range(2**50, 2**50 + 10_000)), frozenset(range(100)))
    assert len(msgspec.msgpack.encode(packed_note(note))) < 8 * 10_100 + 30


@pytest.mark.parametrize("part", ["unfinished", "dropped", "lost"])
def test_a_malformed_note_is_refused(part: str) -> None:
    note = msgspec.structs.replace(PackedNote((1,), 7, b"", b"", b"", False), **{part: b"1234567"})
    with pytest.raises(ValueError, match="7 bytes are not made of 64-bit numbers"):
        unpacked_note(note)
