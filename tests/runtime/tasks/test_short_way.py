"""The runtime's short way, for one stream with one reader, does just what its general way does (A6, B1).

The test kit's outbox takes the general way always, to check each record, so these runs are on asyncio's own loop.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from runtime_kit import Number, Pair, Poisoned, Same, line, numbers

from topology import Bolt, Config, Topology, Tuple
from topology.testing import ScriptedSpout, run_topology


class Fan(Bolt):
    """n outputs for the number n, as a generator."""

    def process(self, number: Number) -> Iterator[Number]:
        for k in range(number.n):
            yield Number(10 * number.n + k)


class ListFan(Bolt):
    def process(self, number: Number) -> list[Number]:
        return [Number(10 * number.n + k) for k in range(number.n)]


class AsyncFan(Bolt):
    async def process(self, number: Number) -> AsyncIterator[Number]:
        for k in range(number.n):
            yield Number(10 * number.n + k)


class Executes(Bolt):
    def execute(self, tup: Tuple[Number], out: Any) -> None:
        for k in range(tup.record.n):
            out.emit(Number(10 * tup.record.n + k))
        out.ack(tup)


Way = Callable[[Topology], Any]
WAYS: dict[str, Way] = {"short": lambda topology: topology.run(), "general": run_topology}


@pytest.mark.parametrize("bolt", [Same(), Fan(), ListFan(), AsyncFan()], ids=lambda bolt: type(bolt).__name__)
def test_identities_are_the_same_by_both_ways_B1(bolt: Bolt) -> None:
    found = {}
    for name, run in WAYS.items():
        spout = ScriptedSpout(numbers(7))
        topology, captured = line(spout, bolt, Same())
        report = run(topology)
        assert sorted(spout.acked) == list(range(7))
        assert (report.exit_status, report.snapshot.spouts["numbers"].failed) == (0, 0)
        found[name] = captured.distinct
    assert found["short"] == found["general"]
    assert len(found["short"]) == (7 if isinstance(bolt, Same) else 21)


@pytest.mark.parametrize("run", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("good", [1, 2, 5])
def test_nothing_leaves_where_the_last_output_can_not_A6(run: Way, good: int) -> None:
    class Undeclared(Bolt):
        def process(self, number: Number) -> list[Number]:
            return [*numbers(good), Pair(1, 1)]  # type: ignore[list-item]

    topology, captured = line(ScriptedSpout(numbers(2)), Undeclared(), config=Config(max_replays=0))
    report = run(topology)
    assert captured.records == []
    assert report.snapshot.spouts["numbers"].dead == 2


@pytest.mark.parametrize("run", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("outputs", [1, 2, 5])
def test_nothing_leaves_where_process_raises_after_its_last_output_A6(run: Way, outputs: int) -> None:
    class Raises(Bolt):
        def process(self, number: Number) -> Iterator[Number]:
            yield from numbers(outputs)
            raise ValueError("after all of them")

    topology, captured = line(ScriptedSpout(numbers(2)), Raises(), config=Config(max_replays=0))
    report = run(topology)
    assert captured.records == []
    assert report.snapshot.spouts["numbers"].dead == 2


@pytest.mark.parametrize("run", WAYS.values(), ids=WAYS)
def test_one_input_of_a_slice_that_fails_leaves_the_others_alone(run: Way) -> None:
    spout = ScriptedSpout(numbers(9))
    topology, captured = line(spout, Poisoned(4, ValueError), config=Config(max_replays=0))
    report = run(topology)
    assert [one.n for one in captured.records] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert sorted(spout.acked) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert (spout.failed, report.exit_status) == ([4], 1)
