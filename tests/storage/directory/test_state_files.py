"""Which files a state directory has is known, and what is missing, behind, foreign or damaged is refused by name (D12,
F22–F24, F26); whatever it is killed at, the next start goes on (F56)."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
from durable_kit import Died, FaultyFiles, begun, killed, laid_out, letter, mark, store, trial
from state_rows_kit import change, row

from topology.errors import StartError
from topology.filesystem.files import DiskFiles
from topology.storage.directory.manifest import Manifest, _check
from topology.storage.directory.state_dir import StateDir
from topology.storage.sqlite.database import PAGE_BYTES
from topology.storage.values import Changes

SEED = 20260106


@contextmanager
def state(
    path: Path, *, fresh: bool = False, topology: str | None = "t", files: DiskFiles | None = None
) -> Iterator[StateDir]:
    opened = StateDir(path, topology, fresh=fresh, files=files)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """The directory of a topology that has run on two workers, and has ended with nothing in flight."""
    path = tmp_path / "s"
    with state(path) as opened:
        assert opened.check_files() == []
        opened.make_stores([0, 1])
        opened.set("generation", "3")
        opened.set_begun("shape")
        for worker in (0, 1):
            with store(path / f"worker-{worker}.db", lives=True) as one:
                one.commit(Changes(marks=[mark(5, worker)], begun=[begun(worker, 2)], letters=[letter(f"{worker}-1")]))
                one.commit(Changes(trials=[trial(1)]))
                one.ended_in_order()
        opened.set_clean()
    return path


def test_what_it_knows_is_kept_until_the_next_run(used: Path) -> None:
    with state(used) as opened:
        assert (opened.clean, opened.shape, opened.run_id, opened.topology) == (True, "shape", "", "t")
        assert opened.known_files == {"worker-0.db": 5, "worker-1.db": 5}
        assert opened.check_files() == []
        opened.set_begun("another")
        assert len(opened.new_run_id()) == 16
        assert opened.new_run_id("monday") == "monday"
    with state(used, topology=None) as opened:
        assert (opened.clean, opened.shape, opened.run_id, opened.topology) == (False, "another", "monday", "t")


def test_who_does_not_know_the_topology_makes_no_directory(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="is not a directory"), state(tmp_path / "s", topology=None):
        pass
    assert not (tmp_path / "s").exists()
    (tmp_path / "s").mkdir(mode=0o700)
    with pytest.raises(StartError, match=r"there is no state\.json in it"), state(tmp_path / "s", topology=None):
        pass


def test_a_missing_file_is_refused_by_name_and_given_up_only_where_that_is_accepted_F23(used: Path) -> None:
    (used / "worker-1.db").unlink()
    with state(used) as opened:
        with pytest.raises(StartError, match=r"the state file .*worker-1\.db is missing") as raised:
            opened.check_files()
        assert "--accept-loss" in raised.value.next
    with state(used, fresh=True) as opened, pytest.raises(StartError, match="is missing"):
        opened.check_files()
    with state(used) as opened:
        assert opened.check_files(accept_loss=True) == [
            "--accept-loss: worker-1.db is missing, so the positions, dead letters and state in it are lost (K439)"
        ]
        opened.make_stores([0, 1])
    with store(used / "worker-1.db") as one:
        assert one.loaded.next_letter > 1_000_000, "names of letters that are lost are not used again"
    with state(used) as opened:
        assert opened.check_files() == []


def test_a_loss_that_is_accepted_and_a_fresh_start_go_together(used: Path) -> None:
    """What K439 advises: no state is left that what is read again would count in a second time."""
    with store(used / "worker-0.db") as one:
        one.commit(Changes(states=[change({}, row("k", 1))]))
    (used / "worker-1.db").unlink()
    with state(used, fresh=True) as opened:
        assert len(opened.check_files(accept_loss=True)) == 1
    with store(used / "worker-0.db") as one:
        assert (one.loaded.marks, one.states().rows) == ((), {})


def test_a_file_that_is_behind_is_refused_and_taken_only_where_that_is_accepted_D12(used: Path, tmp_path: Path) -> None:
    shutil.copy(used / "worker-0.db", tmp_path / "backup")
    with store(used / "worker-0.db") as one:
        one.commit(Changes(marks=[mark(6)]))
    with state(used) as opened:
        assert opened.check_files() == []
        opened.set_clean()
    for leftover in used.glob("worker-0.db*"):
        leftover.unlink()
    shutil.copy(tmp_path / "backup", used / "worker-0.db")
    with state(used) as opened:
        with pytest.raises(StartError, match=r"worker-0\.db has seen 5 commits, and 6 are known of"):
            opened.check_files()
        (lost,) = opened.check_files(accept_loss=True)
        assert (
            lost == "--accept-loss: worker-0.db is an older copy, of commit 5, so everything after that commit is lost "
            "(K439)"
        )
        assert opened.check_files() == []


def test_a_file_of_another_directory_is_refused_even_where_loss_is_accepted_F26(used: Path, tmp_path: Path) -> None:
    with state(tmp_path / "other") as other:
        other.make_stores([0])
    shutil.copy(tmp_path / "other" / "worker-0.db", used / "worker-0.db")
    with state(used) as opened, pytest.raises(StartError, match=r"worker-0\.db belongs to another state directory"):
        opened.check_files(accept_loss=True)
    shutil.copy(used / "worker-1.db", used / "worker-0.db")
    with state(used) as opened, pytest.raises(StartError, match=r"worker-0\.db belongs to another state directory"):
        opened.check_files(accept_loss=True)


def test_a_file_that_is_not_known_and_a_missing_manifest_are_refused_F23(used: Path) -> None:
    shutil.copy(used / "worker-1.db", used / "worker-7.db")
    with state(used) as opened, pytest.raises(StartError, match=r"worker-7\.db is not one of the files"):
        opened.check_files(accept_loss=True)
    (used / "worker-7.db").unlink()
    (used / "state.json").unlink()
    with pytest.raises(StartError, match=r"has worker-0\.db, and no state\.json"), state(used, fresh=True):
        pass


def test_a_damaged_file_is_refused_with_the_way_out_and_the_way_out_works_F22(used: Path) -> None:
    content = bytearray((used / "worker-0.db").read_bytes())
    for page in range(PAGE_BYTES, len(content), PAGE_BYTES):
        content[page + PAGE_BYTES - 96 : page + PAGE_BYTES] = bytes(96)
    (used / "worker-0.db").write_bytes(content)
    with state(used) as opened, pytest.raises(StartError, match=r"worker-0\.db is damaged: ") as raised:
        opened.check_files(accept_loss=True)
    assert raised.value.next == (
        f"restore all of {used} from one copy; or give up the positions, the state and the dead letters in the file: "
        "move worker-0.db away and run again with --accept-loss"
    )
    (used / "worker-0.db").rename(used / "set-aside")
    with state(used) as opened:
        assert len(opened.check_files(accept_loss=True)) == 1


def test_any_changed_byte_of_the_manifest_is_told_F22(used: Path) -> None:
    content = (used / "state.json").read_bytes()
    print("seed", SEED)
    random = Random(SEED)
    for offset in range(len(content)):
        damaged = bytearray(content)
        damaged[offset] ^= 1 << random.randrange(8)
        (used / "state.json").write_bytes(damaged)
        try:
            with state(used) as opened:
                assert json.loads(damaged) == json.loads(content), f"byte {offset}: {bytes(damaged)!r}"
                assert opened.check_files() == []
        except StartError as error:
            assert "is damaged" in str(error) or "has format" in str(error)  # noqa: PT017 - or it is as it was
    (used / "state.json").write_bytes(content)


def test_a_manifest_of_the_first_format_is_read_and_written_anew(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    old = {"format": 1, "topology": "t", "incarnation": 41, "key": "ab" * 32, "notes": {"a": "1"}}
    (tmp_path / "s" / "state.json").write_text(json.dumps(old))
    with state(tmp_path / "s") as opened:
        assert (opened.get("a"), opened.key, opened.clean, opened.shape) == ("1", bytes.fromhex("ab" * 32), True, None)
    with state(tmp_path / "s") as opened:
        assert opened.next_incarnation() == 42
    assert json.loads((tmp_path / "s" / "state.json").read_text())["format"] == 3


def test_a_manifest_of_the_second_format_stays_one_until_something_changes(tmp_path: Path) -> None:
    """What it has begun may have to be ended by the version that wrote it."""
    (tmp_path / "s").mkdir(mode=0o700)
    file = tmp_path / "s" / "state.json"
    old = {"format": 2, **asdict(Manifest("t", "ab" * 32, 41, {"a": "1"}, clean=False, shape="{}"))}
    del old["upgraded"], old["boot"]
    file.write_text(json.dumps({**old, "check": _check(old)}))
    content = file.read_bytes()
    with state(tmp_path / "s") as opened:
        assert (opened.get("a"), opened.clean, opened.has_unsynced_logs) == ("1", False, False)
        opened.check_files()
        assert file.read_bytes() == content
        opened.set_begun("{}", logs_are_synced=False)
        assert json.loads(file.read_text())["format"] == 3
    with state(tmp_path / "s") as opened:
        assert (opened.next_incarnation(), opened.has_unsynced_logs, opened.has_torn_logs) == (42, True, False)


def test_fresh_forgets_positions_and_notes_and_neither_letters_nor_the_counter(used: Path) -> None:
    with state(used) as opened:
        incarnation, key = opened.next_incarnation(), opened.key
    with state(used, fresh=True) as opened:
        assert (opened.notes, opened.shape, opened.clean) == ({}, None, True)
    with state(used) as opened:  # the flag is what counts: a start in between may have failed
        assert opened.check_files() == []
        assert (opened.next_incarnation(), opened.key) == (incarnation + 1, key)
    for worker in (0, 1):
        with store(used / f"worker-{worker}.db") as one:
            assert (one.loaded.marks, one.loaded.begun, one.loaded.trials) == ((), (), ())
            assert one.names() == [f"{worker}-1"]
    with state(used) as opened, store(used / "worker-0.db") as one:
        one.commit(Changes(marks=[mark(1)]))
        one.close()
        opened.check_files()
    with store(used / "worker-0.db") as one:
        assert one.loaded.marks == (mark(1),), "it forgets once"


def killed_at_each(path: Path, tmp_path: Path, does: Callable[[StateDir], object], **options: bool) -> list[Path]:
    """Copies of a directory, each as it is when the process is killed before one of the operations of `does`."""
    left = []
    for at in range(1, 1_000):
        copy = tmp_path / f"killed-{at}"
        shutil.copytree(path, copy) if path.exists() else copy.mkdir(mode=0o700)
        files = FaultyFiles(copy)
        files.fail(killed, at)
        try:
            with state(copy, files=files, **options) as opened:
                does(opened)
        except (Died, StartError):
            left.append(copy)
            continue
        return left
    raise AssertionError("it never ended")


def test_stores_are_made_whenever_making_them_was_cut_short_F56(tmp_path: Path) -> None:
    left = killed_at_each(tmp_path / "none", tmp_path, lambda opened: opened.make_stores([0, 1]))
    assert len(left) > 20
    for copy in left:
        with state(copy, files=FaultyFiles(copy)) as opened:
            assert opened.check_files() == []
            opened.make_stores([0, 1])
            assert opened.known_files == {"worker-0.db": 1, "worker-1.db": 1}
            assert opened.check_files() == []


def test_fresh_is_completed_whenever_it_was_cut_short_F56(used: Path, tmp_path: Path) -> None:
    left = killed_at_each(used, tmp_path, lambda opened: opened.check_files(), fresh=True)
    assert len(left) > 10
    forgot = 0
    for copy in left:
        with state(copy) as opened:
            assert opened.check_files() == []
            forgotten = not opened.notes
        held = []
        for worker in (0, 1):
            with store(copy / f"worker-{worker}.db") as one:
                held.append((one.loaded.marks, one.names()))
        marks = [(), ()] if forgotten else [(mark(5, 0),), (mark(5, 1),)]
        assert held == [(marks[0], ["0-1"]), (marks[1], ["1-1"])]
        forgot += forgotten
    assert 0 < forgot < len(left)


def test_an_upgrade_is_completed_whenever_it_was_cut_short_F56(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    old = {"format": 1, "topology": "t", "incarnation": 41, "key": "ab" * 32, "notes": {"a": "1"}}
    (tmp_path / "s" / "state.json").write_text(json.dumps(old))
    for copy in killed_at_each(tmp_path / "s", tmp_path, lambda opened: opened.next_incarnation()):
        with state(copy) as opened:
            assert opened.next_incarnation() in (42, 43)
            assert opened.notes == {"a": "1"}


@pytest.mark.parametrize("planted", ["state.json", "lock", ".state.json.new"])
def test_no_link_in_it_is_followed_S5(used: Path, tmp_path: Path, planted: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (used / planted).unlink(missing_ok=True)
    (used / planted).symlink_to(victim)
    if planted == ".state.json.new":
        with state(used) as opened:
            opened.set("b", "2")
    else:
        with pytest.raises(StartError, match="can't be used"), state(used):
            pass
    assert victim.read_text() == "precious"


def test_one_that_anybody_may_write_to_is_refused_S5(used: Path) -> None:
    used.chmod(0o777)
    with pytest.raises(StartError, match="any user may write to the state directory"), state(used):
        pass


def test_a_second_run_is_refused_at_once_by_whatever_path_it_comes_and_disturbs_nothing_F24(
    used: Path, tmp_path: Path
) -> None:
    os.symlink(tmp_path, tmp_path / "elsewhere")
    second = (
        "import sys; from pathlib import Path; from topology.storage.directory.state_dir import StateDir\n"
        "try: StateDir(Path(sys.argv[1]), 't', fresh=True)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    with state(used) as opened:
        before = {file.name: file.read_bytes() for file in used.iterdir()}
        for path in (used, tmp_path / "elsewhere" / "s"):
            said = subprocess.run(
                [sys.executable, "-c", second, str(path)], capture_output=True, text=True, timeout=30, check=True
            ).stdout
            assert said.startswith(f"StartError the state directory {path} is in use by another run")
        assert {file.name: file.read_bytes() for file in used.iterdir()} == before
        opened.set("a", "1")


def test_a_loss_of_power_at_any_operation_of_a_whole_start_leaves_what_can_be_started_from_F20(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.mkdir(mode=0o700)
    disk = FaultyFiles(path, remember=True)
    counted = []
    incarnation = 0
    with state(path, files=disk) as opened:
        for _ in range(2):
            opened.check_files()
            opened.make_stores([0, 1])
            opened.set_begun("shape")
            incarnation = opened.next_incarnation()
            counted += [incarnation - 1] * (len(disk.moments) - len(counted))
            with store(path / "worker-0.db", disk, lives=True) as one:
                one.commit(Changes(marks=[mark(incarnation)]))
                one.ended_in_order()
            opened.set_clean()
            counted += [incarnation] * (len(disk.moments) - len(counted))
    for number, moment in enumerate(disk.moments):
        directory = laid_out(tmp_path / f"{number}", moment.durable)
        with state(directory, files=FaultyFiles(directory)) as opened:
            assert opened.check_files() == [], f"before {moment.operation}"
            opened.make_stores([0, 1])
            assert opened.next_incarnation() > counted[number]
            assert opened.clean or opened.shape == "shape"
