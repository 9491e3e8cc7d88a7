"""Byte forms that come back as they were, and bytes of nobody's that are refused (B12, S13)."""

from datetime import UTC, timedelta, timezone
from random import Random
from typing import Any

import msgspec
import pytest
from durable_kit import begun, letter, mark, trial
from hypothesis import given
from hypothesis import strategies as st

from topology.storage.encoding import packing
from topology.storage.values import Begun, Letter, Mark, Span, Trial

texts = st.text(st.characters(exclude_categories=[]), max_size=8)  # lone surrogates too
ids = st.one_of(st.integers(), st.integers(-(2**80), 2**80), texts, st.binary(max_size=8))
numbers = st.integers(0, 2**31)
zones = st.one_of(st.just(UTC), st.integers(-720, 720).map(lambda minutes: timezone(timedelta(minutes=minutes))))
times = st.datetimes(timezones=zones)
marks = st.builds(Mark, texts, numbers, texts, texts, ids, st.lists(st.builds(Span, ids, ids)).map(tuple), ids)
trials = st.builds(Trial, texts, numbers, texts, texts, ids, numbers, st.booleans())
letters = st.builds(
    Letter,
    *(texts, texts, numbers, texts, texts, ids, st.none() | times, st.integers(0, 2**64 - 1)),
    *(st.integers(0, 2**64 - 1), texts, st.binary(), texts, texts, texts, texts, texts, texts),
    *(numbers, numbers, times, st.booleans(), st.booleans(), texts),
)
PAIRS: list[tuple[Any, Any]] = [
    (packing.packed_mark, packing.mark_of),
    (packing.packed_begun, packing.begun_of),
    (packing.packed_trial, packing.trial_of),
    (packing.packed_letter, packing.letter_of),
]


def same(one: msgspec.Struct, other: msgspec.Struct) -> bool:
    """Equal, in the kinds of its ids too: 1 is not True."""
    return one == other and repr(one) == repr(other)


@given(marks)
def test_marks_come_back(one: Mark) -> None:
    assert same(packing.mark_of(packing.packed_mark(one)), one)


@given(trials)
def test_trials_come_back(one: Trial) -> None:
    assert same(packing.trial_of(packing.packed_trial(one)), one)


@given(letters)
def test_letters_come_back(one: Letter) -> None:
    back = packing.letter_of(packing.packed_letter(one))
    assert back == one
    assert type(back.id) is type(one.id)


@given(st.lists(marks, max_size=6))
def test_keys_are_as_different_as_what_they_are_of(some: list[Mark]) -> None:
    named = {(one.component, one.task, one.partition, one.epoch) for one in some}
    assert len({packing.mark_key(one) for one in some}) == len(named)


def test_ids_of_different_kinds_are_different_trials_B12() -> None:
    assert len({packing.trial_key(trial(id)) for id in (1, "1", b"1", 2**70, str(2**70))}) == 5
    with pytest.raises(TypeError):
        packing.packed_id(True)


def test_an_older_row_gets_the_defaults_of_fields_that_came_later() -> None:
    packed = msgspec.msgpack.decode(packing.packed_letter(letter("0-1")))
    assert packing.letter_of(msgspec.msgpack.encode(packed[:-3])) == letter("0-1")
    with pytest.raises(ValueError, match="another number of fields"):
        packing.letter_of(msgspec.msgpack.encode(packed[:10]))
    with pytest.raises(ValueError, match="another number of fields"):
        packing.letter_of(msgspec.msgpack.encode([*packed, 1]))


@pytest.mark.parametrize(("pack", "unpack"), PAIRS)
def test_bytes_that_are_changed_or_of_nobody_raise_value_errors_S3_S13(pack: Any, unpack: Any) -> None:
    seed = 7
    print("seed", seed)
    random = Random(seed)
    value: Any = {
        packing.packed_mark: mark(2**70, done=((1, 2), ("x", "x"))),
        packing.packed_begun: begun(),
        packing.packed_trial: trial(b"x"),
        packing.packed_letter: letter("0-1"),
    }[pack]
    good = pack(value)
    bad = [b"", b"\xc1", b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\x80", b"\x90", good[:-1], good + b"\0"]
    bad += [random.randbytes(random.randrange(40)) for _ in range(300)]
    for at in range(len(good)):
        changed = bytearray(good)
        changed[at] ^= 1 << random.randrange(8)
        bad.append(bytes(changed))
    for data in bad:
        try:
            found = unpack(data)
        except ValueError:
            continue
        assert type(found) is type(value), "another value is what the row's checksum is for"


@pytest.mark.parametrize("name", ["", "0", "-", "0-", "-1", "a-1", "0-1-2", "0-١", "1" * 20 + "-1", "0-1\n", " 0-1"])
def test_what_is_no_letters_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a dead letter"):
        packing.letter_order(name)


def test_letters_are_ordered_by_number() -> None:
    assert sorted(["10-1", "2-10", "2-9"], key=packing.letter_order) == ["2-9", "2-10", "10-1"]
    assert isinstance(begun(), Begun)
