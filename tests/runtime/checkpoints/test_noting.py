"""How far stores are is noted now and then, so that an older copy of one is refused (D12), and no run depends on it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from topology.runtime.checkpoints.manifest_updates import EACH_S, Noting
from topology.storage.directory import state_dir
from topology.storage.directory.state_dir import StateDir


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    opened = StateDir(tmp_path, "t")
    opened.make_stores([0, 1])
    yield opened
    opened.close()


def noting(state: StateDir) -> Noting:
    return Noting(state, {worker: state.path / f"worker-{worker}.db" for worker in (0, 1)})


def noted(state: StateDir) -> list[int]:
    files = json.loads((state.path / "state.json").read_text())["files"]
    return [files[f"worker-{worker}.db"]["commits"] for worker in (0, 1)]


def test_what_workers_have_said_is_noted_at_once_and_then_every_few_seconds(state: StateDir) -> None:
    one = noting(state)
    one.seen(0, 7)
    one.note(100.0)
    assert noted(state) == [7, 1]
    one.seen(0, 8)
    one.seen(1, 3)
    one.note(100.0 + EACH_S * 0.9)
    assert noted(state) == [7, 1]
    one.note(100.0 + EACH_S)
    assert noted(state) == [8, 3]


def test_where_nothing_was_committed_nothing_is_written(state: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    one = noting(state)
    one.seen(0, 7)
    one.note(0.0)
    monkeypatch.setattr(StateDir, "record", _unexpected)
    one.note(2 * EACH_S)
    one.seen(0, 0)  # a worker that has no store open yet
    one.seen(5, 9)  # and one that keeps nothing
    one.note(3 * EACH_S)


def _unexpected(*_: object) -> None:
    raise AssertionError("nothing is new")


def test_on_a_full_disk_nothing_is_raised_and_it_is_noted_later(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = noting(state)
    one.seen(0, 7)
    with monkeypatch.context() as full:
        full.setattr(state_dir, "replace", _full)
        one.note(0.0)
    assert noted(state) == [1, 1]
    one.note(EACH_S / 2)  # not at every look: each is an fsync
    assert noted(state) == [1, 1]
    one.note(EACH_S)
    assert noted(state) == [7, 1]


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_run_without_a_state_directory_notes_nothing() -> None:
    one = Noting(None, {})
    one.seen(0, 7)
    one.note(0.0)
