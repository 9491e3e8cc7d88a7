"""What is said of sources that give nothing while a companion of the run is still starting."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from companion_kit import Beside, through

from topology.runtime.telemetry.metrics import Snapshot
from topology.runtime.telemetry.stall import SILENT_S, RunFacts, SpoutFacts, StallWatch, limit

IDLE = RunFacts(SILENT_S, [SpoutFacts("results", idle_s=SILENT_S)], [])


def text(*starting: str) -> str:
    found = limit(RunFacts(SILENT_S, IDLE.spouts, [], starting=starting))
    assert found is not None
    assert not found.stuck
    return found.text


def test_a_source_is_not_called_idle_while_a_companion_starts() -> None:
    assert text() == "source idle: no message from 'results' for 5 s"
    assert text("spark") == "no message from 'results' for 5 s, and 'spark' is still starting"
    assert text("spark", "cache") == "no message from 'results' for 5 s, and 'spark' and 'cache' are still starting"


def test_that_the_companion_is_ready_begins_the_silence_anew(caplog: pytest.LogCaptureFixture) -> None:
    watch, snapshot = StallWatch(), Snapshot("t", 0.0, 1, {}, {})
    said: list[str] = []
    with caplog.at_level(logging.INFO, logger="kedge"):
        for second in range(20):
            watch.look(float(second), snapshot, lambda: IDLE, ["spark"] if second < 10 else [])
            said.append(watch.text)
    assert said[8] == "no message from 'results' for 0 s, and 'spark' is still starting"
    assert said[10:15] == [""] * 5
    assert said[16].startswith("source idle: ")
    assert len(caplog.records) == 2, "each is said once"


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("what", "starts"), [("silent", True), ("ready", False), ("done", False)])
def test_a_companion_is_starting_until_it_is_ready_or_done(
    tmp_path: Path, workers: int, what: str, starts: bool
) -> None:
    beside = Beside(tmp_path, what, workers=workers)

    async def main() -> None:
        async def during() -> None:
            companions: Any = beside.run
            await beside.until(lambda: hasattr(companions, "_companions") and beside.lives(), "its beginning")
            if what != "silent":
                await beside.until(lambda: not companions._companions.starting(), "that it is ready")
            assert companions._companions.starting() == (["helper"] if starts else [])

        report = await through(beside, during)
        assert report.exit_status == 0

    asyncio.run(main())
