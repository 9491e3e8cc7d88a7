"""Disks that are full, limited or read-only while a run goes: it waits, says so once, and goes on; the counts are
exact."""

import re
import resource
from pathlib import Path

import pytest
from chaos_kit import running
from disks_kit import DISKS, copied, letters, refusing, small_disk, standing_still, stored_once

COUNT = 4_000
RATE = 1_500
EVERY = 100  # number is rejected, where dead letters are wanted,
OFTEN = 4  # or where they have to need room


def said_once(said: str, pattern: str) -> None:
    found = re.findall(pattern, said)
    assert len(found) == 1, f"{len(found)} times {pattern!r}:\n{said}"


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_full_state_directory_pauses_the_run_and_nothing_is_lost_f16(folder: Path, workers: int) -> None:
    """Dead letters wait for room, too: their messages stay pending (E2)."""
    with small_disk(folder / "state") as disk:
        with running(
            folder, command=disk.command, program=DISKS, workers=workers, count=COUNT, rate=RATE, dead=EVERY
        ) as run:
            run.until_done(500)
            disk.fill()
            run.until_said("No space left on device")
            read = standing_still(run)
            assert read < COUNT
            rejected = len([n for n in range(read) if n % EVERY == EVERY - 1])
            (told,) = [dead for _, _, dead in run.books().values()]
            assert told <= rejected
            disk.free()
            outcome = run.ended()
        assert outcome.status == 1, "there are dead letters"
        assert outcome.figures["restarts"] == 0
        assert outcome.total("dead") == COUNT // EVERY
        full = re.findall(r"No space left on device; nothing new is read until it can be .*\(K536\)", outcome.said)
        # each worker says it once; once more if the other one has made a little room meanwhile, and it is used up
        assert 1 <= len(full) <= max(1, 2 * workers)
        assert outcome.said.count("the state can be written again") == len(full)
        assert len(letters(disk.path, *disk.command)) == COUNT // EVERY
    stored_once(folder / "store.db", COUNT, dead=EVERY)


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        pytest.param("store.db", 2, marks=pytest.mark.slow),
        ("store.jsonl", 0),
        pytest.param("store.db", 0, marks=pytest.mark.slow),
        pytest.param("store.jsonl", 2, marks=pytest.mark.slow),
    ],
)
def test_a_sink_without_room_waits_for_it_and_is_exact_f16(folder: Path, workers: int, name: str) -> None:
    with small_disk(folder / "sink") as disk:
        with running(
            folder,
            command=disk.command,
            program=DISKS,
            workers=workers,
            count=COUNT,
            rate=RATE,
            store=folder / "sink" / name,
        ) as run:
            run.until_done(500)
            disk.fill()
            run.until_said("K546")
            done = run.done()
            standing_still(run)
            assert run.done() == done, "what could not be stored was acked"
            disk.free()
            outcome = run.ended().well()
        assert outcome.figures["restarts"] == 0
        assert outcome.total("failed") == 0
        stored_once(copied(disk.view / name, folder / "copy"), COUNT)


@pytest.mark.slow
def test_a_disk_that_holds_everything_is_full_and_has_room_again_f16(folder: Path) -> None:
    """State and sink on one disk; killed while it is full, begun while it is, and begun anew where there is room: for
    the logs of both workers, two files of 4 MB each, and for SQLite's, which grows beyond 4 MB before it is emptied."""
    waits = {"K536", "K546"}
    with small_disk(folder / "state", megabytes=64) as disk:
        store = folder / "state" / "store.db"
        with running(
            folder, command=disk.command, program=DISKS, count=COUNT, rate=RATE, store=store, dead=OFTEN
        ) as run:
            run.until_done(500)
            # A store that is full empties its log, and has that room: so all is filled until the file itself must grow.
            # If the sink waits, no more messages are read, so the state may have nothing to write; and the reverse.
            run.until(
                lambda: disk.fill() or waits & {*re.findall("K[0-9]+", run.said())}, "the sink or the state to wait"
            )
            standing_still(run)
            assert run.pending() > 0
        with running(folder, command=disk.command, program=DISKS, count=COUNT, store=store, dead=OFTEN) as run:
            run.until(lambda: run.process.poll() is not None or waits & {*re.findall("K[0-9]+", run.said())}, "a word")
            if run.process.poll() is not None:  # else it had the room of the last run's logs, which it has put away
                refused = run.ended()
                assert refused.status in (2, 3), "the sink, or the state: whichever finds out first"
                assert "No space left on device" in refused.sentence() or "disk is full" in refused.sentence()
        disk.free()
        with running(folder, command=disk.command, program=DISKS, count=COUNT, rate=0, store=store, dead=OFTEN) as run:
            run.ended()
        assert len(letters(disk.path, *disk.command)) == COUNT // OFTEN
        stored_once(copied(disk.view / "store.db", folder / "copy"), COUNT, dead=OFTEN)


@pytest.mark.parametrize(
    "who",
    [
        "the spout's worker",
        pytest.param("the sink's worker", marks=pytest.mark.slow),
        pytest.param("the one process", marks=pytest.mark.slow),
    ],
)
def test_a_limit_of_file_sizes_is_waited_for_f17(folder: Path, who: str) -> None:
    """Set while they run, and taken away again."""
    workers = 0 if who == "the one process" else 2
    with running(folder, program=DISKS, workers=workers, count=COUNT, rate=RATE, dead=EVERY) as run:
        run.until_done(500)
        (spouts,) = run.with_spout() or [run.process.pid]
        pid = run.with_sink() if who == "the sink's worker" else spouts
        limit(pid, 12_000)  # the files of state and sink are longer soon, and stderr is not
        run.until_said("File too large" if who == "the spout's worker" else "ulimit -f", within_s=20)
        assert standing_still(run) < COUNT
        limit(pid, resource.RLIM_INFINITY)
        outcome = run.ended()
    assert outcome.figures["restarts"] == 0
    assert outcome.total("dead") == COUNT // EVERY
    stored_once(folder / "store.db", COUNT, dead=EVERY)


def limit(pid: int, size: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_state_directory_that_turns_read_only_pauses_the_run_f19(folder: Path, workers: int) -> None:
    """As the system does it after an error of the disk: each write is refused."""
    with running(folder, program=DISKS, workers=workers, count=COUNT, rate=RATE, dead=EVERY) as run:
        run.until_done(500)
        with refusing(run, "pwrite64", "EROFS", folder / "state"):
            run.until_said("K536", within_s=20)
            assert standing_still(run) < COUNT
        outcome = run.ended()
    assert "Read-only file system" in outcome.said
    assert outcome.figures["restarts"] == 0
    assert outcome.total("dead") == COUNT // EVERY
    stored_once(folder / "store.db", COUNT, dead=EVERY)


def test_a_read_only_state_directory_lets_no_run_begin_f19(folder: Path) -> None:
    with small_disk(folder / "state") as disk:
        with running(folder, command=disk.command, program=DISKS, workers=0, count=100) as run:
            run.ended().well()
        disk.remount("ro")
        for workers in (0, 2):
            with running(folder, command=disk.command, program=DISKS, workers=workers, count=100) as run:
                refused = run.ended()
                assert refused.status == 3
            assert "ead-only file system" in refused.sentence()
