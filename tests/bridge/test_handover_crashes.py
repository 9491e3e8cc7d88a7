"""The hand-over on real disks and in real processes: killed in the middle, a disk that is full, or read-only."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from handover_kit import numbers_stored, own, segments_of, task_folders

ROOT = Path(__file__).parents[2]
RECORDS = 1_000  # in segments of five: 200
KILLED_AFTER = (7, 333, 640)  # acks, in one life after the other

HAND_OVER = """
import asyncio, copy, os, sys
from pathlib import Path
from bridge.handover.bolt import HandOver
from handover_kit import numbers_stored, task_of, tuple_of
from topology.testing.sinks.driver import RecordedAnswers, SinkItem, feed, give, until

folder = Path(sys.argv[1])

def told():
    return RecordedAnswers(lambda tup: os.write(1, b"%d\\n" % tup.record.number))

def made(**options):
    return copy.deepcopy(HandOver(SinkItem, "q", "items", **options))
"""

KILLED = """
async def main():
    bolt = made(batch=5, within_ms=1.0)
    await bolt.open(task_of(folder))
    await feed(bolt, map(tuple_of, range(1_000)), told())
    await bolt.close()

asyncio.run(main())
"""

FULL = """
os.system(f"mount -t tmpfs -o size=1m,mode=700 tmpfs {folder}") == 0 or sys.exit("no tmpfs here")

async def main():
    bolt = made(batch=100, within_ms=1.0)
    await bolt.open(task_of(folder))
    filler = open(folder / "filler", "wb", buffering=0)
    try:
        while filler.write(b"x" * 4096) == 4096:
            pass
    except OSError:
        pass
    out = RecordedAnswers()
    await give(bolt, map(tuple_of, range(150)), out)
    await until(lambda: bolt.away)
    assert "No space left on device" in bolt.away, bolt.away
    assert not out.failed and numbers_stored(folder) == sorted(tup.record.number for tup in out.acked)
    await bolt.flush(out)
    filler.truncate(0)
    await until(lambda: len(out.acked) == 150)
    await bolt.flush(out)
    await bolt.close()
    there = numbers_stored(folder)
    print(sorted(there) == list(range(150)), out.failed, bolt.stored, list(folder.rglob(".tmp-*")))

asyncio.run(main())
os.system(f"umount {folder}")
"""

LIMITED = """
import resource, signal

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    bolt = made(batch=100, within_ms=1.0)
    await bolt.open(task_of(folder))
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, resource.RLIM_INFINITY))
    out = RecordedAnswers()
    await give(bolt, map(tuple_of, range(200, 300)), out)
    await until(lambda: bolt.away)
    assert "File too large" in bolt.away, bolt.away
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await until(lambda: len(out.acked) == 100)
    await bolt.close()
    print(sorted(numbers_stored(folder)) == list(range(200, 300)), out.failed)

asyncio.run(main())
"""

READ_ONLY = """
os.system(f"mount -t tmpfs -o size=1m,mode=700 tmpfs {folder}") == 0 or sys.exit("no tmpfs here")
os.system(f"mount -o remount,ro {folder}") == 0 or sys.exit("no remount here")

async def main():
    bolt = made()
    try:
        await bolt.open(task_of(folder))
    except Exception as error:
        print(type(error).__name__, error.code, error)
    await bolt.close()

asyncio.run(main())
os.system(f"umount {folder}")
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])}


def run(program: str, folder: Path, *before: str) -> str:
    folder.mkdir(mode=0o700)
    command = [*before, sys.executable, "-c", HAND_OVER + program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment())
    if done.returncode and done.stderr.startswith(("no ", "unshare:", "mount:")):
        pytest.skip(f"no tmpfs of its own: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def killed_after(acks: int, folder: Path) -> set[int]:
    """The numbers that a process has acked before it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HAND_OVER + KILLED, str(folder)], stdout=subprocess.PIPE, env=environment()
    )
    with process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acks)]
        process.kill()
        lines += process.stdout.read().splitlines(keepends=True)
    assert all(lines[:acks]), "it has ended by itself: its error stands above"
    return {int(line) for line in lines if line.endswith(b"\n")}


def test_what_killed_processes_have_acked_is_there_and_nothing_twice_F1(tmp_path: Path) -> None:
    acked: set[int] = set()
    for acks in KILLED_AFTER:
        acked |= killed_after(acks, tmp_path)
        there = Counter(numbers_stored(tmp_path))
        assert not acked - there.keys(), "acked, and not there"
        assert max(there.values()) == 1
    assert len(acked) < RECORDS, "killed in the middle"
    command = [sys.executable, "-c", HAND_OVER + KILLED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment())
    assert len(done.stdout.splitlines()) == RECORDS, done.stderr
    assert sorted(numbers_stored(tmp_path)) == list(range(RECORDS))
    assert len(segments_of(tmp_path)) >= RECORDS // 5
    assert own(tmp_path).has_ended(len(segments_of(tmp_path)))
    assert not list(task_folders(tmp_path)[0].glob(".tmp-*"))


def test_a_disk_that_is_full_is_waited_for_and_costs_nothing_F16(tmp_path: Path) -> None:
    assert run(FULL, tmp_path / "s", "unshare", "-rm") == "True [] 150 []\n"


def test_a_limit_of_file_sizes_is_waited_for_and_costs_nothing_F17(tmp_path: Path) -> None:
    assert run(LIMITED, tmp_path / "s") == "True []\n"


def test_a_disk_that_is_read_only_is_said_to_be_at_the_start_F19(tmp_path: Path) -> None:
    said = run(READ_ONLY, tmp_path / "s", "unshare", "-rm")
    assert said.startswith("ConfigurationError K371 ")
    assert said.endswith("stream/items/0 can't be written: Read-only file system\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write wherever it likes")
def test_a_folder_without_the_right_to_write_is_said_to_be_at_the_start_F19(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o500)
    command = [sys.executable, "-c", HAND_OVER + KILLED, str(tmp_path / "s")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment())
    assert "can't be written: Permission denied" in done.stderr
