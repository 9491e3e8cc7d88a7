"""What the receiving end of a link's session does with frames, whatever carries them (A11, A15)."""

from random import Random

import pytest

from acker.roots import owner
from topology.runtime.links.protocol import EARLY_MAX, EARLY_S, Frame, Kind, Session

SENDER, RECEIVER = owner(1, 7), owner(0, 7)


def frame(number: int, *, session: int = 0, sender: int = SENDER) -> Frame:
    return Frame(Kind.CONTENT, 1, sender, RECEIVER, session, number, number)


class Reading:
    """A session, and its way of reading: what it takes is accepted, with the frame's number as its content."""

    def __init__(self) -> None:
        self.session: Session[int] = Session(SENDER, RECEIVER, 0)

    def accept(self, frame: Frame, now: float) -> list[int]:
        return self.session.accept(frame.number, frame.body, now) if self.session.takes(frame) else []

    @property
    def lost(self) -> bool:
        return self.session.lost

    @property
    def duplicates(self) -> int:
        return self.session.duplicates

    @property
    def foreign(self) -> int:
        return self.session.foreign

    def overdue(self, now: float) -> bool:
        return self.session.overdue(now)


def session() -> Reading:
    return Reading()


def test_frames_in_order_are_read_at_once() -> None:
    one = session()
    assert [one.accept(frame(n), 0.0) for n in range(3)] == [[0], [1], [2]]


def test_a_repeated_frame_is_dropped_and_counted() -> None:
    one = session()
    one.accept(frame(0), 0.0)
    assert one.accept(frame(0), 0.0) == []
    assert one.duplicates == 1


def test_an_early_frame_waits_for_the_one_before_it_a11() -> None:
    one = session()
    assert one.accept(frame(1), 0.0) == []
    assert one.accept(frame(0), 0.5) == [0, 1]


def test_an_early_frame_that_is_repeated_is_read_once() -> None:
    one = session()
    one.accept(frame(1), 0.0)
    one.accept(frame(1), 0.0)
    assert one.accept(frame(0), 0.0) == [0, 1]
    assert one.duplicates == 1


def test_a_missing_frame_loses_the_session_after_a_second_a11() -> None:
    one = session()
    one.accept(frame(1), 10.0)
    assert not one.overdue(10.0 + EARLY_S - 0.01)
    assert one.overdue(10.0 + EARLY_S)
    assert one.accept(frame(0), 12.0) == [], "decided once: a frame that comes after its gap was declared is not read"


def test_a_missing_frame_loses_the_session_after_256_early_ones_a11() -> None:
    one = session()
    for n in range(1, EARLY_MAX + 1):
        one.accept(frame(n), 0.0)
    assert not one.lost
    one.accept(frame(EARLY_MAX + 1), 0.0)
    assert one.lost


def test_the_second_is_counted_from_the_last_frame_that_was_in_order() -> None:
    one = session()
    one.accept(frame(1), 0.0)
    one.accept(frame(3), 0.5)
    one.accept(frame(0), 0.9)
    assert not one.overdue(1.5), "frame 2 is missing since 0.9, not since 0.0"
    assert one.overdue(2.0)


@pytest.mark.parametrize("stranger", [frame(0, session=1), frame(0, sender=owner(1, 6)), frame(0, sender=owner(2, 7))])
def test_a_frame_of_another_session_or_incarnation_is_dropped_a15(stranger: Frame) -> None:
    one = session()
    assert one.accept(stranger, 0.0) == []
    assert one.foreign == 1
    assert one.accept(frame(0), 0.0) == [0]


def test_any_order_and_repetition_within_the_bounds_is_read_once_and_in_order_a11() -> None:
    for seed in range(200):
        random = Random(seed)
        frames = [frame(n) for n in range(100) for _ in range(random.choice((1, 1, 1, 2, 3)))]
        frames.sort(key=lambda one: one.number + random.uniform(0, 40))
        one = session()
        read = [ready for step, late in enumerate(frames) for ready in one.accept(late, step * 0.001)]
        assert read == list(range(100)), f"seed {seed}"
        assert one.duplicates == len(frames) - 100, f"seed {seed}"


def test_a_wait_that_begins_after_a_stall_has_none_of_it_a10() -> None:
    """The worker reads the frames that came during the stall before it knows of the stall."""
    one = session()
    one.accept(frame(1), 5.0)
    one.session.shift(5.0, 5.01)
    assert not one.overdue(5.9)
    assert one.overdue(5.01 + EARLY_S)


def test_a_wait_that_had_begun_before_a_stall_is_longer_by_it_a10() -> None:
    one = session()
    one.accept(frame(1), 1.0)
    one.session.shift(5.0, 6.2)
    assert not one.overdue(6.9)
    assert one.overdue(6.0 + EARLY_S)
