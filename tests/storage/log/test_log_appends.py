"""A log and its caller: positions, groups, marks, cuts, bounds; and on real files: room, locks and threads."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from log_kit import PATH, SIZES, Machine

from topology.errors import StartError
from topology.filesystem.files import DiskFiles
from topology.storage.log.layout import GROUP_BYTES_MAX, RECORD_BYTES_MAX
from topology.storage.log.log import LogSizes, WorkerLog
from topology.storage.log.opening import log_paths, open_log
from topology.storage.store import StoreBroken, StoreFull

ROOT = Path(__file__).parents[3]


def opened(path: Path, life: int = 1, decided: int = 0, **more: Any) -> WorkerLog:
    return open_log(DiskFiles(), path / "worker-0.log", owner=(0, life), decided=decided, create=True, **more)


def test_a_group_is_one_call_of_the_system_however_many_records_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    calls = []
    write = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda *given: calls.append(given) or write(*given))
    records = [b"%d" % number * (number % 50) for number in range(5_000)]
    before = log.position
    assert log.append(records) == before + 5_000
    assert log.append([]) == before + 5_000
    assert len(calls) == 1
    log.close()
    log = opened(tmp_path, 2)
    assert list(log.redo()) == records
    log.close()


def test_room_is_taken_in_steps_and_the_file_keeps_its_length_between_them(tmp_path: Path) -> None:
    log = opened(tmp_path, sizes=LogSizes(step=1 << 20))
    first, _ = log_paths(tmp_path / "worker-0.log")
    lengths = set()
    for _ in range(30):
        log.append([bytes(50_000)])
        lengths.add(first.stat().st_size)
    assert lengths == {1 << 20, 2 << 20}
    assert log.size == (2 << 20) + 4_096, "the other file has a block"
    log.close()


def test_a_file_that_grew_long_is_shortened_when_it_is_free() -> None:
    machine = Machine()
    machine.open()
    machine.append(6_000, 6_000)
    grown = machine.log.size
    machine.mark(1)
    machine.sync()
    machine.decide(1)
    assert machine.log.size == 2 * SIZES.step < grown


def test_a_turn_waits_for_a_decision_and_for_a_sync_of_the_file_that_it_leaves() -> None:
    machine = Machine()
    machine.open()

    def mark(number: int) -> bool:
        """Whether the mark turned: what was written before it then stays where it is."""
        sizes = [len(machine.disk.node(path).content.rstrip(b"\0")) for path in log_paths(PATH)]  # type: ignore[union-attr]
        machine.mark(number)
        machine.append(700)
        after = [len(machine.disk.node(path).content.rstrip(b"\0")) for path in log_paths(PATH)]  # type: ignore[union-attr]
        turns.append(turns[-1] if after[turns[-1]] > sizes[turns[-1]] else 1 - turns[-1])
        return turns[-1] != turns[-2]

    turns = [0]
    assert mark(1), "the other file is new, and the first was synced as it was opened"
    assert not mark(2), "1 is not decided"
    machine.sync()
    assert not mark(3), "1 was given up"
    machine.decide(3)
    machine.append(5)
    assert mark(4)
    machine.decide(4)
    assert not mark(5), "the file that 4 begins was not synced"
    machine.sync()
    assert mark(6), "4 was decided"


def test_positions_and_numbers_of_checkpoints_grow() -> None:
    machine = Machine()
    machine.open()
    log = machine.log
    start = log.position
    assert log.append([b"a", b"b"]) == log.position == start + 2
    assert log.mark(3) == start + 3
    assert log.synced == start
    log.sync()
    assert log.synced == start + 3
    with pytest.raises(ValueError, match="checkpoint 3 can't be marked: 3 was marked before"):
        log.mark(3)
    machine.disk.short = 0
    with pytest.raises(StoreFull):
        log.mark(5)
    with pytest.raises(ValueError, match="checkpoint 4 can't be marked: 5 was marked before"):
        log.mark(4)
    log.mark(5)
    with pytest.raises(ValueError, match="checkpoint 3 can't be decided: 5 was marked last"):
        log.cut(3)
    log.cut(5)
    log.cut(4)
    assert log.decided == 5


def test_what_is_to_be_redone_is_read_beside_appends_and_until_the_first_cut() -> None:
    machine = Machine()
    machine.open()
    machine.append(10)
    machine.append(900, 900)
    machine.mark(1)
    machine.append(20)
    machine.kill()
    machine.open()
    found = machine.log.redo()
    assert next(found) == machine.records[0]
    machine.log.append([b"new"])
    machine.log.mark(1)
    machine.log.append([b"new"])
    assert list(found) == machine.records[1:]
    assert list(machine.log.redo()) == machine.records
    under_way = machine.log.redo()
    next(under_way)
    machine.log.cut(1)
    for late in (under_way, machine.log.redo()):
        with pytest.raises(ValueError, match="gone with the first cut"):
            list(late)


def test_a_record_or_a_group_that_is_too_large_is_refused_before_anything_is_written() -> None:
    machine = Machine()
    machine.open()
    done = [*machine.disk.done]
    with pytest.raises(ValueError, match=r"a record of 8,388,609 bytes is too long"):
        machine.log.append([b"a", bytes(RECORD_BYTES_MAX + 1)])
    with pytest.raises(ValueError, match=r"5 records of .* bytes are too much for one group"):
        machine.log.append([bytes(GROUP_BYTES_MAX // 4 - 1)] * 5)
    assert machine.disk.done == done
    machine.log.append([bytes(RECORD_BYTES_MAX)])
    machine.kill()
    machine.log = open_log(machine.files, PATH, owner=(0, 2), decided=0, sizes=SIZES)
    assert [len(record) for record in machine.log.redo()] == [RECORD_BYTES_MAX]


def test_after_a_failed_sync_nothing_is_tried_again_P13_F18() -> None:
    machine = Machine()
    machine.open()
    machine.append(10)
    machine.disk.failing_syncs = 1
    with pytest.raises(StoreBroken, match=r"content of /simulated/worker-0\.log\.0 on the disk is unknown: .*K537"):
        machine.log.sync()
    done = [*machine.disk.done]
    for call in (machine.log.sync, lambda: machine.log.append([b"x"]), lambda: machine.log.mark(1)):
        with pytest.raises(StoreBroken, match="K537"):
            call()
    machine.log.close()
    machine.log.close()
    assert machine.disk.done == done


def test_what_a_failed_sync_has_left_in_memory_is_written_again_before_it_is_trusted_F18() -> None:
    """The system returns it to the next process, and that one's sync alone would not write it."""
    for turned in (False, True):
        machine = Machine()
        machine.open()
        if turned:
            machine.mark(1)
        machine.append(10, 700)
        machine.disk.failing_syncs = 1
        with pytest.raises(StoreBroken):
            machine.log.sync()
        machine.close()
        machine.open()
        assert len(machine.records) == 2
        machine.lose_power()
        machine.open()
        assert len(machine.records) == 2


