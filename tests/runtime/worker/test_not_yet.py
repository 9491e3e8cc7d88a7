"""A component that says in `open` that what it needs is not there yet is waited for, up to `start_timeout_s`. F73."""

import asyncio
import itertools
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from runtime_kit import Number, Same, numbers

from topology import Config, ConfigurationError, NotYet, StartError, Task, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, ScriptedSpout, run_topology, run_virtual


class Late(Same):
    """A bolt whose server comes so many virtual seconds after it was asked for first."""

    def __init__(self, late_s: float, error: Callable[[], Exception] = lambda: NotYet("no server")) -> None:
        self.late_s, self.error = late_s, error
        self.asked: list[float] = []

    def open(self, task: Task) -> None:
        self.asked.append(task.clock.monotonic())
        if self.asked[-1] - self.asked[0] < self.late_s:
            raise self.error()


class LateLater(Late):
    async def open(self, task: Task) -> None:  # type: ignore[override]
        await asyncio.sleep(0.01)
        super().open(task)


class LateSpout(ScriptedSpout[Number]):
    def __init__(self, late_s: float, count: int) -> None:
        super().__init__(numbers(count))
        self.late = Late(late_s)

    def open(self, task: Task, positions: Any) -> Any:
        self.late.open(task)
        return super().open(task, positions)


def made(bolt: Any, *, spout: Any = None, **config: Any) -> tuple[Topology, Captured[Number]]:
    topology, captured = Topology("late", Config(**config)), Captured[Number]()
    source = topology.spout("numbers", spout or ScriptedSpout(numbers(3)))
    late = topology.bolt("late", bolt, source.shuffle(), tasks=2)
    topology.bolt("seen", captured, late.shuffle())
    return topology, captured


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", [Late, LateLater])
def test_a_bolt_that_is_not_there_for_some_seconds_is_waited_for_F73(workers: int, kind: type[Late]) -> None:
    topology, captured = made(kind(25))
    report = run_topology(topology, workers=workers)
    assert report.exit_status == 0
    assert sorted(one.n for one in captured.records) == [0, 1, 2]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_spout_that_is_not_there_for_some_seconds_is_waited_for_F73(workers: int) -> None:
    topology, captured = made(Same(), spout=LateSpout(25, 3))
    assert run_topology(topology, workers=workers).exit_status == 0
    assert sorted(one.n for one in captured.records) == [0, 1, 2]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", [Late, LateLater])
def test_what_does_not_come_within_the_limit_ends_the_start_F73(workers: int, kind: type[Late]) -> None:
    topology, captured = made(kind(1e9), start_timeout_s=7.5)
    with pytest.raises(StartError) as caught:
        run_topology(topology, workers=workers)
    assert str(caught.value) == "'late' could not be opened within start_timeout_s = 7.5 s: no server"
    assert str(caught.value.code) == "K478"
    assert not isinstance(caught.value, NotYet)
    assert captured.records == []


def test_what_comes_at_the_limit_is_not_missed_and_it_is_asked_for_each_second_F73() -> None:
    class Kept(Late):
        def __deepcopy__(self, memo: Any) -> "Kept":
            return self

    bolt = Kept(7.5)
    topology = Topology("late", Config(start_timeout_s=7.5))
    topology.bolt("late", bolt, topology.spout("numbers", ScriptedSpout(numbers(1))).shuffle())
    assert run_topology(topology).exit_status == 0
    gaps = [after - before for before, after in itertools.pairwise(bolt.asked)]
    assert gaps[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert max(gaps) <= 1.0 + 1e-9
    assert bolt.asked[-1] - bolt.asked[0] == pytest.approx(7.5)


def test_a_mistake_is_not_waited_for_not_even_while_waiting_F73() -> None:
    kinds: list[Exception] = [NotYet("no server"), NotYet("no server"), ConfigurationError("wrong password")]
    topology, _ = made(Late(1e9, lambda: kinds.pop(0)))
    with pytest.raises(ConfigurationError, match="wrong password"):
        run_topology(topology)


def test_a_line_says_at_once_and_each_ten_seconds_what_is_waited_for_and_for_how_much_longer_F73(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kedge")
    topology = Topology("late", Config(start_timeout_s=30))
    topology.bolt("late", Late(25), topology.spout("numbers", ScriptedSpout(numbers(1))).shuffle())
    run_topology(topology)
    said = [one.getMessage() for one in caplog.records if one.name == "kedge" and "'late'" in one.getMessage()]
    said = [one for one in said if "has been opening" not in one]
    assert len(said) == 4, said
    for line, left in zip(said[:3], (30, 20, 10), strict=True):
        match = re.fullmatch(
            r"'late' waits, as what it needs is not there yet, for (\d+) s more at most: no server \(K478\)", line
        )
        assert match is not None
        assert left - 1 <= int(match[1]) <= left
    assert re.fullmatch(r"'late' is open, after 2[56] s", said[3])


def test_a_run_that_is_told_to_end_while_it_waits_ends_at_once_F73() -> None:
    topology, captured = made(Late(1e9), start_timeout_s=600)

    async def ended() -> tuple[bool, float]:
        run = EmbeddedRun(topology)
        loop = asyncio.get_running_loop()
        loop.call_later(20, run.drain)
        begun = loop.time()
        report = await run.finish()
        return report.ended == "stopped", loop.time() - begun

    stopped, after_s = run_virtual(ended())
    assert stopped
    assert after_s < 21
    assert captured.records == []
