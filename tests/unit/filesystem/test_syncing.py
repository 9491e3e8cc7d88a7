"""How files and folders are put on the disk, on systems that have F_FULLFSYNC and on others. Rules F18, F64."""

import errno
import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from topology.filesystem.sync import sync_data, sync_file, sync_folder

FULL = 51  # macOS's number


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the system is asked, in order; its answer to `full` is that of a macOS whose disk is well."""
    asked: list[str] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL, raising=False)
    monkeypatch.setattr(os, "fsync", lambda descriptor: asked.append("fsync"))
    answering(monkeypatch, asked, 0)
    return asked


def answering(monkeypatch: pytest.MonkeyPatch, asked: list[str], error: int) -> None:
    def call(descriptor: int, command: int) -> None:
        assert command == FULL
        asked.append("full")
        if error:
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "fcntl", call)


def a_file(folder: Path) -> None:
    with (folder / "kept").open("wb") as file:
        sync_file(file.fileno())


def some_data(folder: Path) -> None:
    with (folder / "kept").open("wb") as file:
        sync_data(file.fileno())


@pytest.mark.parametrize("put", [a_file, some_data, sync_folder])
def test_where_the_drive_has_a_cache_of_its_own_that_is_emptied_too_F64(
    put: Callable[[Path], None], tmp_path: Path, asked: list[str]
) -> None:
    put(tmp_path)
    assert asked == ["full"]


@pytest.mark.parametrize("put", [a_file, sync_folder])
@pytest.mark.parametrize("error", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_without_that_call_is_asked_for_what_it_has_F64(
    error: int, put: Callable[[Path], None], tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, asked, error)
    put(tmp_path)
    assert asked == ["full", "fsync"]


@pytest.mark.parametrize("put", [a_file, some_data, sync_folder])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_has_failed_is_not_asked_in_another_way_F18(
    error: int, put: Callable[[Path], None], tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, asked, error)
    with pytest.raises(OSError, match=os.strerror(error)):
        put(tmp_path)
    assert asked == ["full"]


@pytest.mark.parametrize("put", [a_file, sync_folder])
def test_elsewhere_a_file_and_a_folder_are_synced_by_fsync(
    put: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, synced = os.fsync, list[int]()
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    monkeypatch.setattr(os, "fsync", lambda descriptor: (real(descriptor), synced.append(descriptor)))
    put(tmp_path)
    assert len(synced) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="fdatasync is Linux's")
def test_data_alone_is_synced_without_the_rest_of_the_inode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, synced = os.fdatasync, list[int]()
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: (real(descriptor), synced.append(descriptor)))
    some_data(tmp_path)
    assert len(synced) == 1


def test_a_folder_that_is_not_there_is_told() -> None:
    with pytest.raises(FileNotFoundError):
        sync_folder(Path("/not/there"))
