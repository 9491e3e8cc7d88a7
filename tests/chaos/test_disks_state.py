"""State directories that are not as a run left them: damaged, half written, older, foreign, linked. `kedge run` says
what is wrong with which file and what to do, exits 3, and changes nothing; what it advises works."""

import json
import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chaos_kit import Outcome, running, wait_for
from disks_kit import DISKS, letters, stored_once

COUNT = 1_000
EVERY = 100


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a run on two workers has left that was killed as a whole in the middle. Not to be changed."""
    folder = tmp_path_factory.mktemp("killed")
    for name in ("r", "books"):
        (folder / name).mkdir(mode=0o700)
    with running(folder, program=DISKS, count=COUNT, rate=1_000, dead=EVERY) as run:
        run.until_done(500)
        os.killpg(run.process.pid, signal.SIGKILL)
        run.process.wait()
    shutil.rmtree(folder / "r")
    return folder


@pytest.fixture
def used(killed: Path, folder: Path) -> Path:
    """A copy of it, with the store."""
    shutil.copytree(killed / "state", folder / "state", ignore=shutil.ignore_patterns("socket"))
    for store in killed.glob("store.db*"):
        shutil.copy(store, folder)
    return folder


def run_on(folder: Path, *options: str, workers: int = 2, **values: Any) -> Outcome:
    with running(folder, *options, program=DISKS, count=COUNT, rate=0, dead=EVERY, workers=workers, **values) as run:
        return run.ended()


def refused(folder: Path, code: str, *words: str, workers: int = 2, **values: Any) -> None:
    """Fails unless it exits 3 with this code and these words, and leaves all files as they were."""
    before = content(folder / "state")
    outcome = run_on(folder, workers=workers, **values)
    assert outcome.status == 3, outcome.said
    assert f"({code}: " in outcome.said
    assert "\n  next: " in outcome.said
    for word in (str(folder / "state"), *words):
        assert word in outcome.sentence()
    assert content(folder / "state") == before


def content(state: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in state.iterdir() if path.name != "lock" and path.is_file()}


def goes_on(folder: Path, *options: str, dead: int = COUNT // EVERY) -> Outcome:
    outcome = run_on(folder, *options)
    assert outcome.status == 1, outcome.said
    assert len(letters(folder / "state")) == dead
    stored_once(folder / "store.db", COUNT, dead=EVERY)
    return outcome


# -- damaged


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path) -> None:
    """A byte of what is in use: in the middle of a page that holds rows."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize(("damage", "workers"), [(half, 0), (flipped, 2), (emptied, 2)])
def test_a_damaged_manifest_is_refused_by_name_f21_f22(
    used: Path, damage: Callable[[Path], None], workers: int
) -> None:
    damage(used / "state" / "state.json")
    refused(used, "K413", "state.json is damaged", workers=workers)


@pytest.mark.parametrize("damage", [half, pytest.param(emptied, marks=pytest.mark.slow)])
def test_a_damaged_state_file_is_refused_by_name_and_the_way_out_works_f21_f22(
    used: Path, damage: Callable[[Path], None]
) -> None:
    file = used / "state" / "worker-1.db"
    damage(file)
    refused(used, "K430", "worker-1.db is damaged")
    for path in (file, file.with_name("worker-1.db-wal")):
        path.unlink(missing_ok=True)
    outcome = run_on(used, "--accept-loss")
    assert outcome.status == 1, outcome.said
    assert "K439" in outcome.said
    stored_once(used / "store.db", COUNT, dead=EVERY)


def test_a_log_that_is_torn_anywhere_costs_what_it_had_or_is_refused_and_nothing_else_f21(used: Path) -> None:
    """The last commit may not have been on the disk. If that checkpoint is not decided, the run goes on from the one
    before; if it is, the file is refused, and the way out works. The moment of the kill says which of the two it is."""
    log = used / "state" / "worker-1.db-wal"
    assert log.stat().st_size > 10_000
    os.truncate(log, log.stat().st_size - 100)
    if run_on(used).status == 3:
        refused(used, "K432", "worker-1.db has checkpoint")
        goes_on(used, "--accept-loss")
    else:
        stored_once(used / "store.db", COUNT, dead=EVERY)
        assert len(letters(used / "state")) == COUNT // EVERY


