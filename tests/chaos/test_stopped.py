"""Processes that stand still: stopped, blocked, suspended as a whole, or asleep beside everybody else.

Paced sources, so that the fault hits a run under way however fast the machine is: 6,400 records, or all that are read
until a signal ends the run.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from chaos_kit import ENDLESS, exactly, running, wait_for
from proc_kit import state_of

RATE = 4_000
PACED: dict[str, Any] = {"count": 6_400, "rate": RATE}


@pytest.mark.slow
def test_a_worker_that_is_stopped_is_killed_as_silent_and_replaced_f2_a15(folder: Path) -> None:
    """There is no zombie to be woken: it is killed and reaped before its replacement starts. 6,400 records."""
    with running(folder, **PACED, layout="apart") as run:
        run.until_done(1_000)
        pid = run.with_sink()
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: state_of(pid) == "T", "its stop")
        since = time.monotonic()
        run.until_said(rf"worker \d \(pid {pid}\) was killed, as it gave no sign of life for 3\.", within_s=8)
        assert 2.0 < time.monotonic() - since < 6.0
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        outcome = run.ended().well()
    exactly(folder, PACED["count"])
    assert outcome.figures["restarts"] == 1
    assert outcome.total("replayed") > 0


def test_a_worker_that_is_stopped_for_a_second_is_left_alone_f2(folder: Path) -> None:
    with running(folder, count=ENDLESS, rate=RATE, layout="apart") as run:
        run.until_done(1_000)
        before = sorted(run.workers())
        pid = run.with_sink()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.0)
        assert run.pending() > 0, "nothing waited for it"
        os.kill(pid, signal.SIGCONT)
        run.until_done(2_000)
        assert sorted(run.workers()) == before
        outcome = run.drained()
    assert (outcome.figures["restarts"], outcome.total("failed")) == (0, 0)


@pytest.mark.slow
def test_a_supervisor_that_is_stopped_blames_nobody_and_holds_up_nothing_f4(folder: Path) -> None:
    """For 4.5 s: half as much again as the silence that workers are killed for; 30 s would differ in length alone."""
    with running(folder, count=ENDLESS, rate=RATE) as run:
        run.until_done(1_000)
        before = sorted(run.workers())
        os.kill(run.process.pid, signal.SIGSTOP)
        done = run.done()
        time.sleep(4.5)
        assert run.done() > done + 2 * RATE, "the workers went on meanwhile"
        os.kill(run.process.pid, signal.SIGCONT)
        run.until_done(2_000)
        assert sorted(run.workers()) == before
        outcome = run.drained()
    assert (outcome.figures["restarts"], outcome.total("failed")) == (0, 0)


@pytest.mark.slow
def test_everything_can_be_suspended_for_a_while_without_a_timeout_f5(folder: Path) -> None:
    """For five seconds, five times the timeout of a tree and more than the silence that workers are killed for."""
    with running(folder, count=ENDLESS, rate=RATE, layout="apart", config={"tree_timeout_s": 1.0}) as run:
        run.until_done(1_000)
        before = sorted(run.workers())

        def stopped_in_flight() -> bool:
            run.signal_all(signal.SIGSTOP)
            wait_for(lambda: {state_of(pid) for pid in (*before, run.process.pid)} == {"T"}, "their stop")
            if run.pending() > 0:
                return True
            run.signal_all(signal.SIGCONT)
            return False

        wait_for(stopped_in_flight, "messages in flight")
        time.sleep(5.0)
        run.signal_all(signal.SIGCONT)
        run.until_done(1_000)
        assert sorted(run.workers()) == before
        outcome = run.drained()
    assert (outcome.figures["restarts"], outcome.total("failed")) == (0, 0)


# -- blocked loops


@pytest.mark.slow
def test_a_bolt_that_blocks_its_loop_is_named_with_its_line_and_left_alone_f8(folder: Path) -> None:
    """For twice as long as it takes to be told: a supervisor that stood still for a second itself begins to count anew
    (F4), and a busy machine does that to it."""
    with running(folder, **PACED, trouble="sleep", at=3_199, seconds=10.0) as run:
        outcome = run.ended().well()
    exactly(folder, PACED["count"])
    assert outcome.figures["restarts"] == 0
    (line,) = [line for line in outcome.said.splitlines() if "lives, but its loop has been blocked" in line]
    assert "component 'split'" in line
    assert f"{place_of('TROUBLES[self.trouble](self.seconds)')} in misbehave" in line


@pytest.mark.slow
def test_a_bolt_that_blocks_its_loop_for_longer_than_allowed_is_replaced_f8(folder: Path) -> None:
    with running(folder, **PACED, trouble="sleep", at=3_199, seconds=60.0, config={"blocked_timeout_s": 2.0}) as run:
        outcome = run.ended().well()
    exactly(folder, PACED["count"])
    assert outcome.figures["restarts"] == 1
    assert "was killed, as its loop has been blocked for " in outcome.said
    assert outcome.total("replayed") > 0 or run.read() > PACED["count"], "the record that blocks it was in flight"


def place_of(text: str) -> str:
    """File and line of the topology that have this text."""
    path = Path(__file__).with_name("numbered.py")
    (line,) = [n for n, one in enumerate(path.read_text().splitlines(), 1) if text in one]
    return f"{path.name}:{line}"
