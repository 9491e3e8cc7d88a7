"""Dead letters as values, and answers about them over several workers: pure, and never at a loss."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acker.identity import death_identity
from topology import Message, Record
from topology.records import encode
from topology.runtime.control.dead_letters import answer_of_all
from topology.runtime.dead_letters.letter import (
    LetterProblem,
    altered,
    id_text,
    letter_of,
    message_of_letter,
    news_of,
    same_death,
    with_failure,
)
from topology.runtime.failures import Failure, Reason
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.encoding.packing import letter_of as unpacked
from topology.storage.encoding.packing import letter_order, packed_letter
from topology.storage.values import Letter

DIED = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


class Number(Record):
    n: int


class Hostile(Record):
    n: int

    def __repr__(self) -> str:
        raise RuntimeError("not shown")


def letter(message: Message[Any] | None = None, failure: Failure | None = None, **settings: Any) -> Letter:
    given: dict[str, Any] = {
        "component": "numbers",
        "task": 0,
        "epoch": "e",
        "pair": (11, 12),
        "attempts": 6,
        "deaths": 0,
        "died_at": DIED,
    }
    given |= settings
    made = letter_of(
        message or Message(Number(3), 3), failure or Failure(Reason.RAISED, "bolt", "ValueError: x"), **given
    )
    return altered(made, name="0-1")


@pytest.mark.parametrize("id", [0, -(1 << 70), "x", "\udc80", "", b"\x00\xff"])
def test_a_message_comes_back_from_its_letter_as_it_was(id: int | str | bytes) -> None:
    message = Message(Number(3), id, "part", DIED)
    back = message_of_letter(unpacked(packed_letter(letter(message))), {"Number": Number})
    assert (back.record, back.id, back.partition, back.at) == (message.record, id, "part", DIED)
    assert type(back.id) is type(id)


def test_a_letter_can_be_made_of_whatever_has_failed() -> None:
    one = letter(
        Message(Hostile(3), 3.5),  # type: ignore[arg-type]  # what a type checker would refuse
        Failure(Reason.EMIT, "numbers", "\udc80 \x1b[2J\n", trace="\udc80"),
        pair=(0, 0),
    )
    assert one.text == "a Hostile that can't be shown"
    assert one.id == "3.5"
    assert one.problem.isprintable()
    assert unpacked(packed_letter(one)) == one
    encode(news_of(one, kept=True)[0])
    with pytest.raises(LetterProblem, match="its id is no int, str or bytes"):
        message_of_letter(one, {"Hostile": Hostile})


def test_the_news_of_one_death_keep_their_identity_and_another_death_is_other_news() -> None:
    first = letter()
    again = with_failure(
        first, Failure(Reason.RAISED, "bolt"), attempts=6, deaths=0, died_at=DIED + timedelta(seconds=1)
    )
    assert news_of(first, kept=True) == news_of(unpacked(packed_letter(first)), kept=True)
    assert news_of(first, kept=True)[1] == news_of(again, kept=True)[1] == first.origin
    assert news_of(first, kept=True)[2] != news_of(again, kept=True)[2] != again.identity
    assert not same_death(first, again)
    assert (again.attempts, again.origin, again.identity) == (12, 11, 12)


def test_the_identity_of_news_is_fixed_for_ever() -> None:
    assert death_identity(12, 6, 1_000_000) == 2461086349676997219


@pytest.mark.parametrize(("id", "text"), [(7, "7"), ("a\nb", "a\\nb"), (b"\x00", "b'\\x00'"), ("\udc80", "\\udc80")])
def test_an_id_is_told_in_one_line(id: int | str | bytes, text: str) -> None:
    assert id_text(id) == text


# -- a question to several workers


def workers(*names: Sequence[str], page: int = 1_000) -> Callable[[DeadAsk], Awaitable[list[DeadAnswer]]]:
    """Each answers for the letters of these names; at most `page` of them at a time."""

    async def ask_all(ask: DeadAsk) -> list[DeadAnswer]:
        answers = []
        for mine in names:
            order = letter_order(ask.after) if ask.after else (-1, -1)
            found = [name for name in mine if letter_order(name) > order][: min(ask.limit, page)]
            if ask.act != "list":
                found = [name for name in mine if name in ask.names or not ask.names]
            letters = tuple(packed_letter(altered(letter(), name=name)) for name in found)
            done = tuple(found) if ask.act in ("drop", "replay") else ()
            answers.append(DeadAnswer(ask.number, letters if not done else (), done, len(mine)))
        return answers

    return ask_all


def named(answer: DeadAnswer) -> list[str]:
    return [unpacked(data).name for data in answer.letters]


@pytest.mark.parametrize("page", [1, 2, 1_000])
async def test_a_list_of_all_workers_is_in_order_and_whole_however_few_each_gives_at_once(page: int) -> None:
    ask_all = workers(["0-1", "0-2", "2-9"], [], ["1-3", "1-20"], page=page)
    answer = await answer_of_all(DeadAsk(5, "list"), ask_all)
    assert named(answer) == ["0-1", "0-2", "1-3", "1-20", "2-9"]
    assert (answer.number, answer.total, answer.problem) == (5, 5, "")
    first = await answer_of_all(DeadAsk(5, "list", limit=2), ask_all)
    assert named(first) == ["0-1", "0-2"]
    rest = await answer_of_all(DeadAsk(5, "list", after="0-2", limit=100), ask_all)
    assert named(rest) == ["1-3", "1-20", "2-9"]


async def test_names_that_no_worker_knows_are_said_once() -> None:
    ask_all = workers(["0-1"], ["1-1"])
    answer = await answer_of_all(DeadAsk(5, "drop", ("0-1", "1-1", "7-7")), ask_all)
    assert (answer.names, answer.problem) == (("0-1", "1-1"), "7-7: there is no such dead letter")
    shown = await answer_of_all(DeadAsk(5, "show", ("7-7",)), ask_all)
    assert (shown.letters, shown.problem) == ((), "7-7: there is no such dead letter")


async def test_a_worker_that_has_not_answered_is_told_and_nothing_is_said_of_names_that_it_may_have() -> None:
    async def ask_all(ask: DeadAsk) -> list[DeadAnswer]:
        answers = await workers(["0-1"])(ask)
        return [*answers, DeadAnswer(ask.number, problem="worker 1 is away")]

    answer = await answer_of_all(DeadAsk(5, "drop", ("0-1", "1-1")), ask_all)
    assert (answer.names, answer.problem) == (("0-1",), "worker 1 is away")
    page = await answer_of_all(DeadAsk(5, "list"), ask_all)
    assert (named(page), page.problem) == (["0-1"], "worker 1 is away")


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (DeadAsk(5, "eat"), "nothing can be done to dead letters by 'eat'; there are list, show, replay, drop"),
        (DeadAsk(5, "show", ("x",)), "'x' is not the name of a dead letter, like 0-17"),
        (DeadAsk(5, "list", after="../x"), "'../x' is not the name of a dead letter, like 0-17"),
    ],
)
async def test_a_question_that_can_not_be_is_answered_without_asking_anybody(ask: DeadAsk, problem: str) -> None:
    async def nobody(ask: DeadAsk) -> list[DeadAnswer]:
        raise AssertionError("not asked")

    assert (await answer_of_all(ask, nobody)).problem == problem
