"""The wire: what frames look like, what is refused, and that everything of a content arrives or fails by name."""

from datetime import UTC
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_kit import (
    ADDRESSES,
    CODEC,
    ENRICH_ADDRESS,
    SUBSCRIPTIONS,
    Colour,
    Event,
    Nothing,
    Rich,
    Tree,
    content,
    for_enrich,
    index_of,
    sent,
    source_of,
    told,
    tup,
)

from topology.core.tuples import Tuple
from topology.groupings import key_bytes
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.remote_acks import Acks
from topology.runtime.links import columns
from topology.runtime.links.codec import FRAME_BYTES_MAX, RECORD_BYTES_MAX, pack, unpack
from topology.runtime.links.columns import BODY_BYTES, CHECKPOINTS, COLUMN_MAX, TRACE_MAX
from topology.runtime.links.protocol import FRAME_VERSION, Content, Frame, FrameError, Greeting, Kind

U64 = st.integers(0, 2**64 - 1)
HELLO = Frame(Kind.HELLO, 7, 1, 4096, 9, 0, Greeting(FRAME_VERSION, "ab" * 16, "kedge 0.1.0, Python 3.11.7"))


def framed(body: bytes = b"", kind: int = Kind.CONTENT) -> bytes:
    data = bytearray(pack(Frame(Kind.CONTENT, 1, 2, 3, 4, 5, body)))
    data[3] = kind
    return bytes(data)


# -- frames


def test_the_header_has_these_bytes() -> None:
    data = pack(Frame(Kind.CONTENT, 0x0102030405060708, 0x11, 0x3FFFFFF, 0x2122232425262728, 2**64 - 1, b"body"))
    assert data.hex(" ") == (
        "e5 4b 02 03 "  # magic, version, kind
        "08 07 06 05 04 03 02 01 "  # run
        "11 00 00 00 ff ff ff 03 "  # sender, receiver
        "28 27 26 25 24 23 22 21 "  # session
        "ff ff ff ff ff ff ff ff "  # number
        "62 6f 64 79"
    )


@pytest.mark.parametrize("kind", [Kind.HELLO, Kind.WELCOME])
def test_a_greeting_arrives_as_it_was(kind: Kind) -> None:
    frame = msgspec.structs.replace(HELLO, kind=kind)
    assert msgspec.structs.astuple(unpack(pack(frame))) == msgspec.structs.astuple(frame)


def test_the_body_of_a_content_is_not_touched_by_unpack() -> None:
    frame = unpack(framed(b"\xc1 is never used in msgpack"))
    assert (frame.kind, frame.number, bytes(frame.body)) == (Kind.CONTENT, 5, b"\xc1 is never used in msgpack")


