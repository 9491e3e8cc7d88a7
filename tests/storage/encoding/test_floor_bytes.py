"""What is kept of a home's announcement, as bytes and back. Rules D4, D5, S3."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acker.progress import Progress
from topology.storage.encoding import floors
from topology.storage.encoding.floors import floor_of, packed_floor

U64 = st.integers(0, 2**64 - 1)
PROGRESS = st.builds(
    Progress,
    st.integers(0, 2**58 - 1),
    st.frozensets(U64),
    st.integers(0, 2**26 - 1),
    st.booleans(),
    st.frozensets(U64),
    settled=st.just(frozenset()),
    number=st.just(0),
    heard=st.just(frozenset()),
    refused=st.frozensets(U64),
)
SOME = Progress(
    7 << 44 | 9, frozenset({7 << 44 | 3}), 7 << 12, True, frozenset({2**64 - 1}), frozenset({5}), 4, frozenset({6})
)
REFUSED = SOME._replace(refused=frozenset({7 << 44 | 3}))


@pytest.mark.parametrize("length", range(len(packed_floor(SOME))))
def test_bytes_that_are_cut_are_refused_S3(length: int) -> None:
    with pytest.raises(ValueError, match="not the bytes of a floor"):
        floor_of(packed_floor(SOME)[:length])


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [2**58, b"", 1, True, b""],
        [-1, b"", 1, True, b""],
        [1, b"1234567", 1, True, b""],
        [1, b"", 2**26, True, b""],
        [1, b"", -1, True, b""],
        [1, b"", 1, 1, b""],
        [1, b"", 1, True, b"1"],
        [1, b"", 1, True, b"", b"1"],
        [1, b"", 1, True, b"", b"", b""],
        ["1", b"", 1, True, b""],
    ],
    ids=str,
)
def test_what_nobody_has_packed_is_refused_S3(fields: list[object]) -> None:
    with pytest.raises(ValueError, match="not the bytes of a floor"):
        floor_of(msgspec.msgpack.encode(fields))


@given(st.binary())
def test_garbage_is_refused_or_a_floor_S3(data: bytes) -> None:
    try:
        found = floor_of(data)
    except ValueError:
        return
    assert floor_of(packed_floor(found)) == found


def test_more_messages_than_may_be_kept_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "UNFINISHED_MAX", 2)
    with pytest.raises(ValueError, match="may list 2"):
        packed_floor(Progress(9, frozenset(range(3))))
    with pytest.raises(ValueError, match="may list 2"):
        packed_floor(Progress(9, frozenset(), dead=frozenset(range(3))))
    with pytest.raises(ValueError, match="may list 2"):
        packed_floor(Progress(9, frozenset(), refused=frozenset(range(3))))


def test_equal_progress_has_equal_bytes_and_these_do_not_change() -> None:
    start = "cf0000700000000009c408" + "0300000000700000" + "cd7000c3c408" + "ffffffffffffffff"
    assert packed_floor(SOME).hex() == "96" + start + "c400"
    assert packed_floor(REFUSED).hex() == "96" + start + "c408" + "0300000000700000"
    assert floor_of(bytes.fromhex("95" + start)) == floor_of(packed_floor(SOME)), (
        "as it was before sub-roots were refused"
    )


@given(PROGRESS)
def test_a_progress_is_kept_but_for_what_it_knew_of_other_homes_D5(progress: Progress) -> None:
    said = progress._replace(settled=frozenset({5}), number=7, heard=frozenset({6}))
    assert floor_of(packed_floor(said)) == progress
