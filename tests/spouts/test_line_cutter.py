"""`LineCutter`: the same lines, however the stream is divided into blocks; what is too long is bounded and not lost."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spouts.incoming.cutter import LineCut, LineCutter

LONGEST = 8
STREAMS = st.lists(st.sampled_from([b"a", b"bc", b"\xc3\xa9", b"\n", b"\r\n", b"\r", b"0123456789"]), max_size=30)


def cut(blocks: Sequence[bytes], *, pieces: bool, longest: int = LONGEST) -> list[LineCut]:
    cutter = LineCutter(longest, pieces=pieces)
    found = [each for block in blocks for each in cutter.feed(block)]
    return [*found, *cutter.end()]


@given(STREAMS, st.booleans())
def test_blocks_make_no_difference(parts: list[bytes], pieces: bool) -> None:
    stream = b"".join(parts)
    whole = cut([stream], pieces=pieces)
    assert cut([stream[at : at + 1] for at in range(len(stream))], pieces=pieces) == whole
    assert cut(parts, pieces=pieces) == whole


@given(STREAMS)
def test_offsets_grow_and_name_the_place_of_the_content_and_pieces_lose_nothing(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    cuts = cut(parts, pieces=True)
    assert all(stream[each.offset :].startswith(each.data) for each in cuts)
    offsets = [each.offset for each in cuts]
    assert offsets == sorted(set(offsets))
    assert b"".join(each.data for each in cuts).replace(b"\r", b"") == stream.replace(b"\n", b"").replace(b"\r", b"")
    assert all(len(each.data) <= LONGEST + 1 for each in cuts)


@given(STREAMS)
def test_what_is_held_is_bounded(parts: list[bytes]) -> None:
    for pieces in (True, False):
        cutter = LineCutter(LONGEST, pieces=pieces)
        for part in parts:
            cutter.feed(part)
            assert cutter.held <= LONGEST + 1


def test_without_pieces_a_line_that_is_too_long_is_one_problem_and_the_next_line_is_whole() -> None:
    cuts = cut([b"x" * 30, b"y" * 30 + b"\nnext\n"], pieces=False)
    assert [(each.offset, each.data, bool(each.problem)) for each in cuts] == [
        (0, b"x" * LONGEST, True),
        (61, b"next", False),
    ]


def test_a_character_is_not_cut_in_two() -> None:
    text = "é" * 40
    assert "".join(each.data.decode() for each in cut([text.encode()], pieces=True, longest=7)) == text


@pytest.mark.parametrize(
    ("stream", "lines"), [(b"a\r\nb\n\nc", [b"a", b"b", b"", b"c"]), (b"", []), (b"a\r", [b"a\r"])]
)
def test_line_ends_are_no_part_of_lines(stream: bytes, lines: list[bytes]) -> None:
    assert [each.data for each in cut([stream], pieces=True)] == lines
