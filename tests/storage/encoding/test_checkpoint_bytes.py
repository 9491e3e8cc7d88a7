"""Bytes of a prepared checkpoint, of known inputs and of a log's records: they come back as they were, and bytes of
nobody's are refused."""

from random import Random

import pytest
from durable_kit import begun, letter, mark, trial
from hypothesis import given
from hypothesis import strategies as st
from state_rows_kit import row

from topology.storage.encoding import entries, packing
from topology.storage.encoding.entries import KnownEntry, NamedEntry, OutputClass
from topology.storage.encoding.log_records import pack, unpack
from topology.storage.encoding.prepared import changes_of, packed_changes
from topology.storage.values import Begun, Changes, EntryRow, StateChange

SEED = 20260302
words = st.integers(0, 2**64 - 1)
classes = st.builds(OutputClass, st.sampled_from(["Alert", "", "\u00e4"]), st.integers(0, 2**63 - 1))
outputs = st.lists(st.tuples(classes, st.binary(max_size=20)), max_size=3).map(tuple)
messages = st.lists(st.integers(1, 2**64 - 1), max_size=3).map(tuple)


@st.composite
def known(draw: st.DrawFn) -> NamedEntry:
    counted = draw(st.booleans())
    key, first = (draw(st.binary(max_size=9)), draw(st.integers(0, 2**40))) if counted else (b"", -1)
    entry = KnownEntry(
        draw(st.integers(0, 1_023)), draw(words), draw(words), draw(messages), (), draw(st.booleans()), key, first
    )
    return NamedEntry(entry, draw(outputs))


@given(st.lists(known(), max_size=8))
def test_known_inputs_come_back_in_their_order_whatever_they_have(some: list[NamedEntry]) -> None:
    rows = [*entries.packed_named(some)]
    assert len(rows) == (len(some) > 0)
    back = [one for data in rows for one in entries.named(data)]
    assert [(one.entry._replace(outputs=()), one.outputs) for one in back] == [*some]


def test_rows_of_known_inputs_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "ENTRIES_MAX", 500)
    out = OutputClass("Alert", 1)
    some = [NamedEntry(KnownEntry(1, 2, number, (3,)), ((out, b"x" * 100),)) for number in range(30)]
    some.insert(7, NamedEntry(KnownEntry(1, 2, 99, (3,)), ((out, b"x" * 5_000),)))
    rows = [*entries.packed_named(some)]
    assert [len(data) > 500 for data in rows].count(True) == 1
    assert len(rows) > 8
    assert [one.entry.identity for data in rows for one in entries.named(data)] == [one.entry.identity for one in some]


def a_checkpoint() -> Changes:
    return Changes(
        marks=[mark(1), mark("\ud800", done=((2**200, 2**201),))],
        over=[mark(b"x", epoch="over")],
        begun=[begun()],
        letters=[letter("0-1"), letter("0-2", id="ä", at=None)],
        gone=["0-7"],
        trials=[trial(1)],
        acquitted=[trial("2")],
        states=[StateChange("count\ud800", [row("a", 1), row("b", None)], 2**64 - 1)],
        entries=[EntryRow("count", b"\x00\xff")],
    )


def test_a_checkpoint_comes_back() -> None:
    assert changes_of(packed_changes(2**40, a_checkpoint())) == (2**40, a_checkpoint())
    assert changes_of(packed_changes(1, Changes())) == (1, Changes())


def test_bytes_that_are_no_checkpoint_are_refused() -> None:
    print("seed", SEED)
    random = Random(SEED)
    whole = packed_changes(7, a_checkpoint())
    for data in (b"", b"\xc0", b"\x90", whole[:-1], whole + b"\0", random.randbytes(300)):
        with pytest.raises(ValueError, match="not the bytes of a checkpoint"):
            changes_of(data)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[random.randrange(len(whole))] ^= 1 << random.randrange(8)
        try:
            changes_of(bytes(damaged))
        except ValueError:
            continue


def test_what_format_2_had_more_of_a_begun_task_is_passed_over() -> None:
    older = b"\x94" + packing.packed_begun(Begun("lines", 0, 2))[1:] + b"\x05"
    assert packing.begun_of(older) == Begun("lines", 0, 2)
    with pytest.raises(ValueError, match="another number of fields"):
        packing.begun_of(b"\x95" + older[1:] + b"\x05")


def test_records_of_a_log_come_back() -> None:
    inputs = [(b"key", b"content", 2**64 - 1, 1, [1, 2], [(0, b"x")], 4), (None, None, 5, 6, 7)]
    data = pack("count", [("Alert", 3)], inputs)
    record = unpack(data)
    first, second = record.inputs
    assert (record.component, record.classes) == ("count", [("Alert", 3)])
    assert (first.key, first.held, first.identity, first.messages, first.outputs, first.first) == (
        *(b"key", b"content", 1, [1, 2]),
        *([(0, b"x")], 4),
    )
    assert (second.key, second.held, second.messages, second.outputs, second.first) == (None, None, 7, [], -1)
    for other in (b"", b"\x90", data[:-1]):
        with pytest.raises(ValueError, match="a record of the log can't be read"):
            unpack(other)