def test_a_closed_log_says_so() -> None:
    machine = Machine()
    machine.open()
    machine.close()
    with pytest.raises(StoreBroken, match="is closed"):
        machine.log.append([b"x"])
    machine.open()


def test_a_second_process_is_refused_as_long_as_one_has_the_log(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from topology.filesystem.files import DiskFiles\n"
        "from topology.storage.log.opening import open_log\n"
        "open_log(DiskFiles(), Path(sys.argv[1]), owner=(0, 2), decided=0).close()\n"
    )

    def second() -> str:
        command = [sys.executable, "-c", program, str(tmp_path / "worker-0.log")]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT).stderr

    log = opened(tmp_path)
    assert f"can't be used: another process has it open (pid {os.getpid()}" in second()
    with pytest.raises(StartError, match="another process has it open"):
        opened(tmp_path)
    log.close()
    assert second() == ""


def test_no_link_is_followed_S5(tmp_path: Path) -> None:
    first, _ = log_paths(tmp_path / "worker-0.log")
    (tmp_path / "elsewhere").write_bytes(b"")
    first.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StartError, match="is a link, or no plain file"):
        opened(tmp_path)


def test_a_thread_syncs_beside_appends_and_turns(tmp_path: Path) -> None:
    log = opened(tmp_path, sizes=LogSizes(step=1 << 16, keep=1 << 17))
    over = threading.Event()
    syncs, troubles = [0], []

    def syncing() -> None:
        while not over.is_set():
            before = log.position
            try:
                log.sync()
            except BaseException as error:
                troubles.append(error)
                return
            if log.synced < before:
                troubles.append(AssertionError(f"{log.synced} < {before}"))
            syncs[0] += 1

    thread = threading.Thread(target=syncing)
    thread.start()
    records: list[bytes] = []
    for number in range(4_000):
        records.append(b"%d" % number * 20)
        log.append(records[-1:])
        if number % 100 == 99:
            log.mark(number)
            if number % 300 == 299:
                log.cut(number)
                decided, records = number, []
    over.set()
    thread.join()
    assert troubles == []
    assert syncs[0] > 1
    log.close()
    log = opened(tmp_path, 2, decided)
    assert list(log.redo()) == records
    log.close()


