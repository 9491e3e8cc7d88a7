"""A log whose bytes are not the ones that were written, or that is somebody else's: refused in words, or read right."""

import struct
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from log_kit import PATH, SIZES, Machine, contents

from topology.errors import StartError
from topology.storage.log.layout import FORMAT, GROUPS_AT, MAGIC, SECTOR
from topology.storage.log.opening import log_paths, open_log
from topology.testing.simulator.disk import FileNode, SimulatedDisk
from topology.testing.simulator.files import SimulatedFiles

FIRST, SECOND = log_paths(PATH)


def lived(*, closed: bool) -> tuple[Machine, dict[Path, bytes]]:
    """A log with two turns, a mark in the middle, and records in both files behind the decided checkpoint."""
    machine = Machine()
    machine.open()
    machine.append(30, 31)
    machine.sync()
    machine.mark(1)
    machine.append(200)
    machine.sync()
    machine.decide(1)
    machine.append(40)
    machine.sync()
    machine.mark(2)
    machine.append(33, 0, 70)
    machine.sync()
    machine.mark(3)
    machine.append(50)
    machine.append(60)
    if closed:
        machine.sync()
        machine.close()
    else:
        machine.kill()
    return machine, contents(machine)


def redone(files: dict[Path, bytes], decided: int = 1, owner: tuple[int, int] = (0, 9)) -> list[bytes]:
    """The records of a log with these files. Raises StartError."""
    disk = SimulatedDisk(Random(0))
    for path, content in files.items():
        disk.change(path.parent, {path.name: FileNode(bytearray(content), bytearray(content))})
    simulated = SimulatedFiles(disk, Random(0))
    try:
        log = open_log(simulated, PATH, owner=owner, decided=decided, sizes=SIZES)
        return list(log.redo())
    finally:
        simulated.close()


@pytest.mark.parametrize("closed", [True, False])
def test_a_flipped_byte_is_damage_or_a_torn_tail_and_never_another_record_P12_F22(closed: bool) -> None:
    machine, files = lived(closed=closed)
    had = machine.records[machine.marks[1] :]
    assert redone(files) == had
    synced = had if closed else had[: machine.synced - machine.marks[1]]
    random, said = Random(20261124), Counter[str]()
    for path, content in files.items():
        for place in range(len(content.rstrip(b"\0")) + 16):
            flipped = bytearray(content)
            flipped[place] ^= 1 << random.randrange(8)
            try:
                found = redone({**files, path: bytes(flipped)})
            except StartError as error:
                said[str(error.code)] += f"the log {path} is damaged" in str(error)
            else:
                said["read"] += 1
                assert found == had[: len(found)], f"{path.name}, byte {place}"
                assert len(found) >= len(synced), f"{path.name}, byte {place}: {len(found)} of {len(synced)}"
    assert said["K479"] > 500, said
    assert said.keys() == {"K479", "read"}
    assert said["read"] > 500, "headers have a copy, and what is not needed may be anything"


def test_a_torn_tail_is_overwritten_and_damage_before_a_sound_group_is_left_as_it_is_P12() -> None:
    machine, files = lived(closed=False)
    (path,) = [path for path, content in files.items() if machine.records[-1] in content]
    content = files[path]
    torn = content.replace(machine.records[-1], bytes(60))
    assert redone({**files, path: torn}) == machine.records[machine.marks[1] : -1]
    damaged = content.replace(machine.records[-5], bytes(33))
    with pytest.raises(StartError, match=r"worker-0\.log\.\d is damaged: record \d+, at byte [\d,]+, can't") as caught:
        redone({**files, path: damaged})
    assert "move worker-0.log.0 and worker-0.log.1 away and run again with --accept-loss" in caught.value.next


def test_a_file_that_is_missing_or_emptied_is_refused() -> None:
    _, files = lived(closed=True)
    for path in files:
        with pytest.raises(StartError, match=r"damaged: there is no such file"):
            redone({other: content for other, content in files.items() if other != path})
    with pytest.raises(StartError, match=r"damaged: it is empty"):
        redone(dict.fromkeys(files, bytes(5_000)))


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("length", [0, 1_000, 4_095])
def test_a_file_that_was_cut_below_the_room_of_a_new_one_is_refused(length: int, *, closed: bool) -> None:
    _, files = lived(closed=closed)
    for path in files:
        with pytest.raises(StartError, match=r"damaged: .*(it was cut|its header|it is empty)") as told:
            redone({**files, path: files[path][:length]})
        assert str(told.value.code) == "K479"


def test_a_log_of_another_worker_or_of_a_later_start_is_refused_D6() -> None:
    _, files = lived(closed=True)
    with pytest.raises(StartError, match=r"belongs to worker 0, and not to worker 3") as caught:
        redone(files, owner=(3, 9))
    assert str(caught.value.code) == "K480"
    with pytest.raises(StartError, match=r"belongs to start 1 of the worker, after this one"):
        redone(files, owner=(0, 0))


def test_a_newer_format_and_a_file_that_is_no_log_are_told_apart() -> None:
    _, files = lived(closed=True)
    newer = bytearray(files[FIRST])
    for start in (0, SECTOR):
        newer[start + len(MAGIC) : start + len(MAGIC) + 4] = struct.pack("<I", FORMAT + 1)
    with pytest.raises(StartError, match=rf"has format {FORMAT + 1}; this Kedge reads formats up to {FORMAT}"):
        redone({**files, FIRST: bytes(newer)})
    with pytest.raises(StartError, match="damaged: its header is not that of a log, at byte 0"):
        redone({**files, FIRST: b"SQLite format 3\0" + files[FIRST][16:512] + b"x" * 2_000})


def test_a_checkpoint_whose_records_are_gone_is_refused_P15() -> None:
    machine, _ = lived(closed=False)
    machine.open()
    for number in (2, 3, 4):
        machine.mark(number)
        machine.append(10)
        machine.sync()
        machine.decide(number)
    machine.close()
    assert redone(contents(machine), decided=4) == machine.records[-1:]
    with pytest.raises(StartError, match="the records after checkpoint 2, which is the last decided one, are not in"):
        redone(contents(machine), decided=2)


def test_files_that_do_not_belong_together_are_refused() -> None:
    _, files = lived(closed=True)
    other = Machine()
    other.open()
    other.append(30, 31)
    other.sync()
    other.mark(1)
    other.append(100)  # and not 200
    other.append(40)
    other.sync()
    other.close()
    swapped = contents(other)[SECOND]
    with pytest.raises(StartError, match=r"damaged: "):
        redone({**files, SECOND: swapped})


def test_old_groups_behind_the_end_of_a_turn_are_none_of_its_records() -> None:
    """The room is that of earlier turns, with groups of the same lengths at the same places."""
    machine = Machine()
    machine.open()
    for number in range(1, 8):
        machine.mark(number)
        for _ in range(8 - number):
            machine.append(100)
        machine.sync()
        machine.decide(number)
    old = [content.count(b"KGrp") for content in contents(machine).values()]
    assert sum(old) > 10, "there are some"
    machine.kill()
    machine.open()
    assert len(machine.records[machine.marks[7] :]) == 1


def test_a_record_that_is_a_copy_of_a_log_is_only_a_record() -> None:
    machine = Machine()
    machine.open()
    machine.append(50)
    machine.sync()
    group = contents(machine)[FIRST][GROUPS_AT:2_000]
    machine.log.append([bytes(4) + group, group])
    machine.records += [bytes(4) + group, group]
    machine.append(20)
    machine.kill()
    machine.open()
    assert machine.records[-3:-1] == [bytes(4) + group, group]
