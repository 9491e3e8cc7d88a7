"""What a bolt says of its `tick`: what it gives are streams of the bolt, and mistakes are found with the rest."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from datetime import datetime
from typing import Any, Generic, TypeVar

import pytest
from declaring_kit import Count, Declaring, Failure, Holding, Line, Malformed, Sink, Ticking

from topology import Bolt, Record, State
from topology.signatures import of_bolt
from topology.testing import Pause, run_bolt

R = TypeVar("R", bound=Record)


def declared(bolt: Any) -> Declaring:
    """A topology in which this bolt ticks."""
    declaring = Declaring()
    declaring.bolt("x", bolt, declaring.lines.shuffle(), every="1s")
    return declaring


class Beats(Sink):
    """Takes any record, and gives one in its ticks alone."""

    def tick(self, now: datetime) -> Iterator[Line]:
        yield Line(now.isoformat())


class KeepsCount(Count):
    def tick(self, now: datetime) -> list[Line]:
        return [Line("now")]


class KeepsTuples(Holding):
    def tick(self, now: datetime) -> Iterator[Line | Malformed]:
        yield Line("now")


class Waits(Sink):
    async def tick(self, now: datetime) -> list[Line]:
        return [Line("now")]


class Streams(Sink):
    async def tick(self, now: datetime) -> AsyncIterator[Line]:
        yield Line("now")


class Later(Sink):
    def tick(self, now: datetime) -> Awaitable[list[Line]] | None:
        return None


class Repeats(Bolt, Generic[R]):
    """Gives in its ticks what its type variable stands for."""

    def process(self, record: R) -> None:
        """Keeps nothing."""

    def tick(self, now: datetime) -> Iterator[R]:
        yield from ()


@pytest.mark.parametrize(
    ("bolt", "gives"),
    [
        (Beats(), (Line,)),
        (KeepsCount(), (Malformed, Line)),
        (KeepsTuples(), (Malformed, Line)),
        (Waits(), (Line,)),
        (Streams(), (Line,)),
        (Later(), (Line,)),
        (Repeats[Line](), (Line,)),
        (Ticking(), ()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_bolt_emits_in_its_ticks_alone_is_a_stream_of_it_too(
    bolt: Bolt, gives: tuple[type[Record], ...]
) -> None:
    signature = of_bolt(bolt)
    assert (signature.gives, signature.problems) == (gives, [])


def test_a_tick_may_give_the_class_that_comes_in() -> None:
    """Its type variable is that of `process`, which nothing stands for."""
    declaring = declared(Repeats())
    assert declaring.said() == []
    assert declaring.topology.components[-1].streams == (Line,)


def test_that_a_tick_waits_says_nothing_of_how_the_inputs_are_called() -> None:
    assert not of_bolt(Streams()).waits


def test_a_stream_of_ticks_is_read_as_any_other() -> None:
    declaring = Declaring()
    beats = declaring.bolt("x", Beats(), declaring.lines.shuffle(), every="1s")
    declaring.bolt("store", Sink(), beats.shuffle())
    assert declaring.said() == []
    done = run_bolt(Beats(), [Line("a"), Pause(2.5)], every="1s").well()
    assert len(done.outputs) == 2


class NoParameter(Sink):
    def tick(self) -> None:
        return None


class TwoParameters(Sink):
    def tick(self, now: datetime, key: str) -> None:
        return None


class Untyped(Sink):
    def tick(self, now):  # type: ignore[no-untyped-def]
        return None


class OneRecord(Sink):
    def tick(self, now: datetime) -> Line:
        return Line("now")


class OneRecordLater(Sink):
    async def tick(self, now: datetime) -> Line:
        return Line("now")


class NoRecord(Sink):
    def tick(self, now: datetime) -> Iterator[int]:
        yield 1


class NoRecords(Sink):
    def tick(self, now: datetime) -> int:
        return 1


class WithState(Sink):
    """Has a state, which a tick is not given: it belongs to no key."""

    def tick(self, now: datetime, state: State[int]) -> None:
        return None


@pytest.mark.parametrize(
    ("bolt", "code", "said"),
    [
        (NoParameter(), "K252", "NoParameter has a `tick` of 0 parameters besides self; write tick(self, now: datet"),
        (TwoParameters(), "K252", "TwoParameters has a `tick` of 2 parameters besides self; write tick(self, now: d"),
        (
            WithState(),
            "K252",
            "WithState has a `tick` of 2 parameters besides self; write tick(self, now: datetime) -> ",
        ),
        (Untyped(), "K252", "Untyped needs the annotation of what `tick` gives; write tick(self, now: datetime) -> I"),
        (OneRecord(), "K218", "OneRecord has a `tick` that gives one Line; give an iterable"),
        (OneRecordLater(), "K218", "OneRecordLater has a `tick` that gives one Line; give an iterable"),
        (NoRecord(), "K219", "NoRecord emits int; name a record class"),
        (NoRecords(), "K218", "NoRecords has a `tick` that gives int, which is not an iterable of records"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_tick_that_can_not_be_called_is_a_sentence(bolt: Bolt, code: str, said: str) -> None:
    declaring = declared(bolt)
    (mistake,) = declaring.said()
    assert mistake.startswith(f"'x': {said}")
    assert [str(one.code) for one in of_bolt(bolt).problems] == [code]


def test_a_tick_and_a_timer_of_one_bolt_are_both_read() -> None:
    class Both(Count):
        def on_timer(self, key: tuple[Any, ...], name: str, state: State[int]) -> Iterator[Malformed]:
            yield Malformed(name)

        def tick(self, now: datetime) -> Iterator[Failure]:
            yield from ()

    signature = of_bolt(Both())
    assert (signature.gives, signature.problems) == ((Malformed, Failure), [])
