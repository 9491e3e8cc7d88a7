"""Checkpoints that are kept of runs that go on, whose workers are killed meanwhile; and runs that begin from them, on
other numbers of tasks and workers, into the same sink and into another one: every count is there, once."""

import json
import os
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from chaos_kit import ENDLESS, KEDGE, Run, running, surroundings
from tallied import expected
from tallied_kit import tallied_exactly

SAVED = Path(__file__).with_name("saved.py")
RECORDS = 6_000
RATE = 500  # so that all takes 12 s: for the commands that keep checkpoints meanwhile, each a second on a busy machine
BY_COUNT = {
    "durability": "process"
}  # outputs are named by key and count: they are the same in whatever order words come


def checkpoint(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """`kedge state checkpoint` of the run in this folder."""
    line = [*KEDGE, "state", "checkpoint", *words, "--state-dir", str(folder / "state")]
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, env=surroundings(folder, {}), timeout=90)


def kept(folder: Path, name: str) -> Path:
    """Keep a checkpoint; return its folder."""
    told = checkpoint(folder, name, "--json")
    assert told.returncode == 0, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    assert found["name"] == name
    return Path(found["path"])


def listed(folder: Path) -> list[str]:
    told = checkpoint(folder, "--list", "--json")
    assert told.returncode == 0, told.stderr
    return [json.loads(line)["name"] for line in told.stdout.splitlines()]


def stored(folder: Path) -> Counter[tuple[str, int]]:
    """How often each word has come to each of its counts."""
    with closing(sqlite3.connect(folder / "store.db")) as store:
        return Counter(store.execute("SELECT text, count FROM tally"))


def replayed(folder: Path, source: Path, before: Iterable[tuple[str, int]], name: str, **values: Any) -> int:
    """Begin from a checkpoint, into another sink and state directory. Fails unless all counts are there once that were
    not stored `before` it was kept. Return how many are there."""
    other = folder / name
    for each in (other, other / "books", other / "r"):
        each.mkdir(mode=0o700)
    with running(other, "--from", str(source), program=SAVED, count=RECORDS, config=BY_COUNT, **values) as run:
        outcome = run.ended().well()
    assert f"beginning from checkpoint {source.name}" in outcome.said
    found = stored(other)
    assert {*found.values()} == {1}, "nothing is stored twice"
    wanted = {(text, count) for text, most in expected(RECORDS).items() for count in range(1, most + 1)}
    assert {*found, *before} == wanted
    return len(found)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [pytest.param(0, id="one-process"), pytest.param(2, id="2-workers")])
def test_a_run_begins_from_a_checkpoint_as_often_as_one_likes(folder: Path, workers: int) -> None:
    with running(folder, program=SAVED, workers=workers, count=RECORDS, rate=RATE, config=BY_COUNT) as run:
        run.until_done(500)
        first, at_first = kept(folder, "first"), stored(folder)
        run.until_done(500)
        with ThreadPoolExecutor(3) as threads:  # at once, and two of them under one name
            told = [*threads.map(lambda name: checkpoint(folder, name), ("second", "second", "third"))]
        assert sorted(one.returncode for one in told) == [0, 0, 3], [one.stderr for one in told]
        assert sum("K802" in one.stderr for one in told) == 1
        at_second = stored(folder)
        run.ended().well()
    tallied_exactly(folder, RECORDS)  # nobody has noticed
    assert listed(folder) == ["first", *sorted(["second", "third"], key=listed(folder).index)]
    one = replayed(folder, first, at_first, "a", workers=2 if not workers else 0, counts=3)
    another = replayed(folder, first, at_first, "b", workers=3, counts=1)
    second = folder / "state/checkpoints/second"
    assert one == another > replayed(folder, second, at_second, "c", workers=workers, counts=2) > 0
    with running(
        folder, "--from", "first", program=SAVED, workers=workers, count=RECORDS, counts=3, config=BY_COUNT
    ) as run:
        outcome = run.ended().well()
    tallied_exactly(folder, RECORDS)
    assert outcome.total("emitted") > RECORDS / 2, "all since then is read again"
    assert any(name.startswith("before-") for name in listed(folder))


