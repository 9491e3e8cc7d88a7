"""The wire under garbage: whatever the bytes, a FrameError or a content, soon, in memory bounded by their length."""

import contextlib
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_kit import (
    ADDRESSES,
    CODEC,
    ENRICH,
    ENRICH_ADDRESS,
    Colour,
    Event,
    Nothing,
    Rich,
    Tree,
    content,
    index_of,
    source_of,
    tup,
)

from topology.core.tuples import Tuple
from topology.runtime.failures import Failure, Reason
from topology.runtime.links.codec import FRAME_BYTES_MAX, pack, unpack
from topology.runtime.links.columns import CHECKPOINTS, Body, Group, column
from topology.runtime.links.protocol import Content, Frame, FrameError, Greeting, Kind


def read(data: bytes) -> bool:
    """Reads a frame all the way; whether it was one. What else than a FrameError is raised fails the test."""
    try:
        frame = unpack(data)
        if frame.kind == Kind.CONTENT:
            check(*CODEC.decode(frame.body))
        else:
            assert type(frame.body) is Greeting
        return True
    except FrameError as error:
        sentence = str(error)
    assert sentence.isprintable()
    assert 0 < len(sentence) < 2_500
    return False


def check(one: Content, failed: list[tuple[int, Failure]]) -> None:
    """Everything in it has its shape: what comes next would not look again."""
    for address, tuples in one.batches:
        for each in tuples:
            assert type(each) is Tuple
            assert type(each.record).__name__ == each.source.stream
            numbers = (each.origin, each.identity, each.root, *each.others)
            assert all(type(number) is int and 0 <= number < 2**64 for number in numbers)
            assert 0 <= address < len(ADDRESSES)
    numbers = [*one.acks, *one.acks.values(), *one.touches, *one.depths, *one.depths.values()]
    assert all(type(number) is int and 0 <= number < 2**64 for number in numbers)
    assert all(type(root) is int and type(why) is Failure for root, why in [*one.fails, *failed])
    assert type(one.checkpoint) is int
    assert 0 <= one.checkpoint < CHECKPOINTS


def real_frame() -> bytes:
    """A frame with something of everything in it."""
    rich = index_of("enrich", Rich, "sink")
    at = datetime(2026, 1, 2, tzinfo=UTC)
    riches = [
        Rich(at, Decimal("1.5"), Colour.RED, Event("é", n), frozenset("ab"), (("k", n),), 0.5, b"\xff") for n in (1, 2)
    ]
    tree = index_of("enrich", Tree, "tap")
    one = content(
        [
            (ENRICH_ADDRESS, [tup(Event("abc", n), n, (n + 1,) * (n % 2)) for n in range(1, 6)]),
            (ADDRESSES.index(("sink", 1)), [tup(record, 7, source=source_of(rich)) for record in riches]),
            (ADDRESSES.index(("tap", 0)), [tup(Tree((Tree(), Tree((Tree(),)))), 8, source=source_of(tree))]),
        ],
        [(5, Failure(Reason.RAISED, "sink", "ValueError: no", None, "Traceback …"))],
        acks={1: 2, 3: 4},
        touches={9},
        queued={10},
        depths={2: 1_025},
        checkpoint=70_000,
    )
    (body,), failed = CODEC.encode(one)
    assert failed == []
    return pack(Frame(Kind.CONTENT, 1, 2, 3, 4, 5, body))


REAL = real_frame()
HELLO = pack(Frame(Kind.HELLO, 1, 2, 3, 4, 5, Greeting(1, "ab" * 16, "kedge 0.1.0")))
HEADER_BYTES = 36


@pytest.mark.parametrize("frame", [REAL, HELLO], ids=["content", "hello"])
def test_a_frame_cut_at_any_offset_is_refused_F34(frame: bytes) -> None:
    assert read(frame)
    for length in range(len(frame)):
        assert not read(frame[:length])
        assert not read(frame + frame[: length + 1])


@pytest.mark.parametrize("frame", [REAL, HELLO], ids=["content", "hello"])
@pytest.mark.parametrize("flip", [0x01, 0x40, 0x80, 0xFF])
def test_a_flipped_byte_anywhere_is_refused_or_read_as_a_content_F34(frame: bytes, flip: int) -> None:
    outcomes = {read(frame[:at] + bytes((frame[at] ^ flip,)) + frame[at + 1 :]) for at in range(len(frame))}
    assert outcomes == {True, False}  # both happen, or the frame is not what it seems to be


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_read_S3(data: bytes) -> None:
    read(data)
    read(REAL[:HEADER_BYTES] + data)
    read(HELLO[:HEADER_BYTES] + data)
    read(REAL[: HEADER_BYTES + 1] + data)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=99),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.lists(JUNK, min_size=6, max_size=9), JUNK)
