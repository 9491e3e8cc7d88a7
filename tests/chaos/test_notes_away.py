"""A source that has to note how far it is, in a state directory that takes no file for a while: it waits, and goes
on."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
from chaos_kit import running, wait_for
from disks_kit import numbers_in, small_disk
from test_comes_back import unwritable

PROGRAM = Path(__file__).with_name("tailing.py")
LINES = 200  # of 60 bytes or so, each time: the first of a file are noted each time that some are read


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_state_directory_that_takes_no_file_holds_a_source_up_and_ends_no_run_f71(folder: Path, workers: int) -> None:
    log, store = folder / "lines.log", folder / "store.db"
    begun = 0

    def grow() -> int:
        nonlocal begun
        with log.open("a") as file:
            file.writelines(f"{number} {'.' * 50}\n" for number in range(begun, begun + LINES))
        begun += LINES
        return begun

    def stored() -> int:
        with contextlib.suppress(sqlite3.Error):  # no table yet, or a writer is in the way
            return len(numbers_in(store))
        return -1

    first = grow()
    disk_of_its_own = small_disk(folder / "state", megabytes=3, inodes=60)
    with disk_of_its_own as disk, running(folder, command=disk.command, program=PROGRAM, workers=workers) as run:
        run.until(lambda: store.exists() and stored() == first, "first lines")
        with unwritable(disk, "without inodes"):
            for _ in range(3):  # each is more than twice what was noted before
                begun_before = begun
                while begun < 3 * begun_before:
                    grow()
            run.until_said("waits until a note of its position can be stored: .*can't be written")
            run.until_said("'lines' is paused: a note can't be stored")
        run.until_said("resumes: notes can be stored again")
        wait_for(lambda: stored() == begun, "all lines", within_s=20)
        run.process.terminate()
        run.ended().well()
    assert numbers_in(store) == list(range(begun))
