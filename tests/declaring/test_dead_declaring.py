"""Declaring who reads dead letters: `lines.dead` is a stream of a spout, and changes nothing for its messages."""

from datetime import UTC, datetime
from typing import Any

import pytest
from declaring_kit import Declaring, Failure, Line, Lines, Sink

from topology import Bolt, Config, DeadLetter, Message, Spout, State, Topology
from topology.checks.declaration import mistakes, warnings
from topology.drawing.as_text import text
from topology.drawing.model import picture
from topology.plan import plan
from topology.records import decoder, encode, record_problems


class Page(Bolt):
    def process(self, letter: DeadLetter) -> None:
        """Takes dead letters, gives nothing."""


class Counted(Bolt):
    def process(self, letter: DeadLetter, state: State[int]) -> None:
        state.set(state.get(0) + 1)


def paged(**options: Any) -> Declaring:
    declaring = Declaring()
    declaring.bolt("sink", Sink(), declaring.lines.shuffle())
    declaring.bolt("page", Page(), declaring.lines.dead.shuffle(), **options)
    return declaring


def test_the_dead_letters_of_a_spout_can_be_read_by_any_grouping_and_with_state() -> None:
    declaring = paged(tasks=2)
    declaring.bolt("counted", Counted(), declaring.lines.dead.fields("component", "reason"), tasks=3)
    declaring.bolt("same", Page(), declaring.lines.dead[DeadLetter].global_())
    assert declaring.said() == []


def test_a_dead_letter_is_a_record_like_any_other() -> None:
    assert record_problems(DeadLetter) == []
    assert decoder(DeadLetter)(encode(_letter())) == _letter()


def _letter() -> DeadLetter:
    died = datetime(2026, 1, 2, tzinfo=UTC)
    return DeadLetter("0-1", "lines", "", "7", "Line", b"\x91\xa1a", "Line('a')", "parse", "raised", "", "", 6, 0, died)


def test_a_bolt_has_no_dead_letters_and_the_spout_above_it_is_named() -> None:
    declaring = Declaring()
    declaring.bolt("page", Page(), declaring.parse.dead.shuffle())
    assert declaring.one() == (
        "'page': parse.dead.shuffle(): 'parse' is a bolt, and only spouts have dead letters; a message that "
        "fails in a bolt becomes a dead letter of its spout: use lines.dead"
    )


def test_a_bolt_that_takes_other_records_can_not_read_dead_letters() -> None:
    class Detect(Bolt):
        def process(self, failure: Failure) -> None:
            """Takes failures."""

    declaring = Declaring()
    declaring.bolt("x", Detect(), declaring.lines.dead.shuffle())
    assert declaring.one() == "'x': lines.dead.shuffle(): Detect takes Failure, not DeadLetter"


def test_a_stream_of_dead_letters_has_no_other_class() -> None:
    declaring = Declaring()
    declaring.bolt("x", Sink(), declaring.lines.dead[Line].shuffle())
    assert declaring.one() == "'x': lines.dead.shuffle(): it emits no Line; it emits DeadLetter"


def test_who_chooses_dead_letters_by_their_class_is_told_how_to_read_them() -> None:
    declaring = Declaring()
    declaring.bolt("x", Page(), declaring.lines[DeadLetter].shuffle())
    assert declaring.one() == "'x': lines.shuffle(): it emits no DeadLetter; its dead letters are lines.dead"


def test_a_stream_of_dead_letters_without_a_grouping_is_said_with_the_grouping_to_choose() -> None:
    declaring = Declaring()
    declaring.bolt("x", Page(), declaring.lines.dead, declaring.lines.dead.shuffle)
    assert declaring.said() == [
        "'x': a stream is not an input yet; choose a grouping: lines.dead.shuffle()",
        "'x': a grouping is called; write lines.dead.shuffle()",
    ]


def test_a_spout_whose_records_have_this_name_themselves_can_not_be_read_so() -> None:
    class Letters(Spout):
        async def poll(self, limit: int) -> list[Message[DeadLetter]]:
            return []

    declaring = Declaring()
    letters = declaring.spout("letters", Letters())
    declaring.bolt("page", Page(), letters.shuffle())
    assert declaring.said() == []
    declaring.bolt("again", Page(), letters.dead.shuffle())
    assert "'letters' emits a class called DeadLetter itself" in declaring.one()


def test_a_spout_of_which_only_the_dead_letters_are_read_is_read_by_nobody() -> None:
    topology: Any = Topology("dead")
    topology.bolt("page", Page(), topology.spout("lines", Lines()).dead.shuffle())
    (said,) = [mistake.text for mistake in mistakes(topology)]
    assert said.startswith("'lines': no bolt reads this spout")


def test_one_bolt_reads_dead_letters_once_and_the_messages_besides_if_it_likes() -> None:
    declaring = Declaring()
    declaring.bolt("both", Sink(), declaring.lines.shuffle(), declaring.lines.dead.shuffle())
    assert declaring.said() == []
    declaring.bolt("twice", Sink(), declaring.lines.dead.shuffle(), declaring.lines.dead.all())
    assert "it reads this stream already, by lines.dead.shuffle()" in declaring.one()


def test_reading_dead_letters_changes_no_subscription_of_the_messages_B1() -> None:
    without, with_page = Declaring(), paged()
    without.bolt("sink", Sink(), without.lines.shuffle())
    read, more = plan(without.topology), plan(with_page.topology)
    assert more.readers("lines") == read.readers("lines")
    assert [(one.subscriber, one.tag) for one in more.dead_readers("lines")] == [("page", 0)]


def test_what_dead_letters_reach_is_apart_from_what_messages_reach() -> None:
    declaring = paged()
    planned = plan(declaring.topology)
    assert planned.below("lines") == {"parse", "sink"}
    assert planned.below("lines", dead=True) == {"page"}


def test_who_reads_dead_letters_of_a_run_that_follows_no_message_is_warned_of() -> None:
    declaring = Declaring(config=Config(guarantee="at-most-once"))
    declaring.bolt("page", Page(), declaring.lines.dead.shuffle())
    assert declaring.said() == []
    (warned,) = warnings(declaring.topology)
    assert warned.text == "'page' gets no dead letters: with guarantee='at-most-once' no message is tracked"


@pytest.mark.parametrize("width", [120, 50])
def test_the_picture_of_a_topology_shows_who_reads_dead_letters(width: int) -> None:
    drawn = picture(paged().topology)
    assert [(edge.record, drawn.nodes[edge.target].name) for edge in drawn.edges][-1] == ("DeadLetter", "page")
    assert "DeadLetter" in text(drawn, width)
