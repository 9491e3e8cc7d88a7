"""`Bolt.remembers`: a bolt that knows its inputs itself learns from `task.frontier` what it may forget, and is not
given what is stale then (D4, D5, P4)."""

import asyncio
from typing import Any, Never

import pytest
from runtime_kit import Number, numbers

from acker.frontier import Decided
from acker.roots import message_of
from topology import Bolt, Collector, Config, Task, Topology, Tuple
from topology.testing import Crash, Pause, ScriptedSpout, Wait, run_topology


class Knows(Bolt):
    """Knows its inputs until they are over; counts them."""

    remembers = True

    def __init__(self, notes: dict[str, Any]) -> None:
        self.notes = notes

    def __deepcopy__(self, memo: Any) -> "Knows":
        return Knows(self.notes)

    def open(self, task: Task) -> None:
        self.frontier = task.frontier
        self.known: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}

    def execute(self, tup: Tuple[Number], out: Collector[Never]) -> None:
        messages = tuple(message_of(root) for root in tup.roots) or (0,)
        self.known[tup.origin, tup.identity] = messages, self.frontier.gathered
        self.notes["most"] = max(self.notes.get("most", 0), len(self.known))
        self.notes["taken"] = [*self.notes.get("taken", []), tup.record.n]
        out.ack(tup)

    def tick(self, now: Any) -> None:
        may_forget = self.frontier.may_forget
        over = [pair for pair, (messages, at) in self.known.items() if may_forget(messages, pair[0], at)]
        for one in over:
            del self.known[one]
        self.notes["left"] = len(self.known)


def known(spout: Any, notes: dict[str, Any], *, tasks: int = 1, config: Config | None = None) -> Topology:
    topology = Topology("known", config)
    topology.bolt("knows", Knows(notes), topology.spout("numbers", spout).shuffle(), tasks=tasks, every="100ms")
    return topology


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_it_forgets_what_is_over_and_takes_all_D4(workers: int, guarantee: Any) -> None:
    notes: dict[str, Any] = {}
    spout = ScriptedSpout[Number]([*numbers(50), Wait()])
    topology = known(spout, notes, tasks=workers, config=Config(guarantee=guarantee))
    assert run_topology(topology, workers=workers, until_s=10).exit_status == 0
    assert sorted(notes["taken"]) == [*range(50)]
    assert notes["most"] > 0
    assert notes["left"] == 0


def test_it_keeps_what_is_not_done() -> None:
    notes: dict[str, Any] = {}

    class Slow(Bolt):
        def execute(self, tup: Tuple[Number], out: Collector[Never]) -> None:
            """Never done."""

    topology = Topology("known")
    read = topology.spout("numbers", ScriptedSpout[Number]([*numbers(20), Wait()]))
    topology.bolt("knows", Knows(notes), read.shuffle(), every="100ms")
    topology.bolt("slow", Slow(), read.shuffle())
    run_topology(topology, until_s=10)
    assert notes["left"] == 20


def test_what_is_stale_is_refused_D5() -> None:
    """A first attempt that was held up until its message was done, and forgotten."""
    notes: dict[str, Any] = {}
    attempts: list[str] = []

    class HeldUp(Bolt):
        async def process(self, number: Number) -> list[Number]:
            attempts.append("held up")
            if len(attempts) <= 2:
                await asyncio.sleep(20)
                attempts.append("late")
            return [number]

    class FailsOnce(Bolt):
        def process(self, number: Number) -> None:
            attempts.append("beside")
            if attempts.count("beside") == 1:
                raise ValueError("once")

    topology = Topology("stale", Config(process_timeout_s=100))
    read = topology.spout("numbers", ScriptedSpout[Number]([Number(7), Wait()]))
    topology.bolt("beside", FailsOnce(), read.shuffle())
    late = topology.bolt("held-up", HeldUp(), read.shuffle(), concurrency=2)
    topology.bolt("knows", Knows(notes), late.shuffle(), every="100ms")
    report = run_topology(topology, until_s=30)
    assert report.exit_status == 0
    assert attempts.count("beside") == 2
    assert attempts[-1] == "late"
    assert (notes["taken"], notes["left"]) == ([7], 0)


def test_what_is_not_stale_is_taken_after_a_death_D5() -> None:
    """The replacement knows of no frontier yet, and takes everything."""
    notes: dict[str, Any] = {}
    steps = [step for n in range(100) for step in (Number(n), Pause(0.01))]
    topology = known(ScriptedSpout[Number](steps), notes, tasks=2)
    report = run_topology(topology, workers=2, crashes=[Crash("knows", acked=30)])
    assert (report.ended, report.exit_status, report.restarts) == ("ended", 0, 1)
    assert set(notes["taken"]) == {*range(100)}


def test_a_bolt_that_does_not_remember_has_the_frontier_of_its_worker_too() -> None:
    seen: list[Decided] = []

    class Plain(Bolt):
        def open(self, task: Task) -> None:
            seen.append(task.frontier)

        def process(self, number: Number) -> None:
            """Takes it."""

    topology = Topology("plain")
    stream = topology.spout("numbers", ScriptedSpout[Number]([*numbers(2), Wait()]))
    topology.bolt("plain", Plain(), stream.shuffle(), tasks=2)
    run_topology(topology, until_s=3)
    assert seen[0] is seen[1]
    assert seen[0].frontier.checkpoint > 0
