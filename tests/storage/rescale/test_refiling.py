"""Before a run each store has what belongs to its worker's tasks; a crash at any step loses and doubles nothing, and
the next start goes on (F54, F56)."""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from durable_kit import Died, FaultyFiles, begun, full, killed, letter, mark, store, trial

from topology.errors import StartError
from topology.filesystem.files import DiskFiles
from topology.storage.directory.state_dir import StateDir
from topology.storage.rescale.assign import opened_stores, refile
from topology.storage.values import Begun, Changes, Letter, Mark, Trial

SEED = 20260107
Placed = Mapping[int, Sequence[tuple[str, int]]]

TWO: Placed = {0: [("lines", 0)], 1: [("lines", 1)]}
TWO_ON_ONE: Placed = {0: [("lines", 0), ("lines", 1)]}
SWAPPED: Placed = {0: [("lines", 1)], 1: [("lines", 0)]}
THREE: Placed = {0: [("lines", 0)], 1: [("lines", 1)], 2: [("lines", 2)]}
ONE: Placed = {1: [("lines", 0)]}


@dataclass
class Held:
    """What all stores have, and where."""

    marks: dict[int, list[Mark]]
    begun: dict[int, list[Begun]]
    trials: dict[int, list[Trial]]
    letters: dict[int, list[Letter]]


def held(path: Path) -> Held:
    found = Held({}, {}, {}, {})
    known = json.loads((path / "state.json").read_text())["files"]
    for name in sorted(name for name, entry in known.items() if entry["commits"]):
        with store(path / name) as one:
            found.marks[one.number] = list(one.loaded.marks)
            found.begun[one.number] = list(one.loaded.begun)
            found.trials[one.number] = list(one.loaded.trials)
            found.letters[one.number] = one.letters()
    return found


def filed(path: Path, placed: Placed, files: DiskFiles | None = None) -> Mapping[int, Path]:
    """A start of a run, as far as its stores are concerned."""
    opened = StateDir(path, "t", files=files)
    try:
        opened.check_files()
        return refile(opened, placed).paths
    finally:
        opened.close()


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """After a run of two tasks, one on each of two workers, that was killed."""
    path = tmp_path / "s"
    for worker, file in filed(path, TWO).items():
        with store(file) as one:
            one.commit(
                Changes(
                    marks=[mark(10 + worker, worker, done=((20, 30),)), mark(5, worker, partition=f"own-{worker}")],
                    begun=[begun(worker, 2)],
                    trials=[trial(10 + worker, worker)],
                    letters=[letter(f"{worker}-{number}", worker) for number in range(1, 4)],
                )
            )
    return path


def test_a_first_start_makes_a_store_for_each_worker(tmp_path: Path) -> None:
    paths = filed(tmp_path / "s", {0: [("lines", 0)], 3: []})
    assert [path.name for path in paths.values()] == ["worker-0.db", "worker-3.db"]
    with store(paths[3]) as one:
        assert one.number == 3


def test_what_is_at_home_is_left_alone_and_not_even_written_to(used: Path) -> None:
    filed(used, TWO)
    before = held(used), {file.name: file.read_bytes() for file in used.glob("worker-*")}
    filed(used, TWO)
    assert (held(used), {file.name: file.read_bytes() for file in used.glob("worker-*")}) == before


def test_all_of_a_task_goes_with_it_to_another_worker_and_letters_keep_their_names(used: Path) -> None:
    before = held(used)
    filed(used, SWAPPED)
    after = held(used)
    for kind in ("marks", "begun", "trials", "letters"):
        was, now = getattr(before, kind), getattr(after, kind)
        assert (now[0], now[1]) == (was[1], was[0])


def test_a_worker_that_is_there_no_more_leaves_everything_to_the_others(used: Path) -> None:
    before = held(used)
    filed(used, TWO_ON_ONE)
    after = held(used)
    assert after.marks == {0: before.marks[0] + before.marks[1], 1: []}
    assert [one.name for one in after.letters[0]] == ["0-1", "0-2", "0-3", "1-1", "1-2", "1-3"]
    with store(used / "worker-1.db") as one:
        assert one.loaded.next_letter == 4, "names are not used again when the worker is back"
    filed(used, TWO)
    assert held(used) == before


def test_letters_of_a_task_that_is_there_no_more_go_to_the_first_and_those_of_a_removed_spout_stay(used: Path) -> None:
    with store(used / "worker-1.db") as one:
        one.commit(Changes(letters=[letter("1-9", 4, component="gone"), letter("1-8", 7)]))
    filed(used, TWO)
    after = held(used)
    assert [one.name for one in after.letters[0]] == ["0-1", "0-2", "0-3", "1-8"]
    assert [one.name for one in after.letters[1]] == ["1-1", "1-2", "1-3", "1-9"]


