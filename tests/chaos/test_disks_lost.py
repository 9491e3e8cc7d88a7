"""Disks that lose something: an fsync that fails, the power, descriptors. Nothing is acked that is not there, and the
next process goes on from what is."""

import re
import resource
import shutil
from pathlib import Path

import pytest
from chaos_kit import ENDLESS, running, seeded
from disks_kit import DISKS, letters, refusing, small_disk, stopped, stored_once

COUNT = 4_000
RATE = 1_500
EVERY = 100


@pytest.mark.parametrize(
    "what",
    ["state", pytest.param("store.db", marks=pytest.mark.slow), pytest.param("store.jsonl", marks=pytest.mark.slow)],
)
def test_an_fsync_that_fails_once_ends_the_worker_without_an_ack_and_it_is_replaced_f18(
    folder: Path, what: str
) -> None:
    store = folder / (what if what != "state" else "store.db")
    path = folder / what if what == "state" else store
    call = "fsync" if what == "store.jsonl" else "fdatasync"
    with running(folder, program=DISKS, count=COUNT, rate=RATE, dead=EVERY, store=store) as run:
        run.until_done(500)
        with refusing(run, call, "EIO", path, when="1", workers_only=True):  # the supervisor's decision ends the run
            run.until_said("K530", within_s=20)
        outcome = run.ended()
    restarts = outcome.figures["restarts"]
    assert 1 <= restarts <= (2 if what == "state" else 1), "each worker syncs files of its own in there"
    told = r"\S*worker-\d\S* on the disk is unknown" if what == "state" else "its store is broken: "
    assert len(re.findall(told, outcome.said)) == restarts, outcome.said
    assert "the run ends" not in outcome.said
    assert len(letters(folder / "state")) == COUNT // EVERY
    stored_once(store, COUNT, dead=EVERY)


@pytest.mark.parametrize(
    "what",
    [pytest.param("state", marks=pytest.mark.slow), "store.db", pytest.param("store.jsonl", marks=pytest.mark.slow)],
)
def test_an_fsync_that_fails_once_ends_a_run_of_one_process_and_the_next_one_is_exact_f18(
    folder: Path, what: str
) -> None:
    store = folder / (what if what != "state" else "store.db")
    call = "fsync" if what == "store.jsonl" else "fdatasync"
    options = {"program": DISKS, "count": COUNT, "dead": EVERY, "store": store, "workers": 0}
    with running(folder, rate=RATE, **options) as run:
        run.until_done(500)
        with refusing(run, call, "EIO", store if what != "state" else folder / what, when="1"):
            outcome = run.ended()
    assert outcome.status == 1
    # The fault comes again in another thread: whoever notes the end of the run meets it too, and says so (K444).
    state = r"the content of \S*worker-0\.(?:db|log\.\d) on the disk is unknown"
    told = state if what == "state" else '[^"]*its store is broken: '
    assert len(re.findall(f'"event": "{told}', outcome.said)) == 1, outcome.said
    assert "topology/storage" not in outcome.said, "frames of ours say nothing to a user"
    with running(folder, rate=0, **options) as run:
        outcome = run.ended()
    assert len(letters(folder / "state")) == COUNT // EVERY
    stored_once(store, COUNT, dead=EVERY)


@pytest.mark.slow
def test_whenever_the_power_goes_it_is_gone_on_from_exactly_f20(folder: Path) -> None:
    """All that is on the disk at some moment is copied while everything stands still, and a run is begun on each copy;
    once on positions that are older than the sink. Losing what was not synced is for the tests of the stores."""
    random = seeded(2020)
    copies = [folder / f"copy-{number}" for number in range(4)]
    with running(folder, program=DISKS, count=ENDLESS, rate=3_000, dead=EVERY) as run:
        for copy in copies:
            run.until_done(random.randint(200, 1_500))
            with stopped([run.process.pid, *run.workers()]):
                moment(folder, copy)
        run.until_done(1)
        with stopped([run.process.pid, *run.workers()]):
            for store in folder.glob("store.db*"):
                shutil.copy(store, copies[-1])
    count = run.done() + 1_000
    for number, copy in enumerate(copies):
        options = {"store": copy / "store.db", "state": f"{copy.name}/state", "workers": (0, 2)[number % 2]}
        with running(folder, program=DISKS, count=count, rate=0, dead=EVERY, **options) as run:
            outcome = run.ended()
        assert outcome.status == 1, outcome.said
        assert "resuming at 'numbers'" in outcome.said
        assert len(letters(copy / "state")) == count // EVERY
        stored_once(copy / "store.db", count, dead=EVERY)


def moment(folder: Path, copy: Path) -> None:
    copy.mkdir()
    for store in folder.glob("store.db*"):
        shutil.copy(store, copy)
    shutil.copytree(folder / "state", copy / "state", ignore=shutil.ignore_patterns("socket", "lock"))
    (copy / "state").chmod(0o700)


@pytest.mark.parametrize("fault", [pytest.param("no descriptors", marks=pytest.mark.slow), "no room"])
def test_a_worker_that_dies_while_nothing_can_be_opened_is_replaced_once_it_can_f15_f16(
    folder: Path, fault: str
) -> None:
    """The others go on meanwhile, and no restart is spent, however long it takes."""
    with small_disk(folder / "state") as disk:
        command = disk.command
        config = {"max_restarts": 1}
        with running(folder, command=command, program=DISKS, count=COUNT, rate=RATE, dead=EVERY, config=config) as run:
            run.until_done(500)
            sink, (spouts,) = run.with_sink(), run.with_spout()
            limits = {pid: resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in (run.process.pid, spouts)}
            if fault == "no room":
                disk.fill()
            else:
                for pid, (_, hard) in limits.items():
                    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
            run.kill(sink)
            run.until_said("worker 0 could not be started: .*(Too many open files|No space left)", within_s=20)
            if fault == "no descriptors":
                run.until(lambda: run.said().count("could not be started") > 1, "a second try in vain")
            if fault == "no room":
                disk.free()
            else:
                for pid, limit in limits.items():
                    resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
            outcome = run.ended()
        assert outcome.figures["restarts"] == 1
        assert len(letters(folder / "state", *command)) == COUNT // EVERY
        stored_once(folder / "store.db", COUNT, dead=EVERY)