@pytest.mark.slow
def test_a_kill_while_it_is_copied_gives_it_up_and_the_run_goes_on(folder: Path) -> None:
    with (
        running(folder, program=SAVED, count=RECORDS, rate=RATE, copy_s=1.5, config=BY_COUNT) as run,
        ThreadPoolExecutor(1) as threads,
    ):
        run.until_done(500)
        sink = run.with_sink()  # to look for it takes a while, and a copy only 1.5 s
        asked = threads.submit(checkpoint, folder, "friday")
        file = folder / "state/checkpoints/friday/worker-1.db"
        run.until(file.exists, "a copy")
        run.kill(sink)
        told = asked.result()
        assert told.returncode == 3, told.stderr
        assert "the checkpoint 'friday' could not be kept: " in told.stderr
        assert "K804" in told.stderr
        assert listed(folder) == []
        run.until_all_work()
        source = kept(folder, "friday")  # the same name, and nothing is in its way
        before = stored(folder)
        outcome = run.ended().well()
        assert outcome.figures["restarts"] == 1
    tallied_exactly(folder, RECORDS)
    assert replayed(folder, source, before, "a", workers=2, counts=3)


@pytest.mark.slow
def test_a_stopped_worker_holds_a_checkpoint_up_until_it_is_replaced(folder: Path) -> None:
    with running(folder, program=SAVED, count=RECORDS, rate=RATE) as run, ThreadPoolExecutor(1) as threads:
        run.until_done(500)
        os.kill(run.with_sink(), signal.SIGSTOP)
        told = threads.submit(checkpoint, folder, "friday").result()
        assert told.returncode == 3, told.stderr
        assert "K804" in told.stderr
        run.ended().well()
    tallied_exactly(folder, RECORDS)


def test_a_whole_run_that_is_killed_while_it_keeps_one_has_none(folder: Path) -> None:
    with running(folder, program=SAVED, count=ENDLESS, rate=RATE, copy_s=1.5) as run, ThreadPoolExecutor(1) as threads:
        run.until_done(500)
        asked = threads.submit(checkpoint, folder, "friday")
        run.until((folder / "state/checkpoints/friday/worker-0.db").exists, "a copy")
        run.kill_all()
        assert asked.result().returncode == 1
    assert listed(folder) == []
    told = checkpoint(folder, "friday")  # from the files, without a run
    assert told.returncode == 0, told.stderr
    assert listed(folder) == ["friday"]
    refused = checkpoint(folder, "friday")
    assert (refused.returncode, "K802" in refused.stderr) == (3, True)
    with running(folder, "--from", "friday", program=SAVED, count=ENDLESS, rate=RATE) as run:
        run.until_done(100)
        stopped(run)


def test_a_directory_in_use_is_not_replaced(folder: Path) -> None:
    with running(folder, program=SAVED, count=ENDLESS, rate=RATE) as run:
        run.until_done(200)
        source = kept(folder, "friday")
        with running(folder, "--from", "friday", program=SAVED, count=ENDLESS) as second:
            outcome = second.ended()
        assert outcome.status == 3
        assert "is in use by another run" in outcome.sentence()
        run.until_done(200)
        stopped(run)
    assert source.exists()
    assert listed(folder) == ["friday"]


def stopped(run: Run) -> None:
    run.process.send_signal(signal.SIGTERM)
    run.ended().well()


def test_a_run_keeps_older_checkpoints_itself(folder: Path) -> None:
    quick = "from topology.runtime.run import savepoints; savepoints.EACH_S = 0.5; savepoints.SHARE = 0; "
    command = (
        KEDGE[0].removesuffix("kedge") + "python",
        "-c",
        f"import sys; sys.argv[0] = 'kedge'; {quick}from kedge import main; main()",
    )
    with running(
        folder, program=SAVED, command=command, count=ENDLESS, rate=RATE, config={"keep_checkpoints": 3}
    ) as run:
        run.until_done(200)
        first = run.until(lambda: listed(folder), "the first one")
        run.until(lambda: not {*first} & {*listed(folder)} and len(listed(folder)) == 2, "later ones in their place")
        assert all(name.startswith("auto-") for name in listed(folder))
        stopped(run)
