"""Workers of a run are killed, stopped, blocked and made to exit: nothing is lost, and what happened is told.

Real processes; what is stored is counted by SQL afterwards.
"""

import asyncio
import contextlib
import signal
import time
from pathlib import Path

import pytest
from supervised_kit import ENDLESS, kill, replaced, running

from topology.errors import StartError, WorkerError
from topology.storage.directory.state_dir import StateDir

# -- when workers die


@pytest.mark.parametrize("worker", [0, 1])
async def test_a_worker_that_is_killed_is_replaced_and_every_row_is_stored_once_f1(tmp_path: Path, worker: int) -> None:
    async with running(tmp_path, count=8_000, rate=4_000) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        kill(one, worker, signal.SIGSTOP)
        await asyncio.sleep(0.1)  # for messages to be in flight
        pid = kill(one, worker)
        await replaced(one, worker, pid)
        report = await ending
    assert one.stored() == list(range(8_000))
    assert (report.ended, report.aborted, report.error, one.run.restarts) == ("ended", 0, None, 1)
    death, back = one.told
    assert death.startswith(f"worker {worker} (pid {pid}) was killed by SIGKILL (it had used ")
    assert ("'numbers' is read again from its last kept position" in death) == (worker == 0)
    if worker == 1:  # the spout lives, so its ledger has failed what was in flight, and says so
        assert report.snapshot.total("replayed") > 0
        assert "in flight ha" in death
        assert "; the first replayed message was done " in back
    total = report.snapshot.total
    assert total("emitted") == total("acked") + total("dead") + total("pending")


async def test_two_workers_that_die_at_once_are_both_replaced(tmp_path: Path) -> None:
    async with running(tmp_path, count=8_000, rate=4_000, workers=3, bolts=3) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        kill(one, 1)
        kill(one, 2)
        report = await ending
    assert one.stored() == list(range(8_000))
    assert (report.ended, report.aborted, one.run.restarts) == ("ended", 0, 2)
    assert report.snapshot.total("replayed") > 0


async def test_a_bolt_that_ends_its_process_costs_a_restart_and_no_row_f6(tmp_path: Path) -> None:
    async with running(tmp_path, count=6_000, evil="exit") as (one, ending):
        report = await ending
    assert one.stored() == list(range(6_000))
    assert (report.ended, report.aborted, one.run.restarts) == ("ended", 0, 1)
    assert "ended with status 13" in one.told[0]


@pytest.mark.slow
async def test_a_death_with_state_says_that_it_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path, count=8_000, rate=4_000, tally=True) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        kill(one, 1)
        await ending
    assert "; its saved state is intact (K530)" in one.told[0]


@pytest.mark.slow
async def test_at_most_once_what_a_dead_worker_had_is_lost_and_the_line_says_so(tmp_path: Path) -> None:
    config = {"guarantee": "at-most-once"}
    async with running(tmp_path, count=8_000, rate=4_000, config=config) as (one, ending):
        await one.until(lambda: len(one.stored()) > 500, "a run under way")
        await replaced(one, 1, kill(one, 1))
        report = await ending
    assert (report.ended, one.run.restarts) == ("ended", 1)
    stored = one.stored()
    assert len(stored) == len(set(stored)) <= 8_000
    assert one.told[0].endswith("; its messages in flight are lost (at-most-once) (K530)")


