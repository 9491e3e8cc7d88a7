"""Messages out of a stream of syslog: lengths, newlines, both in one stream, and anything else."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spouts.incoming.cutter import LineCut
from spouts.listeners.syslog_frames import SyslogCutter

LONGEST = 40
MESSAGES = st.lists(st.from_regex(rb"<[0-9]{1,3}>[a-z0-9 ]{0,20}", fullmatch=True), max_size=10)


def cut(*blocks: bytes, longest: int = LONGEST) -> list[LineCut]:
    cutter = SyslogCutter(longest)
    found = [each for block in blocks for each in cutter.feed(block)]
    return [*found, *cutter.end()]


def contents(cuts: Sequence[LineCut]) -> list[bytes]:
    return [each.data for each in cuts]


def counted(message: bytes) -> bytes:
    return b"%d %s" % (len(message), message)


@given(MESSAGES, st.data())
def test_each_message_comes_with_either_framing_however_the_stream_is_divided(
    messages: list[bytes], data: st.DataObject
) -> None:
    ends = st.sampled_from([b"\n", b"\0", b"\r\n"])
    stream = b"".join(counted(each) if data.draw(st.booleans()) else each + data.draw(ends) for each in messages)
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    blocks = [stream[begin:end] for begin, end in zip([0, *places], [*places, len(stream)], strict=True)]
    cuts = cut(*blocks)
    assert [each.rstrip(b"\r") for each in contents(cuts)] == messages
    assert not any(each.problem for each in cuts)


@given(
    st.lists(st.sampled_from([b"5 <", b"<13>x", b"\n", b"99 <", b"1", b"2 ", b"abc", b"\0", b"9" * 12]), max_size=25)
)
def test_blocks_make_no_difference_and_what_is_held_is_bounded(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    cutter = SyslogCutter(LONGEST)
    found = []
    for at in range(len(stream)):
        found += cutter.feed(stream[at : at + 1])
        assert cutter.held <= LONGEST + 12
    assert [*found, *cutter.end()] == cut(stream)


def test_a_counted_message_may_have_newlines_and_one_behind_it() -> None:
    message = b"<13>two\nlines"
    assert contents(cut(counted(message) + b"\n" + counted(message))) == [message, message]


@pytest.mark.parametrize("line", [b"2024 was a good year", b"42", b"hello", b"0 <13>x", b"12<13>x"])
def test_a_line_that_only_begins_like_a_length_is_a_line(line: bytes) -> None:
    assert contents(cut(line + b"\n<13>next\n")) == [line, b"<13>next"]


@pytest.mark.parametrize("framed", [counted(b"<13>" + b"x" * 200), b"<13>" + b"x" * 200 + b"\n"])
def test_of_a_message_that_is_too_long_the_first_bytes_come_and_the_next_one_is_whole(framed: bytes) -> None:
    for blocks in ([framed + b"<13>next\n"], [framed[:10], framed[10:60], framed[60:], b"<13>next\n"]):
        first, second = cut(*blocks)
        assert first.data == (b"<13>" + b"x" * 200)[:LONGEST]
        assert "max_message_bytes" in first.problem
        assert second == LineCut(0, b"<13>next")


def test_an_end_within_a_counted_message_is_a_problem_and_within_a_line_it_is_none() -> None:
    (broken,) = cut(b"30 <13>only a part")
    assert broken.data == b"<13>only a part"
    assert "ended after 15 of the 30 bytes" in broken.problem
    assert cut(b"<13>a line") == [LineCut(0, b"<13>a line")]
