"""The state directory: what it counts and keeps, whom it refuses, and damage told in a sentence (F22, F24, F26)."""

import json
import os
import threading
from pathlib import Path

import pytest

from topology.errors import StartError
from topology.storage.directory.state_dir import StateDir


def opened(path: Path, topology: str = "t", *, fresh: bool = False) -> StateDir:
    return StateDir(path, topology, fresh=fresh)


def test_incarnations_are_counted_from_run_to_run_and_fresh_does_not_forget_them_A7(tmp_path: Path) -> None:
    counted = []
    for fresh in (False, False, True):
        state = opened(tmp_path / "s", fresh=fresh)
        counted += [state.next_incarnation(), state.next_incarnation()]
        state.close()
    assert counted == [1, 2, 3, 4, 5, 6]


def test_notes_and_the_key_are_kept_and_fresh_forgets_the_notes(tmp_path: Path) -> None:
    state = opened(tmp_path / "s")
    key = state.key
    state.set("a", "1")
    state.close()
    again = opened(tmp_path / "s")
    assert (again.get("a"), again.get("b"), again.key) == ("1", None, key)
    again.close()
    fresh = opened(tmp_path / "s", fresh=True)
    assert (fresh.get("a"), fresh.key) == (None, key)
    fresh.close()


def test_nobody_else_may_read_it_S17(tmp_path: Path) -> None:
    opened(tmp_path / "s").close()
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700


def test_a_second_run_on_it_is_refused_and_the_first_one_is_not_disturbed_F24(tmp_path: Path) -> None:
    first = opened(tmp_path / "s")
    with pytest.raises(StartError, match="in use by another run"):
        opened(tmp_path / "s")
    first.set("a", "1")
    first.close()
    opened(tmp_path / "s").close()


def test_who_only_looks_for_a_moment_keeps_no_run_from_starting(tmp_path: Path) -> None:
    """As commands do: whether a run is there is seen by its lock."""
    first = opened(tmp_path / "s")
    looking = threading.Timer(0.1, first.close)
    looking.start()
    opened(tmp_path / "s").close()
    looking.join()


def test_nothing_is_made_in_a_directory_that_is_no_state_directory(tmp_path: Path) -> None:
    """As a command is given one by mistake."""
    with pytest.raises(StartError, match=r"there is no state\.json in it"):
        StateDir(tmp_path, None)
    assert os.listdir(tmp_path) == []


def test_one_of_another_topology_is_refused_F26(tmp_path: Path) -> None:
    state = opened(tmp_path / "s")
    state.next_incarnation()
    state.close()
    with pytest.raises(StartError, match="belongs to topology 't', not to 'u'"):
        opened(tmp_path / "s", "u")


def test_a_symbolic_link_is_refused_S5(tmp_path: Path) -> None:
    opened(tmp_path / "s").close()
    os.symlink(tmp_path / "s", tmp_path / "link")
    with pytest.raises(StartError, match="symbolic link"):
        opened(tmp_path / "link")


def sound() -> dict[str, object]:
    return {"format": 1, "topology": "t", "incarnation": 3, "key": "ab" * 32, "notes": {"a": "1"}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[" * 100_000,
        bytes(range(256)),
        b"[]",
        *(
            json.dumps({**sound(), **damage}).encode()
            for damage in (
                {"incarnation": -5},
                {"incarnation": 10**22},
                {"key": ""},
                {"key": "xyz"},
                {"notes": {"a": 5}},
                {"notes": []},
                {"topology": None},
            )
        ),
    ],
)
def test_damage_is_told_in_one_sentence_and_left_as_it_is_F22(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s").mkdir()
    file = tmp_path / "s" / "state.json"
    file.write_bytes(content)
    with pytest.raises(StartError, match=r"state\.json is damaged\n") as raised:
        opened(tmp_path / "s", fresh=True)
    assert raised.value.next == (
        "restore it from a copy; or give up its positions, its state and its dead letters and read every source from "
        f"its start: move {tmp_path / 's'} away and run again"
    )
    assert file.read_bytes() == content


def test_a_newer_format_is_refused_F26(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "state.json").write_text(json.dumps({**sound(), "format": 4, "more": []}))
    with pytest.raises(StartError, match="has format 4; this Kedge reads formats up to 3"):
        opened(tmp_path / "s")