def test_another_number_of_tasks_goes_on_where_all_were_and_reads_the_rest_again_F54(
    used: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kedge")
    filed(used, THREE)
    after = held(used)
    for worker in range(3):
        assert [(one.task, one.position, one.done) for one in after.marks[worker]] == [(worker, 10, ())]
        assert after.begun[worker] == [begun(worker, 3)]
    assert "'lines' has 3 tasks now, and had 2; the former tasks' joint position is known for 1 of 3 partitions" in (
        caplog.text
    )
    filed(used, ONE)
    after = held(used)
    assert [(one.task, one.position) for one in after.marks[1]] == [(0, 10)]
    assert (after.marks[0], after.marks[2], after.begun[1]) == ([], [], [begun(0, 1)])
    assert sorted(one.name for letters in after.letters.values() for one in letters) == [
        *("0-1", "0-2", "0-3", "1-1", "1-2", "1-3")
    ]


def test_where_not_all_had_begun_another_number_of_tasks_begins_at_the_beginning(tmp_path: Path) -> None:
    paths = filed(tmp_path / "s", TWO)
    with store(paths[0]) as one:
        one.commit(Changes(marks=[mark(10)], begun=[begun(0, 2)]))
    filed(tmp_path / "s", THREE)
    after = held(tmp_path / "s")
    assert after.marks == {0: [], 1: [], 2: []}
    assert after.begun == {worker: [begun(worker, 3)] for worker in range(3)}


def test_marks_of_epochs_that_are_long_over_are_forgotten_C2(used: Path) -> None:
    with store(used / "worker-0.db") as one:
        one.commit(Changes(marks=[mark(number, epoch=f"e{number}") for number in range(20)]))
    filed(used, TWO)
    found = [one for one in held(used).marks[0] if one.partition == "p"]
    assert [one.epoch for one in found] == [f"e{number}" for number in range(12, 20)]
    assert len(held(used).marks[0]) == 9, "other partitions keep theirs"


# -- cut short


def everything(path: Path) -> tuple[Any, ...]:
    """What there is in all stores together, wherever it is; twice the same is once."""
    found = held(path)
    marks = {(one.task, one.partition): one for some in found.marks.values() for one in some}
    return (
        sorted(marks.values(), key=repr),
        sorted({repr(one) for some in found.begun.values() for one in some}),
        sorted({one.name for some in found.letters.values() for one in some}),
        sorted({repr(one) for some in found.trials.values() for one in some}),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("placed", "step"), [(SWAPPED, 3), (TWO_ON_ONE, 7), (THREE, 2), (ONE, 7)])
def test_it_is_completed_whenever_it_was_cut_short_and_whatever_the_next_plan_is_F56(
    used: Path, tmp_path: Path, placed: Placed, step: int
) -> None:
    shutil.copytree(used, tmp_path / "right")
    filed(tmp_path / "right", placed)
    right = held(tmp_path / "right")
    changed = {0: [("lines", 1), ("lines", 0)], 5: [("lines", 2), ("lines", 3)]}
    whole = everything(used)
    for at in range(1, 1_000, step):
        copy = tmp_path / "copy"
        shutil.copytree(used, copy)
        files = FaultyFiles(copy)
        files.fail(killed, at)
        try:
            filed(copy, placed, files)
        except (Died, StartError):
            if placed in (SWAPPED, TWO_ON_ONE):
                assert everything(copy) == whole, f"lost before operation {at}"
        else:
            assert at > 15
            break
        if at % 2:  # another plan at the next start
            filed(copy, changed, FaultyFiles(copy))
            after = held(copy).marks
            assert {one.position for some in after.values() for one in some if one.partition == "p"} == {10}
            assert everything(copy)[2] == whole[2]
        else:
            filed(copy, placed, FaultyFiles(copy))
            assert held(copy) == right, f"cut short before operation {at}"
        shutil.rmtree(copy)


def test_a_second_end_while_the_first_is_recovered_from_is_recovered_from_too_F56(used: Path, tmp_path: Path) -> None:
    print("seed", SEED)
    random = Random(SEED)
    shutil.copytree(used, tmp_path / "right")
    filed(tmp_path / "right", THREE)
    right = held(tmp_path / "right")
    for number in range(12):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(used, copy)
        for _ in range(4):
            files = FaultyFiles(copy)
            files.fail(killed, random.randrange(1, 50))
            try:
                filed(copy, THREE, files)
            except (Died, StartError):
                continue
        filed(copy, THREE)
        assert held(copy) == right


def test_where_there_is_no_room_it_says_so_and_goes_on_next_time_F16(used: Path) -> None:
    files = FaultyFiles(used)
    files.fail(full, 4)
    with pytest.raises(StartError, match=r"could not be filed for this run's workers: .*No space left|can't be"):
        filed(used, SWAPPED, files)
    before = everything(used)
    filed(used, SWAPPED)
    assert everything(used) == before


def test_an_older_copy_that_was_accepted_takes_nothing_back_that_is_further_on(used: Path, tmp_path: Path) -> None:
    """What it has of a task that has moved since is not all that is known of it: the lower position is safe."""
    shutil.copy(used / "worker-1.db", tmp_path / "copy")
    shutil.copy(used / "worker-1.db-wal", tmp_path / "copy-wal")
    filed(used, TWO_ON_ONE)
    with store(used / "worker-0.db") as one:
        one.commit(Changes(marks=[mark(99, 1)]))
    for name in ("worker-1.db", "worker-1.db-wal"):
        shutil.copy(tmp_path / name.replace("worker-1.db", "copy"), used / name)
    opened = StateDir(used, "t")
    opened.check_files(accept_loss=True)
    refile(opened, TWO_ON_ONE)
    opened.close()
    (found,) = [one for one in held(used).marks[0] if (one.task, one.partition) == (1, "p")]
    assert (found.position, found.done, found.newest) == (11, (), 99)


def test_the_directory_knows_what_the_stores_have_seen_D12(used: Path) -> None:
    filed(used, SWAPPED)
    opened = StateDir(used, "t")
    with opened_stores(opened) as stores:
        assert {one.path.name: one.commits for one in stores.values()} == opened.known_files
    opened.close()
