"""What a `BoltRun` says when something went wrong, and `well()`, which raises what the bolt has raised."""

import traceback
from collections.abc import Iterator
from datetime import datetime

import pytest
from kit_topologies import Word

from topology import Bolt, Collector, Reject, Tuple
from topology.testing import Captured, run_bolt


class Picky(Bolt):
    def process(self, word: Word) -> Iterator[Word]:
        if word.text.startswith("bad"):
            raise ValueError(f"no {word.text}")
        yield word


class Holds(Bolt):
    def execute(self, tup: Tuple[Word], out: Collector[Word]) -> None:
        if tup.record.text == "fails":
            out.fail(tup, "as it pleases")


def test_well_raises_what_the_bolt_has_raised_from_its_own_frame_on() -> None:
    with pytest.raises(ValueError, match="no bad2") as caught:
        run_bolt(Picky(), [Word("good"), Word("bad2"), Word("bad3")]).well()
    (_, _, *frames) = traceback.extract_tb(caught.value.__traceback__)  # this test, and `well`, come first
    assert [frame.name for frame in frames] == ["process"]
    (note,) = caught.value.__notes__
    assert note == (
        "<BoltRun: failed Word(text='bad2'): raised in 'bolt': ValueError: no bad2; "
        "failed Word(text='bad3'): raised in 'bolt': ValueError: no bad3; 1 output, 1 acked>"
    )


def test_well_refuses_an_input_that_was_failed_or_held_without_an_exception() -> None:
    with pytest.raises(
        AssertionError, match=r"failed Word\(text='fails'\): failed by the bolt.*as it pleases; holds Wo"
    ):
        run_bolt(Holds(), [Word("fails"), Word("stays")]).well()


def test_well_raises_what_tick_has_raised() -> None:
    class Ticks(Bolt):
        def process(self, word: Word) -> None:
            """Takes it."""

        def tick(self, now: datetime) -> None:
            raise LookupError("nothing at this hour")

    with pytest.raises(LookupError, match="nothing at this hour"):
        run_bolt(Ticks(), [Word("a")], every="1s", until_s=1.5).well()


def test_well_is_the_run_itself_where_all_went_well() -> None:
    done = run_bolt(Picky(), [Word("a"), Word("b")])
    assert done.well() is done
    assert repr(done) == "<BoltRun: 2 outputs, 2 acked>"


def test_a_test_of_the_unhappy_path_asks_for_the_failure() -> None:
    class Rejects(Bolt):
        def process(self, word: Word) -> None:
            raise Reject("no word at all")

    (failed,) = run_bolt(Rejects(), [Word("x")]).failed
    assert isinstance(failed.error, Reject)
    assert failed.reason == "rejected in 'bolt': no word at all"


def test_a_long_list_of_failures_is_cut() -> None:
    done = run_bolt(Picky(), [Word(f"bad{n}" * 100) for n in range(9)])
    assert "7 more like these; 0 outputs" in repr(done)
    assert len(repr(done)) < 2_000


def test_a_captured_stream_shows_how_much_it_got_and_the_first_of_it() -> None:
    captured = Captured[Word]()
    assert repr(captured) == "<Captured: 0 tuples, 0 distinct: []>"
