"""What shows a run ends nothing by its own mistakes, and has something to show from the first moment on."""

import asyncio
import logging
from typing import Self

import pytest
from figures_kit import APART, at

from topology.cli import run_session
from topology.cli.output.rates import Now, Rates
from topology.runtime.telemetry.bottleneck import Queues
from topology.runtime.telemetry.metrics import Snapshot


class Starting(run_session.InOneProcess):
    """Nothing is built yet."""

    patient = False

    def __init__(self) -> None:
        return None

    @property
    def draining(self) -> bool:
        return False

    def snapshot(self) -> None:
        return None


class Fails:
    every_s = 0.001

    def __init__(self) -> None:
        self.looks = 0
        self.enough = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        return None

    def last(self, snapshot: Snapshot) -> None:
        return None

    def show(self, now: Now) -> None:
        self.looks += 1
        if self.looks == 5:
            self.enough.set()
        raise ZeroDivisionError("a mistake in the view")


def test_a_view_that_raises_is_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def watched() -> None:
        shown = Fails()
        showing = asyncio.ensure_future(run_session._show(Starting(), shown, APART, Queues(APART.tasks)))
        await asyncio.wait_for(shown.enough.wait(), 10)
        assert not showing.done()
        showing.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(watched())
    (said,) = caplog.records
    assert said.getMessage() == "the run continues, but can't be shown"
    assert said.exc_info is not None


class Begun(Starting):
    """Its workers have told that messages come; the run's own look, once a second, has not been yet."""

    def by_worker(self) -> dict[int, Snapshot]:
        return {0: at(0.3, 5), 1: at(0.3)}

    def processes(self) -> dict[int, int]:
        return {0: 4711, 1: 4712}


def test_how_to_kill_a_worker_is_said_as_soon_as_the_first_messages_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(run_session.HINT, "1")
    options = run_session.Options(None, processes=run_session.WorkerProcesses(2, "ipc", lambda config: {}))
    asyncio.run(asyncio.wait_for(run_session._hint(Begun(), options), 10))
    assert capsys.readouterr().err == "try: kill -9 4712   (worker 1), and watch it come back\n"


def test_before_any_worker_has_said_something_every_component_is_there_and_starting() -> None:
    seen = Rates(APART, 4.0).of(Now(APART.starting(), {}))
    assert [one.name for one in seen.components] == [*APART.kinds]
    assert (seen.limit, seen.rate, {*seen.counts.values()}) == ("starting", 0.0, {0})
