"""A run on real processes as a whole: what keeps it from beginning, how it ends, and that nothing of it is left.

What is stored is counted by SQL afterwards.
"""

import asyncio
import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from supervised_kit import ENDLESS, LOADER, Running, children, kill, made, replaced, running, stuck

from topology.errors import ConfigurationError, StartError
from topology.runtime.supervisor.fleet import Fleet
from topology.runtime.supervisor.supervisor import SupervisedRun


@pytest.fixture(autouse=True)
def own_runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where run directories are made, so that what is left can be seen."""
    place = tmp_path / "r"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    return place


def files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def told_to_everybody(pid: int) -> bytes:
    """What all processes of a user can read of one of them."""
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


# -- what can't begin


@pytest.mark.parametrize(
    ("evil", "error", "text"),
    [
        ("raise in open", StartError, "'double' could not be opened: OSError: no such device"),
        ("refuse in open", ConfigurationError, "there is no such device; name another one"),
    ],
)
async def test_what_keeps_a_component_from_opening_is_raised_as_it_would_be_in_one_process(
    tmp_path: Path, evil: str, error: type[Exception], text: str
) -> None:
    async with running(tmp_path, evil=evil) as (one, ending):
        with pytest.raises(error, match=text):
            await ending
    assert one.run.restarts <= 2, "nobody tries again what a person has to mend"


async def test_a_loader_that_makes_another_topology_each_time_is_refused_f37(tmp_path: Path) -> None:
    async with running(tmp_path, evil="change") as (_, ending):
        with pytest.raises(StartError, match="has built another topology than this process: its file has changed"):
            await ending


async def test_a_loader_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"directory": str(tmp_path)}
    run = SupervisedRun(made(**arguments), workers=2, loader="supervised_kit:no_such", arguments=arguments)
    with pytest.raises(StartError, match=r"the topology could not be made: AttributeError: .*no_such"):
        await run.finish()


async def test_a_second_run_on_the_same_state_directory_is_refused_and_disturbs_nothing_f24(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS) as (one, ending):
        await one.until(lambda: one.acked() > 500, "a run under way")
        with pytest.raises(StartError, match="is in use by another run"):
            await Running(tmp_path, count=6_000).run.finish()
        acked = one.acked()
        await one.until(lambda: one.acked() > acked, "messages afterwards")
        one.run.drain()
        report = await ending
    assert one.stored() == list(range(report.snapshot.total("emitted")))
    assert (report.ended, report.aborted, one.run.restarts) == ("stopped", 0, 0)


# -- the end


async def test_a_bounded_run_ends_by_itself_with_exact_counts_and_leaves_no_file(
    tmp_path: Path, own_runtime_directory: Path
) -> None:
    async with running(tmp_path, count=3_000) as (one, ending):
        await one.until(lambda: files(own_runtime_directory), "the run directory")
        report = await ending
    assert files(own_runtime_directory) == []
    assert one.stored() == list(range(3_000))
    snapshot = report.snapshot
    assert (report.ended, report.aborted, report.exit_status, snapshot.workers) == ("ended", 0, 0, 2)
    spout, double, store = snapshot.spouts["numbers"], snapshot.bolts["double"], snapshot.bolts["store"]
    assert (spout.emitted, spout.acked, spout.failed, spout.pending) == (3_000, 3_000, 0, 0)
    assert (double.executed, double.emitted, store.executed) == (3_000, 3_000, 3_000)
    by_worker = one.run.by_worker()
    assert sum(of.bolts["double"].executed for of in by_worker.values()) == 3_000
    assert all(of.bolts["double"].executed > 500 for of in by_worker.values()), "both workers have worked"
    assert report.summaries["store"][0] == "3,000 stored, 0 known already"
    assert one.run.processes() == {}


async def test_a_run_that_is_drained_finishes_what_is_under_way(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        one.run.drain()
        report = await ending
    assert (report.ended, report.aborted, report.exit_status) == ("stopped", 0, 0)
    assert one.stored() == list(range(report.snapshot.total("emitted")))


async def test_a_worker_that_dies_while_the_run_drains_is_replaced_and_what_is_lost_is_counted(tmp_path: Path) -> None:
    config = {"drain_timeout_s": 15.0}
    async with running(tmp_path, **ENDLESS, config=config) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        pid = kill(one, 1, signal.SIGSTOP)  # so that the drain can't be over before the death
        one.run.drain()
        await asyncio.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
        report = await ending
    assert (report.ended, report.aborted, one.run.restarts) == ("stopped", 0, 1)
    assert one.stored() == list(range(report.snapshot.total("emitted")))


@pytest.mark.slow
async def test_a_run_that_is_cancelled_drains_and_one_that_is_cancelled_twice_ends_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        await stuck(one)
        ending.cancel()
        await asyncio.sleep(0.2)
        assert not ending.done()
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        snapshot = one.run.snapshot()
    assert snapshot is not None
    assert snapshot.total("pending") > 0


def test_a_loop_that_ends_takes_the_workers_with_it(tmp_path: Path, own_runtime_directory: Path) -> None:
    """As `asyncio.run` does for whatever is left."""

    async def main() -> None:
        one = Running(tmp_path, **ENDLESS)
        finishing = asyncio.ensure_future(one.run.finish())
        await one.until(lambda: one.acked() > 100, "a run under way")
        assert not finishing.done()

    since = time.monotonic()
    asyncio.run(main())
    assert children() == []
    assert files(own_runtime_directory) == []
    assert time.monotonic() - since < 10.0


async def test_a_run_that_is_told_to_end_while_it_starts_starts_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS) as (one, ending):
        await one.until(one.run.processes, "a process")
        one.run.drain()
        report = await ending
    assert (report.ended, report.aborted, report.snapshot.total("emitted"), one.stored()) == ("stopped", 0, 0, [])


async def test_a_source_that_raises_ends_the_run_once_the_rest_is_done(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS, source="raise") as (one, ending):
        report = await ending
    assert (report.ended, report.aborted, report.exit_status) == ("failed", 0, 1)
    assert "the source is dry" in str(report.error)
    assert one.stored() == list(range(report.snapshot.total("emitted")))


@pytest.mark.slow
@pytest.mark.parametrize("part", ["look", "drain"])
async def test_a_part_of_the_supervisor_that_dies_in_a_drain_ends_it_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    look = Fleet.look

    def dying_look(fleet: Fleet) -> None:
        if fleet.draining:
            raise RuntimeError("a bug")
        look(fleet)

    async def dying_drain(crew: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("topology.runtime.supervisor.supervisor.CLOSING_S", 1.0)
    async with running(tmp_path, **ENDLESS, config={"drain_timeout_s": 20.0}) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        if part == "look":
            monkeypatch.setattr(Fleet, "look", dying_look)
        else:
            monkeypatch.setattr("topology.runtime.run.lifecycle.drain", dying_drain)
        kill(one, 1, signal.SIGSTOP)  # so that the drain can't be over before
        one.run.drain()
        report = await asyncio.wait_for(ending, 10.0)
    assert (report.ended, str(report.error)) == ("failed", "a bug")
    assert "the supervisor could not go on" in caplog.text


async def test_a_worker_that_does_not_close_is_killed_and_what_it_had_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.runtime.supervisor.supervisor.CLOSING_S", 1.0)
    async with running(tmp_path, **ENDLESS) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        await stuck(one)
        kill(one, 0, signal.SIGSTOP)
        one.run.abort()
        report = await ending
    assert report.ended == "aborted"
    assert report.aborted == report.snapshot.total("pending") > 0
    assert sum("was killed, as it did not close, while the run ended" in line for line in one.told) == 2


# -- what workers share


async def test_all_workers_hash_alike_in_each_run_on_one_state_directory_b5(tmp_path: Path) -> None:
    seen = set()
    for _ in range(2):
        async with running(tmp_path, count=10) as (one, ending):
            await ending
        hashes = {line.split("hash ")[1] for _, name, line in one.lines if name == "stdout" and "hash " in line}
        assert sum("is open" in line for _, _, line in one.lines) == 2
        seen |= hashes
    assert len(seen) == 1
    assert seen != {str(hash("kedge"))}


async def test_notes_are_kept_by_the_supervisor_and_read_by_replacements_and_later_runs(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS, source="note") as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        await replaced(one, 0, kill(one, 0))
        one.run.drain()
        await ending
    async with running(tmp_path, count=10, source="note") as (other, ending):
        await ending
    assert [line for _, _, line in [*one.lines, *other.lines] if "notes" in line] == [
        "notes: +",
        "notes: ++",
        "notes: +++",
    ]


async def test_only_workers_that_have_tasks_are_started(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kedge"):
        async with running(tmp_path, count=100, workers=5, bolts=2) as (one, ending):
            await one.until(lambda: len(one.run.processes()) == 2, "two processes")
            report = await ending
    assert (report.ended, report.snapshot.workers) == ("ended", 2)
    assert "2 of 5 workers have tasks" in caplog.text


async def test_a_plan_for_one_worker_needs_no_links(tmp_path: Path) -> None:
    async with running(tmp_path, count=2_000, workers=1, state=False) as (one, ending):
        await one.until(one.run.processes, "a process")
        report = await ending
    assert (report.ended, report.snapshot.workers, one.stored()) == ("ended", 1, list(range(2_000)))


async def test_no_key_is_in_a_command_line_or_an_environment_s15(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS) as (one, ending):
        await one.until(lambda: one.acked() > 100, "a run under way")
        key = (tmp_path / "state" / "state.json").read_text().split('"key": "')[1][:32]
        for pid in one.run.processes().values():
            seen = told_to_everybody(pid)
            assert key.encode() not in seen
            assert LOADER.encode() not in seen
        one.run.drain()
        await ending
