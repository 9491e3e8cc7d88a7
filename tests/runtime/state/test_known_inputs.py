"""What a task knows of inputs, from a change to the decision that their messages are done (P4, P16)."""

import pytest

from acker.frontier import NUMBER_BITS, Frontier, Note
from topology.runtime.state import known_inputs
from topology.runtime.state.known_input import KnownInput
from topology.runtime.state.known_inputs import KnownInputs

LIFE, LATER = 1, 2


def message(number: int, life: int = LIFE) -> int:
    return life << NUMBER_BITS | number


def frontier(newest: int, *unfinished: int, life: int = LIFE, dropped: tuple[int, ...] = ()) -> Frontier:
    of_life = frozenset(message(one, life) for one in unfinished)
    return Frontier(1, {0: Note((life,), message(newest, life), of_life, frozenset(dropped))})


def knows(*numbers: int) -> KnownInputs:
    known = KnownInputs("counts")
    for number in numbers:
        known.now[7, number] = KnownInput(message(number))
    return known


def decided(known: KnownInputs, at: Frontier) -> list[int]:
    known.gather()
    known.pack(at)
    known.kept(at)
    return left(known)


def left(known: KnownInputs) -> list[int]:
    return sorted(identity for (_, identity), _ in known)


def test_an_input_is_known_until_a_decided_frontier_has_its_message_P4() -> None:
    known = knows(1, 2, 3)
    assert decided(known, frontier(2, 1)) == [1, 3]
    assert decided(known, frontier(3)) == []


def test_an_input_of_several_messages_is_known_until_all_are_done_P4_D15() -> None:
    known = KnownInputs("counts")
    known.now[7, 1] = KnownInput((message(1), message(5)))
    assert decided(known, frontier(4)) == [1]
    assert decided(known, frontier(5)) == []


def test_nothing_is_forgotten_before_the_decision_nor_where_a_checkpoint_is_given_up_P4_P5() -> None:
    known = knows(1)
    assert decided(known, frontier(9, 1)) == [1], "it is open at one checkpoint, and known since"
    known.now[7, 2] = KnownInput((message(2),))
    known.gather()
    known.pack(frontier(9))
    assert left(known) == [1, 2]
    known.not_kept()
    assert left(known) == [1, 2]


def test_what_came_after_the_snapshot_is_known_whatever_is_decided_P4() -> None:
    known = knows(1)
    known.gather()
    known.pack(frontier(9))
    known.now[7, 2] = KnownInput((message(2),))
    known.kept(frontier(9))
    assert left(known) == [2]


def test_what_a_life_that_is_over_has_left_goes_once_it_came_again_and_is_done_P9_D4() -> None:
    known = knows(1, 2)
    known.gather()
    known.lives_end(LIFE, frozenset())
    assert decided(known, frontier(9, life=LATER)) == [1, 2]
    again = known.get((7, 1))
    assert again is not None
    again.messages = (message(4, LATER),)
    assert decided(known, frontier(9, life=LATER)) == [2]
    assert decided(known, frontier(9, life=LATER, dropped=(7,))) == []


def test_of_what_never_comes_again_the_oldest_goes_at_a_bound_and_is_told_P16(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(known_inputs, "LEFT_MAX", 2)
    known = KnownInputs("counts")
    for number in range(5):
        known.restore((7, number), KnownInput(()))
    assert decided(known, frontier(9)) == [3, 4]
    assert "3 inputs of 'counts' that an earlier run had processed did not come again" in caplog.text


def test_going_back_all_is_known_that_was_at_the_decided_checkpoint_and_nothing_else_P9() -> None:
    known = knows(1, 2)
    decided(known, frontier(1))
    known.now[7, 3] = KnownInput((message(3),))
    known.gather()
    known.now[7, 4] = KnownInput((message(4),))
    known.go_back()
    assert left(known) == [2]
