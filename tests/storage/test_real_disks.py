"""Stores on disks that are really full, limited or read-only (F16, F17, F19)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STORE = """
import os, resource, shutil, signal, sys
from pathlib import Path
from topology.filesystem.files import DiskFiles
from topology.storage.sqlite.schema import create_store
from topology.storage.sqlite.store import SqliteStore
from topology.storage.directory.state_dir import StateDir
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import Changes, Mark

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1]) / "worker-0.db"

def commit(store, number, size=0):
    store.commit(Changes(marks=[Mark("lines", 0, f"p{number % 50}", "e", "x" * size + str(number), (), 0)]))

def fill(store):
    "How many commits fit, and what the next one says."
    for number in range(100_000):
        try:
            commit(store, number, 3_000)
        except StoreFull as error:
            return number, str(error)
"""

LIMITED = """
create_store(DiskFiles(), path, id=b"i" * 16, number=0)
store = SqliteStore(DiskFiles(), path)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
kept, why = fill(store)
assert why.endswith("worker-0.db can't be written: File too large"), why
before = store.reread().marks
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert store.reread().marks == before
commit(store, 7)
store.ended_in_order()
store.close()
store = SqliteStore(DiskFiles(), path)
print(kept > 10, store.loaded.deaths, [mark.position for mark in store.loaded.marks if mark.partition == "p7"])
"""

FULL = """
os.system(f"mount -t tmpfs -o size=1m,mode=700 tmpfs {sys.argv[1]}") == 0 or sys.exit("no tmpfs here")
state = StateDir(Path(sys.argv[1]), "t")
state.make_stores([0])
store = SqliteStore(DiskFiles(), path)
filler = open(path.with_name("filler"), "wb")
kept, why = fill(store)
assert why.endswith("worker-0.db can't be written: No space left on device"), why
held = store.reread().marks
for _ in range(5):
    try:
        commit(store, 99, 900_000)
        print("?")
    except StoreFull:
        assert store.reread().marks == held
try:
    state.set("note", "x" * 60_000)
    print("?")
except Exception as error:
    assert "can't be written: No space left on device" in str(error), error
os.system(f"mount -o remount,size=8m {sys.argv[1]}") == 0 or sys.exit("no remount here")
commit(store, 7)
state.set("note", "x")
store.close()
store = SqliteStore(DiskFiles(), path)
print(kept > 10, [mark.position for mark in store.loaded.marks if mark.partition == "p7"])
os.system(f"umount {sys.argv[1]}")
"""

READ_ONLY = """
os.system(f"mount -t tmpfs -o size=4m,mode=700 tmpfs {sys.argv[1]}") == 0 or sys.exit("no tmpfs here")
state = StateDir(Path(sys.argv[1]), "t")
state.make_stores([0])
state.close()
os.system(f"mount -o remount,ro {sys.argv[1]}") == 0 or sys.exit("no remount here")
for opens in (lambda: SqliteStore(DiskFiles(), path), lambda: StateDir(Path(sys.argv[1]), "t")):
    try:
        opens()
        print("?")
    except Exception as error:
        print(type(error).__name__, error.code, str(error).rpartition(": ")[2])
"""


def run(program: str, directory: Path, *before: str) -> str:
    directory.mkdir(mode=0o700)
    done = subprocess.run(
        [*before, sys.executable, "-c", STORE + program, str(directory)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    if done.returncode and done.stderr.startswith(("no ", "unshare:", "mount:")):
        pytest.skip(f"no tmpfs of its own: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_limit_of_file_sizes_is_waited_for_and_costs_nothing_F17(disk_path: Path) -> None:
    assert run(LIMITED, disk_path / "s") == "True 0 ['7']\n"


def test_a_disk_that_is_full_is_waited_for_and_costs_nothing_F16(disk_path: Path) -> None:
    assert run(FULL, disk_path / "s", "unshare", "-rm") == "True ['7']\n"


def test_a_disk_that_is_read_only_is_said_to_be_at_the_start_F19(disk_path: Path) -> None:
    said = run(READ_ONLY, disk_path / "s", "unshare", "-rm").splitlines()
    assert said[0] == "StartError K436 it may only be read"
    assert said[1] == "StartError K410 Read-only file system"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write wherever it likes")
def test_a_directory_without_the_right_to_write_is_said_to_be_at_the_start_F19(disk_path: Path) -> None:
    (disk_path / "s").mkdir(mode=0o500)
    done = subprocess.run(
        [sys.executable, "-c", STORE + "StateDir(path.parent, 't')", str(disk_path / "s")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert "can't be used: Permission denied" in done.stderr