def test_a_flipped_byte_in_the_log_is_told_f22(used: Path) -> None:
    flipped(used / "state" / "worker-1.db-wal")
    refused(used, "K430", "worker-1.db is damaged")


# -- missing, older, foreign, newer


def test_a_missing_state_file_is_refused_until_its_loss_is_accepted_f23(used: Path) -> None:
    for path in used.glob("state/worker-1.db*"):
        path.unlink()
    refused(used, "K431", "worker-1.db is missing", workers=0)
    outcome = run_on(used, "--accept-loss")
    assert "K439" in outcome.said
    stored_once(used / "store.db", COUNT, dead=EVERY)


@pytest.mark.slow
def test_an_older_copy_is_refused_until_its_loss_is_accepted_f23(used: Path) -> None:
    older = used / "older"
    shutil.copytree(used / "state", older)
    goes_on(used)
    for path in used.glob("state/worker-1.db*"):
        path.unlink()
    for path in older.glob("worker-1.db*"):
        shutil.copy(path, used / "state")
    refused(used, "K432", "worker-1.db has seen", "commits")
    goes_on(used, "--accept-loss")


@pytest.mark.slow
def test_a_whole_older_copy_is_gone_on_from_and_the_sink_drops_what_it_has_f23(used: Path) -> None:
    older = used / "older"
    shutil.copytree(used / "state", older)
    goes_on(used)
    shutil.rmtree(used / "state")
    older.rename(used / "state")
    assert goes_on(used).known > 0


def test_the_directory_of_another_topology_is_refused_f26(used: Path) -> None:
    refused(used, "K413", "'disks'", "'other'", name="other")


def test_a_newer_format_is_refused_f26(used: Path) -> None:
    file = used / "state" / "state.json"
    held = json.loads(file.read_bytes())
    held["format"] = 99
    file.write_text(json.dumps(held))
    refused(used, "K418", "format 99")


# -- links and rights


def test_a_link_in_its_place_is_not_followed_s5(used: Path) -> None:
    victim = used / "victim"
    victim.write_text("precious")
    for name, code in (("worker-1.db", "K438"), ("state.json", "K410"), ("lock", "K410")):
        path = used / "state" / name
        path.rename(kept := used / name)
        path.symlink_to(victim)
        outcome = run_on(used)
        assert (outcome.status, f"({code}: " in outcome.said) == (3, True), outcome.said
        assert victim.read_text() == "precious"
        path.unlink()
        kept.rename(path)
    (used / "state").rename(used / "elsewhere")
    (used / "state").symlink_to(used / "elsewhere")
    outcome = run_on(used)
    assert (outcome.status, "(K411: " in outcome.said) == (3, True), outcome.said


@pytest.mark.parametrize("mask", [0o000, pytest.param(0o077, marks=pytest.mark.slow)])
def test_nobody_else_can_read_what_it_makes_whatever_the_umask_s17(folder: Path, mask: int) -> None:
    with running(folder, program=DISKS, count=COUNT, rate=500, dead=EVERY, prepare=partial(os.umask, mask)) as run:
        run.until_done(100)
        state = folder / "state"
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.iterdir()}
        assert all(mode & 0o077 == 0 for mode in modes.values()), modes
        assert {"state.json", "lock", "worker-0.db", "worker-1.db", "socket"} <= modes.keys()
        for path in (folder / "r").rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path.is_socket(), path


def test_what_a_killed_run_has_left_of_locks_and_sockets_stops_nobody_f25(used: Path) -> None:
    """A socket that nobody listens at, a lock file, half a new manifest."""
    state = used / "state"
    (state / "lock").write_text("1\n")
    (state / ".state.json.new").write_text('{"for')
    (state / "socket").write_text("")
    goes_on(used)
    wait_for(lambda: not (state / ".state.json.new").exists(), "its end")
