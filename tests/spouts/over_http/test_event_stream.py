"""The format text/event-stream: the examples of the HTML standard, and the same events however the bytes are cut."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spouts.http.event_stream import RETRY_MAX_S, EventStreamParser, EventTooLong, StreamEvent


def read(*chunks: bytes, last_id: str = "", max_bytes: int = 1_000_000) -> list[StreamEvent]:
    parser = EventStreamParser(last_id, max_bytes)
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [(b"YHOO\n+2\n10", "message", None, "")]),
        (  # the second has no id; "id" alone takes the last one away; and nothing comes of the unfinished end
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event",
            [(b"first event", "message", "1", "1"), (b"second event", "message", None, "")],
        ),
        (b"data\n\ndata\ndata\n\ndata:", [(b"", "message", None, ""), (b"\n", "message", None, "")]),
        (b"data:test\n\ndata: test\n\n", [(b"test", "message", None, ""), (b"test", "message", None, "")]),
        (b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n",
         [(b"73857293", "add", None, ""), (b"2153", "remove", None, "")]),
        (b"event: lost\n\ndata: kept\n\n", [(b"kept", "message", None, "")]),
        (b"id: 5\n\ndata: a\n\n", [(b"a", "message", None, "5")]),
        (b"id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n", [(b"a", "message", "1", "1"), (b"b", "message", None, "1")]),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [(b"a", "message", None, "")]),
        (b"Data: a\ndata : b\n data: c\nother: d\n\n", []),
        (b"data: a\r\rdata: b\r\n\r\ndata: c\n\r", [(b"a", "message", None, ""), (b"b", "message", None, ""),
                                                      (b"c", "message", None, "")]),
        (b"data: \xff\xc3\xa9\nid: \xff\nevent: \xc3\xa9\n\n", [(b"\xff\xc3\xa9", "é", "\ufffd", "\ufffd")]),
        (b"data: a:b: c\n\n", [(b"a:b: c", "message", None, "")]),
    ],
    ids=range(13),
)  # fmt: skip
def test_streams_are_read_as_the_standard_says(stream: bytes, events: list[tuple[bytes, str, str | None, str]]) -> None:
    assert read(stream) == [StreamEvent(*event) for event in events]
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == [StreamEvent(*event) for event in events]


LINES = [
    b"data: a",
    b"data",
    b"id: 1",
    b"id",
    b"event: b",
    b"retry: 5",
    b": x",
    b"",
    b"\xef\xbb\xbf",
    b"data:\xff",
    b"x",
]
STREAMS = st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=30).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(STREAMS, st.lists(st.integers(0, 200), max_size=20))
@example(b"data: a\r\n\r\n", [8])
@example(b"\xef\xbb\xbfdata: a\n\n", [1, 2])
def test_events_are_the_same_however_the_bytes_are_cut(stream: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(stream)]
    pieces = [stream[begin:end] for begin, end in itertools.pairwise(places)]
    if b"".join(pieces) != stream:  # a cut behind the end
        pieces = [stream]
    assert read(*pieces) == read(stream)


@given(STREAMS)
def test_a_byte_order_mark_at_the_begin_changes_nothing(stream: bytes) -> None:
    if not stream.startswith(b"\xef\xbb\xbf"):
        assert read(b"\xef\xbb\xbf" + stream) == read(stream)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (b"retry: 1500", 1.5),
        (b"retry:0", 0.0),
        (b"retry: 1.5", None),
        (b"retry: -1", None),
        (b"retry: \xd9\xa1", None),
        (b"retry", None),
        (b"retry: " + b"9" * 5_000, RETRY_MAX_S),
    ],
    ids=range(7),
)
def test_only_digits_say_when_to_connect_again(line: bytes, seconds: float | None) -> None:
    parser = EventStreamParser()
    parser.feed(line + b"\n\n")
    assert parser.retry_s == seconds


def test_a_new_connection_begins_with_the_last_id() -> None:
    assert read(b"data: a\n\nid: 2\ndata: b\n\n", last_id="1") == [
        StreamEvent(b"a", "message", None, "1"),
        StreamEvent(b"b", "message", "2", "2"),
    ]


def test_events_that_are_complete_before_one_that_is_too_long_are_given() -> None:
    whole = b"id: 1\ndata: a\n\nid: 2\ndata: b\n\n"
    for stream in (b"id: 3\ndata: " + b"x" * 60 + b"\n\ndata: c\n\n", b"data: 0123456789\n" * 6, b"data: " + b"x" * 60):
        parser = EventStreamParser(max_bytes=50)
        with pytest.raises(EventTooLong) as caught:
            parser.feed(whole + stream)
        assert [event.data for event in caught.value.before] == [b"a", b"b"]
        assert parser.last_id == "2", "a new connection begins after them"


def test_an_event_has_a_bound_and_a_stream_has_none() -> None:
    assert len(read(*[b"data: 0123456789\n\n"] * 1_000, max_bytes=50)) == 1_000
    assert len(read(*[b"data: 0123", b"456789\n", b"data: 0123456789\n\n"] * 100, max_bytes=50)) == 100
    for stream in (b"data: " + b"x" * 60, b"data: 0123456789\n" * 6, b": " + b"x" * 60):
        with pytest.raises(EventTooLong):
            read(*(stream[at : at + 7] for at in range(0, len(stream), 7)), max_bytes=50)
    assert len(read(*[b"data: %s\n\n" % (b"x" * 5_000_000)[:2_000_000]] * 3, max_bytes=3_000_000)) == 3
