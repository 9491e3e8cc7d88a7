"""The folders of kept checkpoints beside whatever else is there: remains, links, folders of the user's own."""

import errno
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from savepoints_kit import NOW, kept_with_a_value

from topology.errors import StartError
from topology.filesystem.files import DiskFiles
from topology.storage.directory import savepoints
from topology.storage.directory.state_dir import StateDir
from topology.storage.offline.savepoints import keep


def test_what_a_killed_process_has_left_of_a_copy_is_removed_by_the_next_one_of_any_name(tmp_path: Path) -> None:
    kept_with_a_value(tmp_path / "run")
    left = savepoints.folder_of(tmp_path / "run", "auto-20260101-000000")
    left.mkdir()
    (left / "worker-0.db").write_bytes(b"a part")
    (left.parent / "mine").mkdir()
    (left.parent / "mine/notes.txt").write_text("what I did on friday")
    with closing(StateDir(tmp_path / "run", "t")) as state:
        state.check_files()
        keep(state, "saturday", NOW)
    assert sorted(path.name for path in left.parent.iterdir()) == ["friday", "mine", "saturday"]


def test_a_damaged_one_is_named_and_can_be_deleted(tmp_path: Path) -> None:
    one = kept_with_a_value(tmp_path / "run")
    (one.path / "state.json").write_text("{")
    assert savepoints.damaged(DiskFiles(), tmp_path / "run") == ["friday"]
    assert savepoints.listed(DiskFiles(), tmp_path / "run") == []
    savepoints.delete(DiskFiles(), tmp_path / "run", "friday")
    assert not one.path.exists()


def test_no_link_is_followed_to_list_or_delete_one_S5(tmp_path: Path) -> None:
    one = kept_with_a_value(tmp_path / "run")
    one.path.rename(tmp_path / "precious")
    one.path.symlink_to(tmp_path / "precious")
    assert savepoints.listed(DiskFiles(), tmp_path / "run") == []
    with pytest.raises(StartError, match="or a link"):
        savepoints.delete(DiskFiles(), tmp_path / "run", "friday")
    assert (tmp_path / "precious" / "state.json").exists()


def test_a_folder_that_can_not_be_removed_after_its_checkpoint_is_deleted_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = kept_with_a_value(tmp_path / "run")

    def refused(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(DiskFiles, "remove_directory", refused)
    told = savepoints.delete(DiskFiles(), tmp_path / "run", "friday")
    assert told == f"its folder {one.path} could not be removed: Permission denied"
    assert savepoints.listed(DiskFiles(), tmp_path / "run") == []


def test_no_link_is_followed_to_keep_one_S5(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with closing(StateDir(tmp_path / "run", "t")) as state:
        state.check_files()
        state.make_stores([0])
        (tmp_path / "run/checkpoints").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StartError, match="is no directory of this user, or a link"):
            keep(state, "friday", NOW)
    assert [*(tmp_path / "elsewhere").iterdir()] == []


def test_files_of_components_are_in_none(tmp_path: Path) -> None:
    with closing(StateDir(tmp_path / "run", "t")) as state:
        state.check_files()
        state.make_stores([0])
        (tmp_path / "run/kept/companions").mkdir(parents=True)
        keep(state, "friday", NOW)  # the stderr of companions is no loss
        (tmp_path / "run/kept/spark").mkdir()
        with pytest.raises(StartError, match="components keep") as told:
            keep(state, "saturday", NOW)
        assert str(told.value.code) == "K806"
    assert [one.name for one in savepoints.listed(DiskFiles(), tmp_path / "run")] == ["friday"]


def test_a_folder_of_the_user_s_own_is_no_place_for_one_and_stays_as_it_is(tmp_path: Path) -> None:
    kept_with_a_value(tmp_path / "run", "first")
    with closing(StateDir(tmp_path / "run", "t")) as state:
        own = state.path / savepoints.HOME / "friday" / "notes.txt"
        own.parent.mkdir()
        own.touch()
        with pytest.raises(StartError, match="has files that are no checkpoint's: move them, or give another name"):
            keep(state, own.parent.name, NOW)
    assert own.exists()
