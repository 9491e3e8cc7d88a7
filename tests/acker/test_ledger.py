"""The ledger: when a tree is done, and when it is given up. Time is a number here; nothing waits.

`tests/property/test_ledger_model.py` drives the same ledger through random topologies.
"""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acker.anchoring import OpenTuple, register
from acker.ledger import STALL_S, Ledger, Tree

T = 30.0  # tree_timeout_s
TURN_S = 0.25  # between two calls of `advance`
A, B, C, D = 0xA1, 0xB2, 0xC4, 0xD8  # edges


def ledger_with(*trees: tuple[int, int], hard_cap: int = 20) -> Ledger[Tree]:
    """A ledger at time 0 in which these trees (root, value) have just begun."""
    ledger: Ledger[Tree] = Ledger(T, now=0.0, hard_cap=hard_cap)
    for root, value in trees:
        ledger.begin(Tree(root, value))
    return ledger


class Driven:
    """A ledger and its caller, who calls `advance` every turn; knows when each tree expired."""

    def __init__(self, ledger: Ledger[Tree]) -> None:
        self.ledger = ledger
        self.now = 0.0
        self.expired: dict[int, float] = {}

    def turn(self, seconds: float = TURN_S) -> None:
        self.now += seconds
        for tree in self.ledger.advance(self.now):
            self.expired[tree.root] = self.now

    def until(self, when: float) -> None:
        while self.now < when:
            self.turn(min(TURN_S, when - self.now))


# -- done, or not (A1)


def test_a_tree_is_done_when_its_only_tuple_is_acked() -> None:
    ledger = ledger_with((1, A))
    done = ledger.ack(1, A)
    assert done is not None
    assert done.root == 1
    assert 1 not in ledger
    assert len(ledger) == 0


def test_a_chain_is_done_with_its_last_tuple() -> None:
    ledger = ledger_with((1, A))
    assert ledger.ack(1, A ^ B) is None
    assert ledger.ack(1, B ^ C) is None
    assert ledger.ack(1, C) is not None


def test_acks_may_come_in_any_order() -> None:
    """A tuple may be acked before the input that emitted it: its edge is then in the value once, and comes again."""
    ledger = ledger_with((1, A))
    assert ledger.ack(1, C) is None
    assert ledger.ack(1, B ^ C) is None
    assert ledger.ack(1, A ^ B) is not None


def test_a_join_within_one_tree_is_not_done_while_its_result_is_in_flight() -> None:
    """A1: a spout's message goes out as a and b; c is anchored to both. One value for all roots would cancel c."""
    ledger = ledger_with((1, A ^ B))
    a, b = OpenTuple((1,), A), OpenTuple((1,), B)
    register((a, b), C)
    assert ledger.ack(1, a.values[1]) is None
    assert ledger.ack(1, b.values[1]) is None, "done while c was in flight"
    assert ledger.ack(1, C) is not None


def test_a_join_of_overlapping_trees_keeps_each_of_them_open() -> None:
    """A1: anchors a (trees 1, 2) and b (trees 2, 3); the result d belongs to all three, once each."""
    ledger = ledger_with((1, A), (2, A ^ B), (3, B))
    a, b = OpenTuple((1, 2), A), OpenTuple((2, 3), B)
    register((a, b), D)
    for joined in (a, b):
        for root, value in joined.values.items():
            assert ledger.ack(root, value) is None
    assert {tree.root: tree.value for tree in ledger.trees()} == {1: D, 2: D, 3: D}
    assert all(ledger.ack(root, D) for root in (1, 2, 3))


def test_merged_acks_do_what_single_ones_do() -> None:
    ledger = ledger_with((1, A))
    assert ledger.ack(1, (A ^ B ^ C) ^ B) is None
    assert ledger.ack(1, C) is not None


def test_other_trees_are_left_alone() -> None:
    ledger = ledger_with((1, A), (2, A))
    ledger.ack(1, A)
    assert [tree.root for tree in ledger.trees()] == [2]


# -- what does not belong


def test_a_second_ack_of_a_done_tree_is_counted_and_does_nothing() -> None:
    """A4: late and repeated acks are harmless, because a root is never used again."""
    ledger = ledger_with((1, A), (2, B))
    ledger.ack(1, A)
    assert ledger.ack(1, A) is None
    assert ledger.unknown == 1
    assert len(ledger) == 1


def test_acks_fails_and_touches_of_foreign_roots_are_counted() -> None:
    ledger = ledger_with((1, A))
    assert ledger.ack(9, A) is None
    assert ledger.fail(9) is None
    ledger.touch(9)
    assert ledger.unknown == 3
    assert 1 in ledger


