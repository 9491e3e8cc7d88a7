"""What says that a note can't be kept now, and what ends the run."""

import errno
from pathlib import Path

import pytest

from topology.errors import NotesAway, StartError
from topology.filesystem.files import DiskFiles
from topology.storage.directory.state_dir import StateDir


class Refusing(DiskFiles):
    number = 0

    def create(self, path: Path, content: bytes) -> None:
        if self.number:
            raise OSError(self.number, errno.errorcode[self.number])
        super().create(path, content)


@pytest.mark.parametrize("name", ["EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "EIO"])
def test_only_an_error_of_the_disk_is_no_wait_f71(tmp_path: Path, name: str) -> None:
    files = Refusing()
    state = StateDir(tmp_path / "state", "lines", files=files)
    state.set("before", "kept")
    files.number = getattr(errno, name)
    with pytest.raises(StartError) as raised:
        state.set("note", "text")
    assert isinstance(raised.value, NotesAway) == (name != "EIO")
    assert str(raised.value.code) == "K414"
    assert "note" not in state.notes, "a caller that finds it does not set it again"
    files.number = 0
    state.set("note", "text")
    state.close()
    again = StateDir(tmp_path / "state", "lines")
    assert again.notes == {"before": "kept", "note": "text"}
    again.close()
