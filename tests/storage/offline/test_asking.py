"""Dead letters of a directory that no run uses: listed in one order whatever file has them, shown, dropped, marked for
the next run's replay."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from durable_kit import FaultyFiles, full, letter, store

from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.directory.state_dir import StateDir
from topology.storage.encoding.entries import KnownEntry, named, packed
from topology.storage.encoding.packing import letter_of
from topology.storage.offline.dead_letters import answer
from topology.storage.values import Changes, EntryRow, Letter


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    opened = StateDir(tmp_path / "s", "t")
    opened.make_stores([0, 1])
    with store(tmp_path / "s" / "worker-0.db") as one:
        one.commit(Changes(letters=[letter(f"0-{number}") for number in range(1, 5)] + [letter("1-7")]))
    with store(tmp_path / "s" / "worker-1.db") as one:
        one.commit(Changes(letters=[letter(f"1-{number}") for number in range(1, 4)]))
    yield opened
    opened.close()


def listed(state: StateDir, limit: int) -> list[Letter]:
    """Page after page, until one is empty."""
    found: list[Letter] = []
    while page := asked(state, "list", after=found[-1].name if found else "", limit=limit).letters:
        found += map(letter_of, page)
    return found


def asked(state: StateDir, act: str, *names: str, after: str = "", limit: int = 1_000) -> DeadAnswer:
    return answer(state, DeadAsk(5, act, names, after, limit))


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_they_are_listed_in_one_order_whatever_the_page(state: StateDir, limit: int) -> None:
    found = listed(state, limit)
    assert [one.name for one in found] == ["0-1", "0-2", "0-3", "0-4", "1-1", "1-2", "1-3", "1-7"]
    assert {(one.record, one.traceback) for one in found} == {(b"", "")}


def test_pages_are_bounded_in_bytes_and_nothing_is_left_out_of_them(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.storage.sqlite.letter_rows.LISTED_BYTES_MAX", 40)
    monkeypatch.setattr("topology.storage.offline.dead_letters.LETTERS_BYTES_MAX", 600)
    assert len(asked(state, "list").letters) < 4
    assert [one.name for one in listed(state, 100)] == ["0-1", "0-2", "0-3", "0-4", "1-1", "1-2", "1-3", "1-7"]


def test_they_are_shown_whole_and_what_is_not_there_is_passed_over(state: StateDir) -> None:
    said = asked(state, "show", "1-7", "0-9", "0-2")
    assert [letter_of(one) for one in said.letters] == [letter("1-7"), letter("0-2")]
    assert (said.number, said.total, said.problem) == (5, 8, "")


def test_one_that_is_too_long_is_shown_without_its_record(state: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topology.storage.encoding.letter_pages.LETTERS_BYTES_MAX", 300)
    with store(state.path / "worker-0.db") as one:
        one.commit(Changes(letters=[letter("0-2", record=b"x" * 500)]))
    said = asked(state, "show", "0-2")
    assert letter_of(said.letters[0]).record == b""
    assert said.problem == "0-2: its record of 500 bytes is too long to be shown"


def test_one_for_which_there_is_no_room_beside_others_is_named_and_is_shown_alone(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.storage.encoding.letter_pages.LETTERS_BYTES_MAX", 300)
    both = asked(state, "show", "0-1", "0-2")
    assert [letter_of(one).name for one in both.letters] == ["0-1"]
    assert both.problem == "0-2: there is no room for it beside those before it; ask for it alone"
    assert [letter_of(one) for one in asked(state, "show", "0-2").letters] == [letter("0-2")]


def test_those_that_are_dropped_are_gone_and_the_directory_knows_of_the_commit(state: StateDir) -> None:
    said = asked(state, "drop", "0-2", "1-7", "0-2", "9-9")
    assert (said.names, said.total, said.letters) == (("0-2", "1-7"), 6, ())
    assert [one.name for one in listed(state, 100)] == ["0-1", "0-3", "0-4", "1-1", "1-2", "1-3"]
    assert state.check_files() == []
    assert asked(state, "drop").total == 0
    assert listed(state, 100) == []


def test_what_is_known_of_dropped_ones_is_forgotten_in_every_store(state: StateDir) -> None:
    """Nothing of them comes again; what is known of the others is needed for their replay."""
    known = [
        KnownEntry(7, origin, number, ()) for origin in (1, 2, 3) for number in range(origin * 10, origin * 10 + 2)
    ]
    with store(state.path / "worker-0.db") as one:
        one.commit(Changes(letters=[letter("0-1", origin=1), letter("0-2", origin=2)]))
    for worker in (0, 1):
        with store(state.path / f"worker-{worker}.db") as one:
            one.replace(Changes(), entries=[EntryRow("count", packed((), known))])
    asked(state, "drop", "0-2")
    for worker in (0, 1):
        with store(state.path / f"worker-{worker}.db") as one:
            left = [found.entry.origin for row in one.entries() for found in named(row.entries)]
            assert left == [1, 1, 3, 3]


def test_a_replay_is_left_to_the_next_run(state: StateDir) -> None:
    assert asked(state, "replay", "0-2", "1-1").names == ("0-2", "1-1")
    assert asked(state, "replay", "0-2").names == ("0-2",)
    with store(state.path / "worker-0.db") as one:
        assert one.loaded.replaying == ("0-2",)
    assert len(asked(state, "replay").names) == 8
    with store(state.path / "worker-1.db") as one:
        assert one.loaded.replaying == ("1-1", "1-2", "1-3")
        assert one.letters(["1-1"]) == [letter("1-1", replaying=True)], "nothing else of it has changed"


def test_one_that_a_crash_has_left_in_two_files_is_one_and_is_dropped_from_both(state: StateDir) -> None:
    with store(state.path / "worker-1.db") as one:
        one.commit(Changes(letters=[letter("0-2")]))
    assert len(listed(state, 100)) == 8
    assert asked(state, "drop", "0-2").total == 7
    assert "0-2" not in [one.name for one in listed(state, 100)]


def test_without_room_it_says_what_was_done_and_why_not_more(tmp_path: Path) -> None:
    path = tmp_path / "s"
    made = StateDir(path, "t")
    made.make_stores([0])
    made.close()
    with store(path / "worker-0.db") as one:
        one.commit(Changes(letters=[letter("0-1")]))
    files = FaultyFiles(path)
    opened = StateDir(path, "t", files=files)
    try:
        opened.check_files()
        files.fail(full)
        said = asked(opened, "drop", "0-1")
    finally:
        opened.close()
    assert said.names == ()
    assert "worker-0.db can't be written: No space left on device" in said.problem


def test_an_act_that_there_is_not_is_refused(state: StateDir) -> None:
    with pytest.raises(ValueError, match="nothing can be done to dead letters by 'burn'"):
        asked(state, "burn")