def test_a_root_can_not_be_begun_twice_while_it_is_open() -> None:
    """A7: `begin` asserts absence; in both generations."""
    ledger = ledger_with((1, A))
    with pytest.raises(AssertionError):
        ledger.begin(Tree(1, B))
    driven = Driven(ledger)
    driven.until(T + TURN_S)  # now it is in the old generation
    with pytest.raises(AssertionError):
        ledger.begin(Tree(1, B))
    assert ledger.ack(1, A) is not None, "the refused one has left a trace"


def test_a_tree_can_not_begin_without_an_open_edge() -> None:
    """It would never be done: nothing is under way that could ack it."""
    with pytest.raises(AssertionError):
        ledger_with((1, 0))


# -- failing


def test_a_failed_tree_is_given_back_at_once_and_forgotten() -> None:
    ledger = ledger_with((1, A))
    failed = ledger.fail(1)
    assert failed is not None
    assert failed.root == 1
    assert ledger.ack(1, A) is None
    assert ledger.unknown == 1


def test_a_tree_of_the_old_generation_can_fail_too() -> None:
    ledger = ledger_with((1, A))
    Driven(ledger).until(T + TURN_S)
    assert ledger.fail(1) is not None
    assert len(ledger) == 0


def test_fail_all_gives_back_every_tree_the_oldest_first() -> None:
    """A11, E8: the oldest position is replayed first, whatever generation its tree was in."""
    ledger = ledger_with((3, A), (1, B))
    Driven(ledger).until(T + TURN_S)
    ledger.begin(Tree(5, C))
    ledger.begin(Tree(4, C))
    ledger.ack(3, D)  # progress: young again
    assert [tree.root for tree in ledger.fail_all()] == [1, 3, 4, 5]
    assert len(ledger) == 0
    assert ledger.fail_all() == []


# -- deadlines (A8)


@given(st.floats(0, 3 * T), st.lists(st.floats(0.01, T - 1), max_size=4), st.floats(0.01, 1.0))
@example(0.0, [], 1.0)
@example(T, [], 0.25)
def test_a_tree_expires_between_once_and_twice_the_timeout_after_its_last_progress(
    begun: float, gaps: list[float], turn_s: float
) -> None:
    """A8: T <= silence < 2T, and at most two turns of the caller later; a beginning and an ack are progress."""
    ledger: Ledger[Tree] = Ledger(T, now=0.0)
    turns = 0
    progress = [begun + sum(gaps[:n]) for n in range(len(gaps) + 1)]
    last = progress[-1]
    waiting = list(progress)
    while True:
        now = turns * turn_s
        while waiting and waiting[0] <= now:  # just before this turn's `advance`
            waiting.pop(0)
            if 1 in ledger:
                assert ledger.ack(1, 1 << len(waiting) + 1) is None
            else:
                ledger.begin(Tree(1, 1))
        if expired := ledger.advance(now):
            assert [tree.root for tree in expired] == [1]
            assert not waiting, "expired although progress was made in time"
            silence = now - last
            assert silence > T - 1e-6
            assert silence < 2 * T + 2 * turn_s + 1e-6
            return
        turns += 1
        assert now < last + 3 * T, "never expired"


def test_an_expired_tree_is_closed() -> None:
    driven = Driven(ledger_with((1, A)))
    driven.until(2 * T + 2 * TURN_S)
    assert list(driven.expired) == [1]
    assert 1 not in driven.ledger
    assert driven.ledger.ack(1, A) is None


def test_a_tree_that_makes_progress_never_expires() -> None:
    driven = Driven(ledger_with((1, A)))
    for step in range(1, 40):
        driven.until(step * (T - 1))
        assert driven.ledger.ack(1, step << 8) is None
    assert not driven.expired


# -- touch (A9)


def test_a_touched_tree_does_not_expire() -> None:
    """A9: queued is not stuck."""
    driven = Driven(ledger_with((1, A), (2, B)))
    while driven.now < 6 * T:
        driven.until(driven.now + T / 3)
        driven.ledger.touch(1)
    assert list(driven.expired) == [2]