def test_well_formed_msgpack_of_another_shape_is_refused_or_read_S3(fields: list[Any], records: Any) -> None:
    read(REAL[:HEADER_BYTES] + msgspec.msgpack.encode(fields))
    read(REAL[:HEADER_BYTES] + body_of(msgspec.msgpack.encode([records, records])))


@given(st.binary(max_size=200), st.integers(0, 3))
def test_random_bytes_for_records_are_refused_or_fail_trees_of_their_own_A12(data: bytes, header: int) -> None:
    read(REAL[:HEADER_BYTES] + body_of(data))
    read(REAL[:HEADER_BYTES] + body_of(bytes((0x92,)) + data))
    for cls, subscriber in ((Rich, "sink"), (Tree, "tap"), (Nothing, "sink")):
        index, address = index_of("enrich", cls, subscriber), ADDRESSES.index((subscriber, 0))
        read(REAL[:HEADER_BYTES] + body_of(bytes((0x92, 0x90 + header)) + data, index, address))


def body_of(records: bytes, subscription: int = ENRICH, address: int = ENRICH_ADDRESS) -> bytes:
    """A body with a group of two tuples that have these bytes for records."""
    group = Group(address, subscription, column([1, 2, 11, 12, 21, 22]), b"", records)
    return msgspec.msgpack.encode(Body([group], b"", b"", b"", b"", [], 0))


BOMBS: dict[str, Callable[[int], bytes]] = {  # by what they are, made of about so many bytes
    "an array of 4 billion": lambda length: b"\xdd\xff\xff\xff\xff",
    "a map of 4 billion": lambda length: b"\xdf\xff\xff\xff\xff",
    "bytes of 4 GiB": lambda length: b"\xc6\xff\xff\xff\xff",
    "a text of 4 GiB": lambda length: b"\xdb\xff\xff\xff\xff",
    "an extension of 4 GiB": lambda length: b"\xc9\xff\xff\xff\xff\x01",
    "100,000 arrays in one another": lambda length: b"\x91" * 100_000,
    "arrays in one another": lambda length: b"\x91" * length,
    "maps in one another": lambda length: b"\x81" * length,
    "empty arrays": lambda length: b"\xdd" + length.to_bytes(4, "big") + b"\x90" * length,
    "nulls": lambda length: b"\xdd" + length.to_bytes(4, "big") + b"\xc0" * length,
    "a gzip stream": lambda length: b"\x1f\x8b\x08\x00" + b"\0" * 1_000,
}


@contextlib.contextmanager
def memory_bounded(most: int) -> Iterator[None]:
    """Fails where more than so many bytes are taken at once within."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= most, f"{peak:,} bytes, where {most:,} are allowed"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", [*BOMBS])
def test_a_memory_bomb_is_refused_wherever_it_stands_S3(name: str) -> None:
    bomb = BOMBS[name](FRAME_BYTES_MAX - 1_000)
    empty = body_of(b"")
    places = [
        bomb,
        REAL[:HEADER_BYTES] + bomb,
        HELLO[:HEADER_BYTES] + bomb,
        REAL[:HEADER_BYTES] + b"\x97" + bomb,  # in place of the groups
        REAL[:HEADER_BYTES] + b"\x97\x91" + bomb,  # of a group
        REAL[:HEADER_BYTES] + b"\x97\x91\x95" + bomb,  # of its first field
        REAL[:HEADER_BYTES] + b"\x97\x90\xc4\x00\xc4\x00\xc4\x00" + bomb,  # of the fails
        REAL[:HEADER_BYTES] + empty[:-1] + bomb,  # at the end
        HELLO[:HEADER_BYTES] + b"\x81\xa1x" + bomb,  # of a greeting's unknown field
        REAL[:HEADER_BYTES] + body_of(bomb),
        REAL[:HEADER_BYTES] + body_of(bomb, index_of("enrich", Nothing, "sink"), ADDRESSES.index(("sink", 0))),
    ]
    with memory_bounded(4 * len(bomb) + 1_000_000):
        assert [read(place) for place in places] == [False] * len(places)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", [*BOMBS])
@pytest.mark.parametrize(("cls", "subscriber"), [(Event, "sink"), (Tree, "tap"), (Nothing, "sink"), (Rich, "sink")])
def test_a_memory_bomb_in_a_record_fails_the_trees_of_its_group_at_most_A12_S3(
    name: str, cls: Any, subscriber: str
) -> None:
    bomb = BOMBS[name](1 << 20)
    index, address = index_of("enrich", cls, subscriber), ADDRESSES.index((subscriber, 0))
    for records in (b"\x92" + bomb, b"\x92\x91" + bomb + b"\x90", b"\x92" + b"\x91" + bomb):
        with memory_bounded(120 * len(bomb) + 1_000_000):  # a Tree takes one byte there, and 100 here
            one, failed = CODEC.decode(body_of(records, index, address))
            assert sorted([*(root for root, _ in failed), *(each.root for each in one.batches[0][1])]) == [1, 2]
            assert {why.reason for _, why in failed} <= {Reason.UNDECODABLE}
