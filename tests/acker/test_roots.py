"""Roots: their layout, by golden vectors, and that none is ever handed out twice (A7).

The values were written down once and hold for ever: roots of an old release are compared with those of a new one.
"""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acker.roots import (
    ATTEMPTS,
    INCARNATIONS,
    NUMBERS,
    ROOT_STEP,
    WORKERS,
    RootSource,
    attempt_of,
    message_of,
    owner,
    pack,
    worker_of,
)

workers = st.integers(0, WORKERS - 1)
incarnations = st.integers(0, INCARNATIONS - 1)
numbers = st.integers(0, NUMBERS - 1)
attempts = st.integers(0, ATTEMPTS - 1)


def counted(first: int) -> Callable[[], int]:
    """A durable counter's stand-in: each call gives the next incarnation."""
    given_out = iter(range(first, first + INCARNATIONS))
    return lambda: next(given_out)


def never() -> int:
    raise AssertionError("no incarnation is spent yet")


# -- the layout


def incarnation_of(root: int) -> int:
    return message_of(root) >> 32 & 0xFFF


def number_of(root: int) -> int:
    return message_of(root) & 0xFFFF_FFFF


@pytest.mark.parametrize(
    ("worker", "incarnation", "number", "attempt", "root"),
    [
        (0, 0, 1, 0, 0x0000_0000_0000_0040),
        (0, 0, 1, 1, 0x0000_0000_0000_0041),
        (0, 1, 0, 0, 0x0000_0040_0000_0000),
        (1, 0, 0, 0, 0x0004_0000_0000_0000),
        (3, 7, 0x1234_5678, 5, 0x000C_01C4_8D15_9E05),
        (WORKERS - 1, INCARNATIONS - 1, NUMBERS - 1, ATTEMPTS - 1, 0xFFFF_FFFF_FFFF_FFFF),
    ],
)
def test_a_root_keeps_its_golden_layout(worker: int, incarnation: int, number: int, attempt: int, root: int) -> None:
    """A7: 14 bits of worker, 12 of incarnation, 32 of number, 6 of attempt."""
    assert pack(owner(worker, incarnation), number, attempt) == root


@given(workers, incarnations, numbers, attempts)
def test_a_root_gives_back_what_it_was_packed_from(worker: int, incarnation: int, number: int, attempt: int) -> None:
    root = pack(owner(worker, incarnation), number, attempt)
    assert 0 <= root < 1 << 64
    assert (worker_of(root), incarnation_of(root), number_of(root), attempt_of(root)) == (
        worker,
        incarnation,
        number,
        attempt,
    )
    assert message_of(root) == message_of(pack(owner(worker, incarnation), number, 0))


@given(workers, st.integers(0, 1 << 40))
def test_an_incarnation_is_kept_modulo_4096(worker: int, incarnation: int) -> None:
    assert owner(worker, incarnation) == owner(worker, incarnation % 4_096)


@pytest.mark.parametrize("worker", [-1, 1 << 14])
def test_a_worker_beyond_14_bits_is_refused(worker: int) -> None:
    with pytest.raises(ValueError, match="0 to 16383"):
        owner(worker, 0)


# -- the source


def test_a_source_begins_with_number_one_and_never_gives_zero() -> None:
    source = RootSource(0, 0, never)
    assert [source.next_root() for _ in range(3)] == [pack(0, number, 0) for number in (1, 2, 3)]


def test_spent_numbers_renew_the_incarnation() -> None:
    """A7: the number space of one incarnation lasts two and a half hours at 500,000 a second."""
    source = RootSource(3, 7, counted(8), first=NUMBERS - 1)
    last, after = source.next_root(), source.next_root()
    assert (incarnation_of(last), number_of(last)) == (7, NUMBERS - 1)
    assert (incarnation_of(after), number_of(after)) == (8, 1)
    assert worker_of(after) == 3


def test_no_incarnation_is_taken_before_the_numbers_are_spent() -> None:
    source = RootSource(0, 0, never, first=NUMBERS - 3)
    assert [number_of(source.next_root()) for _ in range(3)] == [NUMBERS - 3, NUMBERS - 2, NUMBERS - 1]


def test_roots_taken_together_follow_one_another() -> None:
    source = RootSource(2, 3, never)
    first = source.take(3)
    assert [first + step * ROOT_STEP for step in range(3)] == [pack(owner(2, 3), number, 0) for number in (1, 2, 3)]
    assert source.latest == first + 2 * ROOT_STEP
    assert source.next_root() == first + 3 * ROOT_STEP


@given(st.integers(1, 50), st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_roots_taken_together_never_cross_into_another_incarnation(left: int, counts: list[int]) -> None:
    """A7: the numbers that are left over are given up, so that a row of roots has one owner and none comes twice."""
    source = RootSource(1, 1, counted(2), first=NUMBERS - left)
    given_out: list[int] = []
    for count in counts:
        first = source.take(count)
        row = [first + step * ROOT_STEP for step in range(count)]
        assert {message_of(root) >> 32 for root in row} == {source.owner}
        assert row[-1] == source.latest
        given_out += row
    assert len(set(given_out)) == len(given_out)


def test_a_replay_keeps_its_number_and_counts_its_attempts() -> None:
    source = RootSource(0, 0, never)
    root = source.next_root()
    again = source.next_attempt(root)
    assert message_of(again) == message_of(root)
    assert attempt_of(again) == 1


def test_spent_attempts_take_a_new_number() -> None:
    """A7: the 65th attempt must not run into the next message's number."""
    source = RootSource(0, 0, never)
    root = first = source.next_root()
    other = source.next_root()
    for _ in range(ATTEMPTS - 1):
        root = source.next_attempt(root)
    assert message_of(root) == message_of(first)
    fresh = source.next_attempt(root)
    assert attempt_of(fresh) == 0
    assert number_of(fresh) == number_of(other) + 1


def test_the_latest_root_is_the_one_handed_out_last() -> None:
    source = RootSource(1, 2, never)
    assert source.latest < (first := source.next_root())
    assert source.latest == first


@given(st.lists(st.integers(0, 12), max_size=300), st.integers(0, 3))
def test_a_source_never_hands_out_a_root_twice(steps: list[int], left: int) -> None:
    """A7, over mixtures of new messages and replays, across spent attempts and a spent number space."""
    source = RootSource(5, INCARNATIONS - 1, counted(INCARNATIONS), first=NUMBERS - left)
    given_out = [source.next_root()]
    latest = [given_out[0]]  # of each message
    for step in steps:
        if step == 0:
            latest.append(source.next_root())
            given_out.append(latest[-1])
        else:
            for _ in range(25):  # so that 64 attempts are spent within a few steps
                latest[step % len(latest)] = source.next_attempt(latest[step % len(latest)])
                given_out.append(latest[step % len(latest)])
    assert len(set(given_out)) == len(given_out)
    assert 0 not in given_out