@given(st.integers(1, 6), st.floats(0.5, T - 1), st.floats(0, 4 * T))
def test_touches_save_a_tree_for_the_hard_cap_after_its_last_ack_and_no_longer(
    hard_cap: int, touch_every: float, acked: float
) -> None:
    """A9: behind a `process` that hangs a tuple is touched for ever, and must fail all the same."""
    driven = Driven(ledger_with((1, A), hard_cap=hard_cap))
    progress, due = 0.0, acked
    while 1 in driven.ledger:
        driven.until(driven.now + touch_every)
        if 1 in driven.ledger:
            driven.ledger.touch(1)
            if due <= driven.now:
                assert driven.ledger.ack(1, B) is None
                progress, due = driven.now, float("inf")
        assert driven.now < progress + (hard_cap + 4) * T + acked, "never given up"
    silence = driven.expired[1] - progress
    assert hard_cap * T <= silence
    turns = TURN_S * (hard_cap + 2)
    assert silence < (hard_cap + 2) * T + turns


def test_touches_do_not_count_while_there_are_acks_between_them() -> None:
    """A9: the cap counts from the last ack, so a large tree that is worked off slowly is never cut off."""
    driven = Driven(ledger_with((1, A), hard_cap=2))
    for step in range(1, 30):
        driven.until(driven.now + T + TURN_S)  # old now
        driven.ledger.touch(1)
        assert driven.ledger.ack(1, step << 8) is None
    assert not driven.expired


def touched_until_it_expires(driven: Driven, *, paused: bool = False, stalls: bool = False) -> float:
    """How long tree 1 lasts although a tuple of it is touched at every turn; the caller's clock, without its stalls."""
    begun, stood_still = driven.now, 0.0
    driven.expired.clear()
    while 1 not in driven.expired:
        driven.ledger.touch(1)
        if paused:
            driven.ledger.shift(TURN_S)
        driven.turn()
        if stalls and driven.now % T < TURN_S:
            driven.turn(100.0)
            stood_still += 100.0
        assert driven.now - begun < 1_000 * T, "never given up"
    return driven.now - begun - stood_still


def test_a_pause_does_not_hold_up_the_hard_cap() -> None:
    """A9: under lasting back-pressure a spout is paused nearly all the time."""
    driven = Driven(ledger_with((1, A), hard_cap=3))
    assert 3 * T <= touched_until_it_expires(driven, paused=True) <= 5 * T
    assert 1 not in driven.ledger


def test_a_pause_does_not_hold_up_the_hard_cap_of_an_old_tree_either() -> None:
    driven = Driven(ledger_with((1, A), hard_cap=3))
    driven.until(T + TURN_S)
    while 1 not in driven.expired and driven.now < 9 * T:
        driven.ledger.shift(TURN_S)
        driven.turn()
    assert 3 * T <= driven.expired[1] <= 5 * T
    assert len(driven.ledger) == 0


def test_time_in_which_the_caller_stood_still_does_not_count_for_the_hard_cap() -> None:
    """A10."""
    driven = Driven(ledger_with((1, A), hard_cap=3))
    assert 3 * T <= touched_until_it_expires(driven, stalls=True) <= 5 * T
    assert driven.ledger.stalls > 0


def test_a_tree_that_is_begun_again_with_the_same_value_has_all_of_its_time_anew() -> None:
    """A replay's identities are those of the first attempt, and so is its tree's first value."""
    driven = Driven(ledger_with(hard_cap=3))
    tree = Tree(1, A)
    for _ in range(3):
        driven.ledger.begin(tree)
        assert 3 * T <= touched_until_it_expires(driven) <= 5 * T


# -- stalls and pauses (A9, A10)


@given(st.floats(STALL_S + 0.01, 100_000), st.floats(0, T - 1))
def test_time_in_which_the_caller_stood_still_is_not_silence(stall: float, before: float) -> None:
    """A10: suspend, SIGSTOP or a blocked loop would expire everything at once."""
    driven = Driven(ledger_with((1, A)))
    driven.until(before)
    driven.turn(stall)
    assert driven.ledger.stalls == 1
    assert not driven.expired
    driven.until(stall + T - TURN_S)
    assert not driven.expired
    driven.until(stall + 2 * T + 2 * TURN_S)
    assert list(driven.expired) == [1]


def test_a_caller_that_comes_every_second_has_not_stood_still() -> None:
    driven = Driven(ledger_with((1, A)))
    for _ in range(90):
        driven.turn(STALL_S)
    assert driven.ledger.stalls == 0
    assert driven.expired


def test_time_in_which_a_spout_was_paused_is_not_silence() -> None:
    """A9: deadlines stop while the spout is paused, and go on where they stood."""
    driven = Driven(ledger_with((1, A)))
    driven.until(T / 2)
    for _ in range(1_000):
        driven.ledger.shift(TURN_S)
        driven.turn()
    paused = 1_000 * TURN_S
    driven.until(paused + T - TURN_S)
    assert not driven.expired
    driven.until(paused + 2 * T + 2 * TURN_S)
    assert list(driven.expired) == [1]
