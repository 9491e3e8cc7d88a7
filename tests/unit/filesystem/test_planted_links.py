"""What a stranger has planted in a shared folder is not followed, opened or kept by whoever writes there. Rule S26."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bolts import JsonLinesSink, SqliteSink
from bolts.sinks.files import LockFile, checked_path
from bridge.compare.report.html import write as write_report
from bridge.files.query import place
from examples.auth_log import auth_log
from examples.auth_log import write as write_log
from topology.cli.commands.state import _write_file
from topology.errors import ConfigurationError
from topology.filesystem.safe_files import followed, open_anew, open_lock, write_anew

STRANGER = 54_321
ROOT = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="needs root, to plant as another user")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that all may write, as /tmp is."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "authorized_keys"
    path.write_text("mine\n")
    return path


def planted(link: Path, target: Path) -> Path:
    link.symlink_to(target)
    os.lchown(link, STRANGER, STRANGER)
    return link


WRITERS: dict[str, Callable[[Path], None]] = {
    "any": lambda path: write_anew(path, [b"ours"]),
    "state export": lambda path: _write_file(path, ["ours"]),
    "compare --report": lambda path: write_report(path, b"ours"),
    "a demo's log": lambda path: write_log(auth_log(count=1000), path),
    "a sink's file": lambda path: write_anew(checked_path(path, "Sink"), [b"ours"]),
}


@ROOT
@pytest.mark.parametrize("who", WRITERS)
def test_a_strangers_link_is_refused_and_what_it_points_to_is_as_it_was(shared: Path, victim: Path, who: str) -> None:
    with pytest.raises((OSError, ConfigurationError), match="is a link that another user has put there"):
        WRITERS[who](planted(shared / "out", victim))
    assert victim.read_text() == "mine\n"
    assert os.listdir(shared) == ["out"]


@ROOT
def test_a_strangers_link_in_the_middle_of_a_path_or_behind_ones_own_is_refused_too(shared: Path, victim: Path) -> None:
    planted(shared / "folder", victim.parent)
    (victim.parent / "own").symlink_to(shared / "folder")
    for path in (shared / "folder" / victim.name, victim.parent / "own" / victim.name):
        with pytest.raises(OSError, match="another user has put there"):
            write_anew(path, [b"ours"])
    assert victim.read_text() == "mine\n"


def test_ones_own_link_stays_one_and_leads_to_the_new_file(shared: Path, victim: Path) -> None:
    (shared / "deep").mkdir()
    (shared / "deep" / "out").symlink_to("../../authorized_keys")
    write_anew(shared / "deep" / "out", [b"ou", b"rs"])
    assert victim.read_text() == "ours"
    assert (shared / "deep" / "out").is_symlink()
    assert sorted(os.listdir(victim.parent)) == ["authorized_keys", "shared"]


def test_links_that_lead_to_each_other_end_by_a_sentence(shared: Path) -> None:
    (shared / "a").symlink_to("b")
    (shared / "b").symlink_to("a")
    with pytest.raises(OSError, match="leads to itself"):
        followed(shared / "a")


def test_a_path_is_followed_as_the_system_does(shared: Path, victim: Path) -> None:
    (shared / "up").symlink_to("..")
    (shared / "to").symlink_to(victim.parent)
    for path in ("up/authorized_keys", "to/shared/up/authorized_keys", "none/none", "to/none", "."):
        assert followed(shared / path) == Path(os.path.realpath(shared / path)), path


@ROOT
def test_a_strangers_file_is_replaced_and_its_mode_is_not_kept(shared: Path) -> None:
    """Else what was exported could be written by whoever had put an empty file there before."""
    out = shared / "out"
    out.touch()
    out.chmod(0o666)
    os.chown(out, STRANGER, STRANGER)
    before = os.umask(0o077)
    try:
        write_anew(out, [b"ours"])
    finally:
        os.umask(before)
    assert (out.stat().st_uid, stat.S_IMODE(out.stat().st_mode)) == (0, 0o600)


def test_a_hard_link_is_not_written_through(shared: Path, victim: Path) -> None:
    os.link(victim, shared / "out")
    write_anew(shared / "out", [b"ours"])
    assert ((shared / "out").read_text(), victim.read_text()) == ("ours", "mine\n")


def test_a_lock_is_taken_on_no_link_no_pipe_and_no_file_with_another_name(shared: Path, victim: Path) -> None:
    (shared / "link-lock").symlink_to(victim)
    (shared / "dangling-lock").symlink_to(victim.parent / "made")
    os.link(victim, shared / "hard-lock")
    os.mkfifo(shared / "pipe-lock")
    for name in ("link", "dangling", "hard", "pipe"):
        with pytest.raises(OSError, match=r"links|no lock of ours"):
            LockFile(shared / name)
        with pytest.raises(OSError, match=r"links|no lock of ours"):
            open_lock(shared / f"{name}-lock")
    assert sorted(os.listdir(victim.parent)) == ["authorized_keys", "shared"]
    assert victim.read_text() == "mine\n"


@pytest.mark.parametrize("sink", [JsonLinesSink, SqliteSink])
def test_a_sink_says_that_its_lock_or_file_is_a_link(shared: Path, victim: Path, sink: type) -> None:
    if sink is SqliteSink:
        (shared / "out-lock").symlink_to(victim)
    elif os.geteuid() == 0:
        planted(shared / "out", victim)
    else:
        pytest.skip("needs root, to plant as another user")
    store = sink(str(shared / "out"))._make_store()
    with pytest.raises(ConfigurationError):
        store.open()
    assert victim.read_text() == "mine\n"


def test_what_lies_at_a_temporary_name_is_removed_and_not_opened(shared: Path, victim: Path) -> None:
    for name in (".tmp-a", ".tmp-b"):
        (shared / name).symlink_to(victim)
    os.close(open_anew(shared / ".tmp-a"))
    place(shared / "b", b"ours")
    assert ((shared / "b").read_text(), victim.read_text()) == ("ours", "mine\n")


def test_a_write_that_fails_leaves_what_there_was_and_nothing_beside(shared: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"half"
        raise ValueError("no more")

    (shared / "out").write_text("before")
    with pytest.raises(ValueError, match="no more"):
        write_anew(shared / "out", failing())
    assert (os.listdir(shared), (shared / "out").read_text()) == (["out"], "before")
