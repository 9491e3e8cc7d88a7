"""What a supervisor keeps for a worker: incarnations in order, notes that are durable before they are there."""

import threading

import pytest

from topology import StartError
from topology.runtime.control.messages import Begin, Incarnations, KeepNote, NeedIncarnation, Noted, Word
from topology.runtime.process.supervisor_notes import SupervisorNotes


def test_spare_incarnations_are_used_up_in_order_and_more_are_asked_for() -> None:
    said: list[Word] = []
    lent = SupervisorNotes(Begin(0, (1, 2, 3), 1, 1, "", {}, [], "", "ipc", b"", {}, 0), said.append)
    assert [lent.renew(), lent.renew()] == [2, 3]
    assert said == [NeedIncarnation(), NeedIncarnation()]
    with pytest.raises(StartError):
        lent.renew()
    lent.answered(Incarnations((9,)))
    assert lent.renew() == 9


def test_a_note_waits_for_a_supervisor_that_is_stopped_however_long_f68(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of this thread that have a bound end at once here, as if that had passed."""
    said: list[Word] = []
    waits: list[float | None] = []

    class Hours(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            if timeout is None or len(waits) > 1_000:  # the supervisor goes on
                lent.answered(Noted(1))
            return self.is_set()

    monkeypatch.setattr(threading, "Event", Hours)
    lent = SupervisorNotes(Begin(0, (1,), 1, 1, "", {}, [], "", "ipc", b"", {"name": "before"}, 0), said.append)
    lent.set("name", "after")
    assert waits
    assert lent.get("name") == "after"
    lent.answered(Noted(1))  # once more, and no harm


def test_a_note_that_is_refused_is_not_kept() -> None:
    lent = SupervisorNotes(Begin(0, (1,), 1, 1, "", {}, [], "", "ipc", b"", {"name": "before"}, 0), lambda _: refuse())

    def refuse() -> None:
        lent.answered(Noted(1, "full"))

    with pytest.raises(StartError, match="full"):
        lent.set("name", "after")
    assert lent.get("name") == "before"


def test_answers_find_who_has_asked_whatever_their_order() -> None:
    said: list[Word] = []
    both = threading.Event()

    def say(word: Word) -> None:
        said.append(word)
        if len(said) == 2:
            both.set()

    lent = SupervisorNotes(Begin(0, (1,), 1, 1, "", {}, [], "", "ipc", b"", {}, 0), say)
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
    notes = {word.name: word.number for word in said if isinstance(word, KeepNote)}
    lent.answered(Noted(notes["two"], "full"))
    lent.answered(Noted(notes["one"]))
    for thread in threads:
        thread.join(20)
    assert refused == ["two: full"]
    assert (lent.get("one"), lent.get("two")) == ("text", None)