@pytest.mark.slow
async def test_a_worker_that_is_stopped_is_killed_within_four_seconds_and_replaced_f2(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        since = time.monotonic()
        pid = kill(one, 1, signal.SIGSTOP)
        await one.until(lambda: one.told, "a line about the death")
        assert 2.5 < time.monotonic() - since < 5.0
        assert f"worker 1 (pid {pid}) was killed, as it gave no sign of life for 3." in one.told[0]
        await replaced(one, 1, pid)
        one.run.drain()
        report = await ending
    assert one.stored() == list(range(report.snapshot.total("emitted")))
    assert (report.ended, report.aborted, one.run.restarts) == ("stopped", 0, 1)


@pytest.mark.slow
async def test_a_blocked_loop_is_named_with_its_line_and_its_process_replaced_after_its_own_limit_f8(
    tmp_path: Path,
) -> None:
    config = {"blocked_timeout_s": 6.0}
    async with running(tmp_path, count=6_000, evil="block", config=config) as (one, ending):
        report = await ending
    assert one.stored() == list(range(6_000))
    assert (report.ended, one.run.restarts) == ("ended", 1)
    warning, death, *_ = one.told
    assert "lives, but its loop has been blocked for " in warning
    assert "component 'double'" in warning
    assert "supervised_kit.py" in warning
    assert "was killed, as its loop has been blocked for " in death


@pytest.mark.slow
async def test_a_supervisor_that_stood_still_itself_blames_nobody_f4(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        before = one.run.processes()
        time.sleep(4.5)  # noqa: ASYNC251 – the supervisor's own loop stands still
        await one.until(lambda: one.run.pauses, "the look that came late")
        acked = one.acked()
        await one.until(lambda: one.acked() > acked + 2_000, "messages after the pause")
        assert (one.run.processes(), one.run.restarts) == (before, 0)
        one.run.drain()
        assert (await ending).ended == "stopped"


# -- when it is too often


async def test_a_worker_that_can_never_open_ends_the_run_clearly_f13(tmp_path: Path) -> None:
    async with running(tmp_path, evil="die in open", config={"max_restarts": 3}) as (one, ending):
        with pytest.raises(StartError, match=r"died .*times within a minute.* ended with status 13\n.*K408"):
            await ending
    assert one.run.restarts == 4


async def test_one_death_more_than_allowed_ends_the_run_and_its_report_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS, config={"max_restarts": 0}) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        kill(one, 1)
        report = await ending
    assert report.ended == "failed"
    assert isinstance(report.error, WorkerError)
    assert str(report.error).startswith("worker 1 was killed by SIGKILL")
    assert "max_restarts = 0 allows no restart" in str(report.error)
    assert report.exit_status == 1


@pytest.mark.slow
async def test_replacements_that_can_not_open_are_tried_again_and_then_end_the_run(tmp_path: Path) -> None:
    async with running(tmp_path, **ENDLESS, evil="die in second open", config={"max_restarts": 3}) as (one, ending):
        await one.until(lambda: one.acked() > 1_000, "a run under way")
        kill(one, 1)
        report = await ending
    assert report.ended == "failed"
    assert "worker 1 died 4 times within a minute; the last time it ended with status 13" in str(report.error)
    assert report.aborted == report.snapshot.total("pending")


async def test_a_worker_that_dies_just_before_the_run_is_drained_leaves_it_unknown_whether_all_was_done_b11(
    tmp_path: Path,
) -> None:
    """Its replacement begins as the run drains and reads nothing, and what it had read since it last said something
    nobody has counted."""
    async with running(tmp_path, **{**ENDLESS, "rate": 200}) as (one, ending):
        await one.until(lambda: one.acked() > 100, "a run under way")
        kill(one, 0)
        await one.until(lambda: one.run.restarts == 1, "the death")
        one.run.drain()
        report = await ending
    assert "no replacement read on before the run ended" in str(report.error)
    assert (report.drained, report.exit_status) == (False, 1)
    with contextlib.closing(StateDir(tmp_path / "state", None)) as state:
        assert not state.clean


async def test_a_run_whose_last_positions_were_not_kept_has_not_ended_clean_b11(tmp_path: Path) -> None:
    """F17: the positions that are in its stores say that all was done, and they are those of a while ago."""
    config = {"checkpoint_s": 60.0}  # so that the last one has something to keep
    async with running(tmp_path, count=101, source="late", evil="no room at the end", config=config) as (one, ending):
        report = await ending
    assert report.ended == "ended"
    assert one.stored() == [*range(101)]
    with contextlib.closing(StateDir(tmp_path / "state", None)) as state:
        assert not state.clean


async def test_a_run_after_a_kill_that_is_drained_before_it_has_read_on_has_not_ended_clean_b11(tmp_path: Path) -> None:
    """What the one that was killed had read since its last commit is in no mark."""
    async with running(tmp_path, count=1_001) as (_, ending):
        assert (await ending).clean
    with contextlib.closing(StateDir(tmp_path / "state", None)) as state:
        state.set_begun(state.shape or "")  # as a run that was killed before its first commit leaves it
    async with running(tmp_path, **{**ENDLESS, "rate": 200}) as (one, ending):
        await one.until(lambda: one.run.snapshot() is not None, "a run under way")
        one.run.drain()
        report = await ending
    assert (report.drained, report.clean) == (True, False)
