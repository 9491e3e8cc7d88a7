"""How runs on several processes end: by themselves, by signals, by a reader that has gone, and before they begin."""

import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from chaos_kit import ENDLESS, KEDGE, NUMBERED, exactly, rows, running, surroundings
from proc_kit import left_over

RATE = 2_000


def test_a_bounded_run_ends_by_itself_across_workers(folder: Path) -> None:
    with running(folder, count=8_000, layout="both") as run:
        outcome = run.ended().well()
        assert left_over(folder) == []
    exactly(folder, 8_000)
    assert (outcome.total("emitted"), outcome.total("failed"), outcome.figures["restarts"]) == (8_000, 0, 0)
    assert "has read everything and ended" in outcome.said


@pytest.mark.parametrize("everybody", [False, True], ids=["SIGTERM-to-the-supervisor", "Ctrl-C-to-the-whole-group"])
def test_a_signal_drains_and_what_was_read_is_stored(folder: Path, everybody: bool) -> None:
    with running(folder, count=ENDLESS, rate=RATE, layout="apart") as run:
        run.until_done(1_000)
        if everybody:
            run.signal_all(signal.SIGINT)
        else:
            run.process.send_signal(signal.SIGTERM)
        outcome = run.ended(within_s=15).well()
        ((count, _, _),) = run.books().values()
        assert left_over(folder) == []
    assert 1_000 <= count == outcome.total("emitted") == outcome.total("acked")
    exactly(folder, count)
    assert outcome.figures["restarts"] == 0
    assert f"{'SIGINT' if everybody else 'SIGTERM'}: draining; once more ends it now" in outcome.said
    assert "was stopped and has drained" in outcome.said


def test_a_second_signal_ends_at_once_and_says_what_was_in_flight(folder: Path) -> None:
    with running(folder, layout="apart", count=ENDLESS, slow_s=0.05) as run:
        run.until(lambda: run.pending() >= 300, "messages that will take half a minute")
        run.process.send_signal(signal.SIGTERM)
        run.until_said("SIGTERM: draining")
        # So that the supervisor's figures are later than the signal: those of the spout's worker, which may come last.
        run.until_said(r"draining: [\d,]+ (messages left|inputs left[\s\S]*pending [1-9])")
        since = time.monotonic()
        run.process.send_signal(signal.SIGTERM)
        outcome = run.ended(within_s=8)
        took = time.monotonic() - since
        assert left_over(folder) == []
    assert outcome.status == 1
    assert took < 6
    assert "SIGTERM again: ending now" in outcome.said
    assert "messages are pending; " in outcome.said
    assert "was ended by force" in outcome.said
    assert outcome.total("pending") > 0
    assert 0 < rows(folder) < 2 * outcome.total("emitted")


def test_a_reader_that_goes_away_is_no_crash(folder: Path) -> None:
    """As `kedge run … | head -1` does, with a `Print` in both workers. 4,000 records."""
    line = [*KEDGE, "run", str(NUMBERED), "--workers", "2", "--state-dir", str(folder / "state")]
    line += [f"--set={each}" for each in (f"folder={folder}", "count=4000", "loud=true")]
    with (folder / "stderr-0").open("wb") as err:
        process = subprocess.Popen(
            line, cwd=folder, env=surroundings(folder, {}), stdout=subprocess.PIPE, stderr=err, start_new_session=True
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip()
            process.stdout.close()
            status = process.wait(30)
        finally:
            process.kill()
            process.wait()
    said = (folder / "stderr-0").read_text()
    assert status == 0, said
    assert not re.search(r"[Bb]roken ?[Pp]ipe|Traceback|was killed|ended with", said), said
    exactly(folder, 4_000)
    assert left_over(folder) == []


# -- what can't begin


@pytest.mark.slow
@pytest.mark.parametrize("limit", [8, 10, 16, 32, 64])
def test_too_few_file_descriptors_are_one_sentence_f15(folder: Path, limit: int) -> None:
    """At no limit does libzmq abort, or anything hang: it runs, or says what to do. 200 records."""
    limits = (limit, limit)
    with running(folder, count=200, prepare=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits)) as run:
        outcome = run.ended(within_s=20)
    if outcome.status == 0:
        exactly(folder, 200)
    else:
        assert outcome.status == 3, outcome.said
        assert re.search("Too many open files|file descriptors, and may have", outcome.sentence())


def test_a_supervisor_without_descriptors_tells_so_and_goes_on_once_there_are_some_f15(folder: Path) -> None:
    """Its limit is lowered while it runs, so that a worker that dies can't be replaced. 8,000 records."""
    with running(folder, count=8_000, rate=4_000, layout="apart") as run:
        run.until_done(1_000)
        pid = run.process.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        there = len(os.listdir(f"/proc/{pid}/fd"))
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (there - 1, hard))
        run.kill_in_flight(run.with_sink())
        run.until_said(r"worker 0 could not be started: Too many open files")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        outcome = run.ended().well()
    exactly(folder, 8_000)
    assert outcome.total("replayed") > 0


def test_a_path_that_is_too_long_for_sockets_is_one_sentence(folder: Path) -> None:
    long = folder / "r" / ("long-" * 20)
    long.mkdir()
    with running(folder, count=200, environment={"XDG_RUNTIME_DIR": None, "TMPDIR": str(long)}) as run:
        outcome = run.ended()
    assert outcome.status == 3
    assert "bytes, and the system allows 10" in outcome.sentence()
    assert "  next: set XDG_RUNTIME_DIR or TMPDIR to a shorter directory   (K421: " in outcome.said
    assert list(long.iterdir()) == []
    long.rmdir()