def test_another_version_is_refused_with_both_versions_named_F37() -> None:
    data = bytearray(pack(HELLO))
    data[2] = FRAME_VERSION + 6
    with pytest.raises(
        FrameError, match=rf"version {FRAME_VERSION + 6}, and this worker reads version {FRAME_VERSION};"
    ):
        unpack(bytes(data))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 bytes are too few"),
        (framed()[:-1], "35 bytes are too few"),
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "b'GET / HT' is no frame"),
        (b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f".ljust(64, b"\0"), "is no frame"),
        (framed(kind=0), "kind 0, which there is not"),
        (framed(kind=4), "kind 4, which there is not"),
        (framed(b"\0" * FRAME_BYTES_MAX), "over the limit of 2"),
        (framed(b"\xc4" * 4097, Kind.HELLO), "greeting of 4,097 bytes is over the limit of 4,096"),
        (framed(b"", Kind.WELCOME), "greeting can't be read: Input data was truncated"),
        (framed(b"\x90", Kind.WELCOME), "greeting can't be read: Expected `object`, got `array`"),
        (framed(b"\x81\xa7version\xc0", Kind.HELLO), "greeting can't be read: Expected `int`, got `None`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_frame_is_refused_in_a_sentence_F34(data: bytes, why: str) -> None:
    with pytest.raises(FrameError, match=why):
        unpack(data)


# -- contents


EVENTS = st.builds(Event, st.text(), st.integers(-(2**63), 2**64 - 1))
RECORDS = {
    Event: EVENTS,
    Rich: st.builds(
        Rich,
        st.datetimes(timezones=st.just(UTC)),
        st.decimals(allow_nan=False),
        st.sampled_from(Colour),
        EVENTS,
        st.frozensets(st.text()),
        st.lists(st.tuples(st.text(), st.integers(-(2**63), 2**63))).map(tuple),
        st.floats(allow_nan=False),
        st.binary(),
        st.none() | EVENTS,
    ),
    Nothing: st.just(Nothing()),
    Tree: st.recursive(st.just(Tree()), lambda inner: st.builds(Tree, st.lists(inner, max_size=3).map(tuple))),
}


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[int, list[Tuple[Any]]]]:
    """Tuples of any subscriptions for any tasks that read them; a task's may come from several."""
    made: dict[int, list[Tuple[Any]]] = {}
    for _ in range(draw(st.integers(0, 4))):
        index = draw(st.integers(0, len(SUBSCRIPTIONS) - 1))
        one = SUBSCRIPTIONS[index]
        address = draw(st.sampled_from([at for at, (name, _) in enumerate(ADDRESSES) if name == one.subscriber]))
        source, others = source_of(index), st.just(()) | st.lists(U64, max_size=7).map(tuple)
        some = st.builds(Tuple, RECORDS[one.cls], U64, U64, st.just(0) | U64, others, st.just(source))
        made[address] = draw(st.permutations([*made.get(address, []), *draw(st.lists(some, max_size=20))]))
    return list(made.items())


FAILURES = st.builds(Failure, st.sampled_from(Reason), st.text(max_size=9), st.text(max_size=50), st.none(), st.text())
CONTENTS = st.builds(
    Content,
    batches(),
    st.dictionaries(U64, U64).map(Acks),
    st.lists(st.tuples(U64, FAILURES)),
    st.sets(U64),
    st.dictionaries(U64, U64),
    st.integers(0, CHECKPOINTS - 1),
)


@given(CONTENTS)
def test_a_content_arrives_as_it_was(one: Content) -> None:
    assert told(*sent(one)) == told(one)


def test_an_empty_content_is_one_short_body() -> None:
    bodies, failed = CODEC.encode(content())
    assert ([len(body) < 29 for body in bodies], failed) == ([True], [])
    assert told(*sent(content())) == told(content())


def test_tuples_of_no_tree_travel_too() -> None:
    (arrived,) = sent(for_enrich(tup(Event("a"), root=0), tup(Event("b"), root=0, others=(5,))))
    assert [(one.record.text, one.roots) for one in arrived.batches[0][1]] == [("a", ()), ("b", (5,))]


def test_the_receiver_knows_the_key_of_a_fields_grouping() -> None:
    index = index_of("enrich", Event, "sink")
    (arrived,) = sent(content([(ADDRESSES.index(("sink", 2)), [tup(Event("key"), source=source_of(index))])]))
    source = arrived.batches[0][1][0].source
    assert (source.component, source.stream, source.tag) == ("enrich", "Event", SUBSCRIPTIONS[index].tag)
    assert source.key is not None
    assert source.key(Event("key")) == key_bytes("key")


def test_what_one_bolt_reads_of_several_streams_is_kept_apart_and_in_order() -> None:
    first, second = source_of(index_of("enrich", Event, "tap")), source_of(index_of("events", Event, "tap"))
    assert first.tag != second.tag or first.component != second.component
    mixed = [tup(Event("", n), n, source=(first, second)[n % 3 == 0]) for n in range(1, 200)]
    (arrived,) = sent(content([(ADDRESSES.index(("tap", 0)), mixed)]))
    assert [[one.root for one in some] for _, some in arrived.batches] == [
        [n for n in range(1, 200) if n % 3],
        [n for n in range(1, 200) if n % 3 == 0],
    ]


# -- bounds


@pytest.mark.parametrize("size", [0, 10, 3_000, BODY_BYTES // 2, BODY_BYTES + 1])
def test_large_batches_are_split_and_keep_their_order(size: int) -> None:
    count = max(5, 3 * BODY_BYTES // (size + 30))
    one = for_enrich(*(tup(Event("x" * size, n), n, (n + 1,) * (n % 100 == 0)) for n in range(count)))
    bodies, failed = CODEC.encode(one)
    assert failed == []
    assert len(bodies) > 2
    assert all(len(body) <= BODY_BYTES + size + 100 for body in bodies)
    assert told(*(CODEC.decode(body)[0] for body in bodies)) == told(one)


def test_many_acks_touches_depths_and_fails_take_as_many_bodies_as_they_need() -> None:
    many = range(2 * COLUMN_MAX + 1)
    raised = [Failure(Reason.FAILED, "bolt", f"{n}" + "é" * 1_990) for n in range(600)]
    one = content(
        acks={n: n + 1 for n in many},
        touches=set(many),
        queued={n + 1 for n in many},
        depths={n: n % 3 for n in many},
        fails=[*((n, raised[0]) for n in many), *enumerate(raised)],
        checkpoint=9,
    )
    bodies, _ = CODEC.encode(one)
    arrived = [CODEC.decode(body)[0] for body in bodies]
    assert all(len(body) < 6 * BODY_BYTES for body in bodies)
    assert {part.checkpoint for part in arrived} == {9}, "each may be read alone"
    assert max(len(part.acks) for part in arrived) == COLUMN_MAX
    assert told(*arrived) == told(one)


def test_the_largest_frame_is_within_the_limit_that_transports_set() -> None:
    room = RECORD_BYTES_MAX - len(msgspec.msgpack.encode(Event("x" * 100_000, 1))) + 100_000
    failure = Failure(Reason.FAILED, "bolt", "\U0001f40b" * 2_000, None, "\U0001f40b" * TRACE_MAX)
    one = content(
        [(ENRICH_ADDRESS, [tup(Event("x" * room, 1), 1, tuple(range(2, 9)))])],
        [
            *((n, failure) for n in range(COLUMN_MAX)),
            *((n, Failure(Reason.FAILED, "", "x" * 1_000)) for n in range(400)),
        ],
        acks=dict.fromkeys(range(COLUMN_MAX), 1),
        touches=set(range(COLUMN_MAX)),
        queued=set(range(COLUMN_MAX)),
        depths=dict.fromkeys(range(COLUMN_MAX), 1),
        checkpoint=CHECKPOINTS - 1,
    )
    bodies, failed = CODEC.encode(one)
    assert (len(bodies), failed) == (1, [])
    data = pack(Frame(Kind.CONTENT, 2**64 - 1, 2**32 - 1, 2**32 - 1, 2**64 - 1, 2**64 - 1, bodies[0]))
    assert FRAME_BYTES_MAX * 0.95 < len(data) <= FRAME_BYTES_MAX
    assert len(CODEC.decode(unpack(data).body)[0].batches[0][1][0].record.text) == room


@pytest.mark.parametrize("checkpoint", [-1, CHECKPOINTS, None, "1", 1.5], ids=str)
def test_a_checkpoint_that_nobody_gathers_is_refused_S3(checkpoint: object) -> None:
    (body,), _ = CODEC.encode(content(checkpoint=CHECKPOINTS - 1))
    fields = dict(zip(columns.Body.__struct_fields__, msgspec.msgpack.decode(body), strict=True))
    assert CODEC.decode(msgspec.msgpack.encode([*fields.values()]))[0].checkpoint == CHECKPOINTS - 1
    with pytest.raises(FrameError):
        CODEC.decode(msgspec.msgpack.encode([*{**fields, "checkpoint": checkpoint}.values()]))


def test_a_record_over_the_limit_fails_its_trees_and_names_the_emitter_F36() -> None:
    whale = tup(Event("x" * RECORD_BYTES_MAX), 2, (12, 22))
    bodies, failed = CODEC.encode(for_enrich(tup(Event("a"), 1), whale, tup(Event("c"), 3)))
    assert [root for root, _ in failed] == [2, 12, 22]
    failure = failed[0][1]
    assert (failure.reason, failure.component) == (Reason.OVERSIZED, "events")
    assert failure.text == "a record of Event has 16,777,223 bytes, and may have 16,777,216"
    arrived = told(*(CODEC.decode(body)[0] for body in bodies))["tuples"]
    assert [[each[0].text for each in some] for some in arrived.values()] == [["a", "c"]]
