"""A copy has all of a file's bytes, whatever the file system can do, and is a new file of our own."""

import errno
import os
import stat
from pathlib import Path

import pytest

from topology.filesystem import files
from topology.filesystem.files import DiskFiles

CONTENT = bytes(range(256)) * 1_000


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(files, "COPY_BYTES", 10_000)
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return path


def fails(number: int, after: int = 0) -> object:
    """`os.copy_file_range` that copies some bytes, and then fails."""
    copied = 0

    def copy(source: int, target: int, count: int) -> int:
        nonlocal copied
        if copied >= after:
            raise OSError(number, os.strerror(number))
        copied += (written := os.write(target, os.read(source, count)))
        return written

    return copy


@pytest.mark.parametrize("way", [None, fails(errno.EXDEV), fails(errno.EIO, 20_000), lambda *_: 0, "absent"])
def test_all_bytes_are_copied_into_a_file_of_our_own(
    source: Path, monkeypatch: pytest.MonkeyPatch, way: object
) -> None:
    if way == "absent":
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    elif way is not None:
        monkeypatch.setattr(os, "copy_file_range", way, raising=False)
    target = source.with_name("target")
    DiskFiles().copy(source, target)
    assert target.read_bytes() == CONTENT == source.read_bytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_full_disk_is_told(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "copy_file_range", fails(errno.ENOSPC, 20_000), raising=False)
    with pytest.raises(OSError, match="No space left"):
        DiskFiles().copy(source, source.with_name("target"))


def test_nothing_is_written_over_and_no_link_is_followed_S6(source: Path) -> None:
    target = source.with_name("target")
    target.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        DiskFiles().copy(source, target)
    assert target.read_bytes() == b"mine"
    link = source.with_name("link")
    link.symlink_to(source)
    with pytest.raises(OSError, match="symbolic links"):
        DiskFiles().copy(link, source.with_name("other"))
