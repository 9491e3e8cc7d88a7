"""What a supervisor keeps for a worker: incarnations in order, notes that are durable before they are there."""

import threading

import pytest

from topology import StartError
from topology.runtime.control import Begin, Incarnations, NeedIncarnation, Note, Noted, Word
from topology.runtime.lent import Lent


def test_spare_incarnations_are_used_up_in_order_and_more_are_asked_for() -> None:
    said: list[Word] = []
    lent = Lent(Begin(0, (1, 2, 3), 1, 1, "", {}, [], "", "ipc", b"", {}, 0), said.append)
    assert [lent.renew(), lent.renew()] == [2, 3]
    assert said == [NeedIncarnation(), NeedIncarnation()]
    with pytest.raises(StartError):
        lent.renew()
    lent.answered(Incarnations((9,)))
    assert lent.renew() == 9


def test_a_note_that_nobody_answers_is_given_up_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topology.runtime.lent.ANSWER_S", 0.05)
    said: list[Word] = []
    lent = Lent(Begin(0, (1,), 1, 1, "", {}, [], "", "ipc", b"", {"name": "before"}, 0), said.append)
    with pytest.raises(StartError, match="'name'"):
        lent.set("name", "after")
    assert lent.get("name") == "before"
    lent.answered(Noted(1))  # too late, and no harm


def test_answers_find_who_has_asked_whatever_their_order() -> None:
    said: list[Word] = []
    both = threading.Event()

    def say(word: Word) -> None:
        said.append(word)
        if len(said) == 2:
            both.set()

    lent = Lent(Begin(0, (1,), 1, 1, "", {}, [], "", "ipc", b"", {}, 0), say)
    refused: list[str] = []

    def keep(name: str) -> None:
        try:
            lent.set(name, "text")
        except StartError as error:
            refused.append(f"{name}: {error}")

    threads = [threading.Thread(target=keep, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    assert both.wait(20)
    notes = {word.name: word.number for word in said if isinstance(word, Note)}
    lent.answered(Noted(notes["two"], "full"))
    lent.answered(Noted(notes["one"]))
    for thread in threads:
        thread.join(20)
    assert refused == ["two: full"]
    assert (lent.get("one"), lent.get("two")) == ("text", None)