# -- real disks

PROGRAM = """
import os, resource, sys
from pathlib import Path
from topology.filesystem.files import DiskFiles
from topology.storage.log.log import LogSizes
from topology.storage.log.opening import open_log
from topology.storage.store import StoreFull
path = Path(sys.argv[1]) / "worker-0.log"

def log(life):
    return open_log(DiskFiles(), path, owner=(0, life), decided=0, create=True, sizes=LogSizes(step=1 << 18))

def fill(log):
    "How many groups fit, and what the next one says."
    for number in range(100_000):
        try:
            log.append([b"%d" % number, b"x" * 10_000, b"y" * 3_000])
        except StoreFull as error:
            return number, str(error)
"""
LIMITED = """
one = log(1)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_001, resource.RLIM_INFINITY))
kept, why = fill(one)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
FULL = """
os.system(f"mount -t tmpfs -o size=1m,mode=700 tmpfs {sys.argv[1]}") == 0 or sys.exit("no tmpfs here")
one = log(1)
kept, why = fill(one)
os.system(f"mount -o remount,size=8m {sys.argv[1]}") == 0 or sys.exit("no remount here")
"""
AFTER = """
one.append([b"%d" % kept, b"x" * 10_000, b"y" * 3_000])
one.append([b"last"])
one.sync()
one.close()
found = [record for record in log(2).redo()]
assert [int(record) for record in found[:-1:3]] == [*range(kept + 1)]
print(kept > 10, found[-1], why.rpartition(": ")[2])
"""


@pytest.mark.parametrize(
    ("program", "before", "why"),
    [(LIMITED, (), "File too large"), (FULL, ("unshare", "-rm"), "No space left on device")],
)
def test_a_disk_without_room_keeps_whole_groups_and_the_group_is_appended_again_P14_F16_F17(
    program: str, before: tuple[str, ...], why: str, disk_path: Path
) -> None:
    command = [*before, sys.executable, "-c", PROGRAM + program + AFTER, str(disk_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    if done.returncode and done.stderr.startswith(("no ", "unshare:", "mount:")):
        pytest.skip(f"no tmpfs of its own: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"True b'last' {why}\n"


def test_a_write_that_is_cut_short_goes_on_until_the_system_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    write = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda file, parts, at: write(file, [b"".join(parts)[:100]], at))
    log.append([b"x" * 500])
    monkeypatch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StoreFull, match="No space left on device"):
        log.append([b"y" * 500])
    monkeypatch.undo()
    log.append([b"z"])
    log.close()
    log = opened(tmp_path, 2)
    assert list(log.redo()) == [b"x" * 500, b"z"]
    log.close()
