"""A file or a directory that this user may not use is named, and is not taken for one that is not there."""

import os
import stat
import sys
from pathlib import Path

import pytest

from topology.cli.errors import print_error
from topology.cli.run_client import locked
from topology.cli.state_dirs import state_dirs, visible_state_dirs


def test_an_error_of_the_system_is_told_with_its_file_and_one_of_stdout_as_one_of_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert print_error(PermissionError(13, "Permission denied", "priv/state"), debug=False) == 3
    assert capsys.readouterr().err.startswith("kedge: priv/state can't be used: Permission denied\n  next: ")
    assert print_error(OSError(28, "No space left on device"), debug=False) == 1
    assert "the output can't be written" in capsys.readouterr().err


def test_a_lock_that_can_not_be_looked_at_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not locked(tmp_path)

    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied", "lock")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(PermissionError):
        locked(tmp_path)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may look everywhere")
def test_state_directories_that_can_not_be_looked_at_are_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".kedge").mkdir(mode=0)
    try:
        assert visible_state_dirs() == []
        with pytest.raises(PermissionError):
            state_dirs()
    finally:
        (tmp_path / ".kedge").chmod(stat.S_IRWXU)
