"""How a round of a JVM-only mode ends, with a driver of ours in the place of Spark's: no Java is needed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.compare.job import ComparisonRow
from bridge.compare.jvm import round
from bridge.compare.jvm.round import JvmTask, Round
from bridge.compare.processes import Interrupts, environment, new_mark
from bridge.compare.results import ModeResult
from bridge.compare.workload.feeder import RELEASED
from bridge.compare.workload.script import Script, ScriptSource, ScriptWriter
from spouts import Line

WARM = 10
MEASURED = 100
RATE = 200.0
DRIVER = """
import sys, time
from pathlib import Path
from struct import pack, unpack

released, arrivals, warm, last, pause_s = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
number = 0
with open(Path(arrivals, "arrivals-1"), "wb", buffering=0) as file:
    while True:
        offered, _ = unpack("QQ", Path(released).read_bytes())
        if number >= min(offered, last):
            time.sleep(0.005)
            continue
        file.write(pack("<qq", number, time.monotonic_ns()))
        number += 1
        if number > warm:
            time.sleep(pause_s)
"""


class Slow(Round):
    """Its driver gives the results of measured messages with a pause after each, and none from `last` on."""

    last = WARM + MEASURED
    pause_s = 0.0

    def _start(self) -> "subprocess.Popen[bytes]":
        told = (self.task.folder / RELEASED, self.arrived.folder, WARM, self.last, self.pause_s)
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *map(str, told)],
            env=environment(self.mark),
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        return self.process


@pytest.fixture
def ended(tmp_path: Path) -> Callable[..., ModeResult]:
    """What a whole round with this driver comes to."""

    def ended(last: int = WARM + MEASURED, pause_s: float = 0.0) -> ModeResult:
        folder, texts = tmp_path / "run", tmp_path / "script"
        folder.mkdir()
        texts.mkdir()
        writer = ScriptWriter(texts)
        writer.add(0, 0, Line("a line"))
        writer.close()
        script = Script(
            texts, "lines", (ScriptSource("lines", "lines", (Line,)),), 1, WARM + MEASURED, WARM, RATE, RATE
        )
        task = JvmTask(ComparisonRow("spark:continuous", "slow", "at least once"), script, folder, "", {}, kill=False)
        one = Slow(task, lambda *_: None, new_mark(), Interrupts())
        one.last, one.pause_s = last, pause_s
        return one.measured()

    return ended


def test_a_round_that_reaches_its_limit_while_results_come_says_so_beside_what_was_measured(
    ended: Callable[..., ModeResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round, "DONE_S", 1.0)
    result = ended(pause_s=0.05)
    assert result.problem.startswith("it did not keep up: 1"), result.problem
    late, _, left = result.problem.partition(" s after the last message was due, ")
    assert float(late.rpartition(" ")[2]) < 2
    assert left.endswith(" of 110 results were missing")
    assert 0 < result.arrived < MEASURED
    assert int(left.split()[0]) >= MEASURED - result.arrived
    assert max(result.latencies) > 500
    assert result.missing == 0  # nobody knows what would have come


def test_what_is_missing_once_no_more_comes_is_missing_and_not_late(
    ended: Callable[..., ModeResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round, "QUIET_S", 0.5)
    result = ended(last=WARM + MEASURED - 7)
    assert result.problem == ""
    assert result.missing == 7


def test_a_round_whose_results_are_all_there_has_no_problem(ended: Callable[..., ModeResult]) -> None:
    result = ended()
    assert (result.problem, result.missing, result.arrived) == ("", 0, MEASURED)
