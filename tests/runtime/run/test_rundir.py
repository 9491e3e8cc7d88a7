"""The run directory: made for one run, locked, private, and swept away by the next run if its own was killed."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from topology.errors import StartError
from topology.runtime.run import run_dir
from topology.runtime.run.run_dir import RunDir


def made(parent: Path, name: str) -> Path:
    """A directory as a killed run leaves it."""
    path = parent / name
    path.mkdir(mode=0o700)
    return path


def bound(path: str) -> None:
    """Leaves a socket's file there. By a short name: a test's directory may be longer than a socket's path."""
    with contextlib.chdir(os.path.dirname(path)), socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.basename(path))


def test_a_run_directory_is_private_and_gone_after_the_run_s17(tmp_path: Path) -> None:
    own = RunDir(tmp_path)
    assert stat.S_IMODE(own.path.stat().st_mode) == 0o700
    assert own.path.parent == tmp_path
    bound(run_dir.socket_path(str(own.path), 3, 1, Random(1)))
    own.close()
    own.close()
    assert not own.path.exists()


def test_two_lives_of_a_worker_never_have_one_socket_path() -> None:
    random = Random(7)
    paths = {run_dir.socket_path("/run", 1, 2, random) for _ in range(1_000)}
    assert len(paths) == 1_000


def test_a_directory_of_a_run_that_lives_is_not_swept(tmp_path: Path) -> None:
    own = RunDir(tmp_path)
    assert RunDir.sweep(tmp_path) == 0
    assert own.path.exists()
    own.close()


def test_what_a_killed_run_has_left_is_swept_f3(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from topology.runtime.run.run_dir import RunDir\n"
        "own = RunDir(Path(sys.argv[1])); print(own.path, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        left = Path(run.stdout.readline().strip())
        bound(run_dir.socket_path(str(left), 0, 1, Random(1)))
        assert RunDir.sweep(tmp_path) == 0, "it is alive"
        run.send_signal(signal.SIGKILL)
    assert left.exists()
    assert RunDir.sweep(tmp_path) == 1
    assert not left.exists()


def test_a_sweep_removes_nothing_that_a_run_has_not_made_s5(tmp_path: Path) -> None:
    """Names like ours with other content, links, files, sockets of others."""
    users = made(tmp_path, "kedge-checkout")
    (users / "thesis.txt").write_text("years of work")
    foreign = made(tmp_path, "kedge-sockets_")
    bound(str(foreign / "other.sock"))
    target = made(tmp_path, "elsewhere")
    bound(str(target / "1-1-00000000.sock"))
    (tmp_path / "kedge-linked__").symlink_to(target)
    (tmp_path / "kedge-plain___").write_text("a file")
    open_to_all = made(tmp_path, "kedge-shared__")
    open_to_all.chmod(0o777)
    made(tmp_path, "kedge-much-too-long")
    named = made(tmp_path, "kedge-hardened")
    (named / "1-1-00000000.sock").write_text("no socket at all")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    assert RunDir.sweep(tmp_path) == 0
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_a_sweep_of_very_many_goes_on_in_the_next_run(tmp_path: Path) -> None:
    for number in range(run_dir.SWEPT_MAX + 3):
        made(tmp_path, f"kedge-{number:08d}")
    assert RunDir.sweep(tmp_path) == run_dir.SWEPT_MAX
    assert RunDir.sweep(tmp_path) == 3
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_swept_before_it_is_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep of another run comes between making and locking."""
    swept = []
    locked = run_dir._locked

    def late(path: Path, *, made: bool = False) -> int | None:
        if made and not swept:
            path.rmdir()
            swept.append(path)
        return locked(path, made=made)

    monkeypatch.setattr(run_dir, "_locked", late)
    own = RunDir(tmp_path)
    assert swept
    assert own.path.exists()
    assert own.path not in swept
    own.close()


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        made(tmp_path, "kedge-leftover")
        RunDir.sweep(tmp_path)
        RunDir(tmp_path).close()
    assert len(os.listdir("/dev/fd")) == before


def test_where_none_can_be_made_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="set TMPDIR to a directory that can be written"):
        RunDir(tmp_path / "missing")


def test_xdg_runtime_dir_is_taken_only_if_it_is_a_directory_of_ours_s18(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert run_dir.base() == tmp_path
    for wrong in ("", "relative", str(tmp_path / "missing"), __file__):
        monkeypatch.setenv("XDG_RUNTIME_DIR", wrong)
        assert run_dir.base() != Path(wrong)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert run_dir.base() != tmp_path


def test_the_last_worker_to_leave_removes_the_directory(tmp_path: Path) -> None:
    left = made(tmp_path, "kedge-leaving_")
    first, second = (run_dir.socket_path(str(left), worker, 1, Random(worker)) for worker in (0, 1))
    bound(first)
    bound(second)
    run_dir.leave(str(left), first)
    assert left.exists()
    run_dir.leave(str(left), f"ipc://{second}")
    assert not left.exists()
    run_dir.leave(str(left), "tcp://127.0.0.1:1")


def test_a_directory_that_was_taken_away_is_made_again_and_is_locked_f70(tmp_path: Path) -> None:
    directory = RunDir(tmp_path)
    directory.restore()
    directory.path.rmdir()
    directory.restore()
    assert directory.path.stat().st_mode & 0o777 == 0o700
    assert RunDir.sweep(tmp_path) == 0, "nobody else may take it for a remnant"
    directory.close()
    assert not directory.path.exists()
    directory.restore()
    assert not directory.path.exists(), "closed is closed"


def test_what_has_taken_the_place_of_the_directory_is_left_alone_f70(tmp_path: Path) -> None:
    directory = RunDir(tmp_path)
    directory.path.rmdir()
    directory.path.symlink_to(tmp_path)
    directory.restore()
    assert directory.path.is_symlink()
    directory.close()
