"""Ctrl-C, twice; and a loop that can't take note of it."""

import re
import signal
import time
from pathlib import Path

import pytest
from cli_kit import started, wait_for


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_signal_drains_the_run_and_says_so(folder: Path, number: signal.Signals) -> None:
    with started("run", "endless.py", "--set", "seconds=0.05", cwd=folder) as run:
        run.until_said("records/s")
        run.process.send_signal(number)
        assert run.ended() == 0, run.said()
    assert f"{number.name}: draining; once more ends it now" in run.said()
    assert "endless was stopped and has drained" in (folder / "stdout.txt").read_text()
    assert "Traceback" not in run.said()


def test_a_second_signal_ends_the_run_now_and_says_what_was_in_flight(folder: Path) -> None:
    with started("run", "endless.py", "--set", "seconds=600", cwd=folder) as run:
        run.until_said("records/s")
        run.process.send_signal(signal.SIGINT)
        run.until_said("draining")
        run.process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert run.ended() == 1, run.said()
        assert time.monotonic() - begun < 10
    assert "SIGINT again: ending now" in run.said()
    assert "messages are pending; 'hold' has the oldest, for " in run.said()
    summary = (folder / "stdout.txt").read_text()
    assert "endless was ended by force" in summary
    assert "not done at the end" in summary


@pytest.mark.slow
def test_a_loop_that_a_bolt_blocks_is_named_the_first_signal_is_answered_and_the_second_ends_it_f69(
    folder: Path,
) -> None:
    blocks = (folder / "endless.py").read_text().replace("time.sleep(", "open('blocked', 'w').close(), time.sleep(")
    (folder / "endless.py").write_text(blocks)
    line = next(n for n, text in enumerate(blocks.splitlines(), 1) if "time.sleep" in text)
    place = f", in component 'hold', endless.py:{line} in process"
    with started("run", "endless.py", "--set", "seconds=600", "--set", "block=true", cwd=folder) as run:
        wait_for((folder / "blocked").exists, "a blocked loop")
        run.until_said(f"s{place}: nothing else runs meanwhile (K566)")
        assert re.search(r"the event loop has been blocked for [5-9] s, in", run.said()), run.said()
        run.process.send_signal(signal.SIGINT)
        run.until_said(
            f"the event loop is blocked{place}: the run drains once that returns; once more ends the process"
        )
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 1, run.said()
    assert f"ended now; the event loop was blocked{place}" in run.said()


def test_a_signal_that_a_blocked_loop_could_not_take_drains_the_run_once_it_is_free_f69(folder: Path) -> None:
    blocks = (folder / "endless.py").read_text().replace("time.sleep(", "open('blocked', 'w').close(), time.sleep(")
    (folder / "endless.py").write_text(blocks)
    with started("run", "endless.py", "--set", "seconds=3", "--set", "block=true", cwd=folder) as run:
        wait_for((folder / "blocked").exists, "a blocked loop")
        run.process.send_signal(signal.SIGTERM)
        run.until_said("the event loop is blocked, in component 'hold'")
        assert "SIGTERM: draining" not in run.said()
        run.until_said("SIGTERM: draining; once more ends it now")


OPENING = """
import asyncio
from spouts import Tick, Ticker
from topology import Bolt, Task, Topology


class Opens(Bolt):
    async def open(self, task: Task) -> None:
        print("opening", flush=True)
        await asyncio.sleep(600)

    def process(self, tick: Tick) -> None:
        return None


def topology() -> Topology:
    topology = Topology("opening")
    topology.bolt("opens", Opens(), topology.spout("ticks", Ticker(0.01)).shuffle())
    return topology
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_bolt_opens_ends_the_run_before_anything_was_read_F10(
    folder: Path, number: signal.Signals
) -> None:
    (folder / "opening.py").write_text(OPENING)
    with started("run", "opening.py", cwd=folder) as run:
        wait_for(lambda: "opening" in (folder / "stdout.txt").read_text(), "the bolt's `open`")
        run.process.send_signal(number)
        assert run.ended() == 0, run.said()
    summary = (folder / "stdout.txt").read_text()
    assert "opening was stopped" in summary
    assert re.search(r"ticks +0 +0 +0 +0 +0 ", summary), summary
    assert "Traceback" not in run.said()


def test_a_signal_before_anything_runs_ends_in_one_sentence(folder: Path) -> None:
    (folder / "slow.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(600)\n")
    with started("run", "slow.py", cwd=folder) as run:
        wait_for(lambda: "importing" in (folder / "stdout.txt").read_text(), "the import")
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 1
    assert run.said().splitlines()[-1] == "kedge: interrupted before anything ran"
    assert "Traceback" not in run.said()
