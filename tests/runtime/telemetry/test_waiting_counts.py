"""How long inputs take in a bolt, and how much of its places they take; latencies spout by spout. On virtual time."""

import asyncio

import pytest
from runtime_kit import Number, Same, line, numbers

from topology import Bolt, Collector, Config, Topology, Tuple
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.telemetry.metrics import BoltCounts, Snapshot, input_s, merged, packed, unpacked
from topology.testing import Pause, ScriptedSpout, run_topology


class Waits(Bolt):
    """Takes as many seconds as its input says."""

    async def process(self, number: Number) -> None:
        await asyncio.sleep(number.n)


class Holds(Bolt):
    """Acks its inputs two at a time."""

    def __init__(self) -> None:
        self.held: list[Tuple[Number]] = []

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        self.held.append(tup)
        if len(self.held) == 2:
            for one in self.held:
                out.ack(one)
            self.held.clear()


async def looked(run: EmbeddedRun, seen: list[Snapshot], after_s: float) -> None:
    await asyncio.sleep(after_s)
    snapshot = run.snapshot()
    assert snapshot is not None
    seen.append(snapshot)


def bolt(snapshot: Snapshot) -> BoltCounts:
    """Of the only bolt."""
    return snapshot.bolts["bolt"]


def one_bolt(which: Bolt, script: list[Number | Pause], config: Config | None = None, **options: int) -> Topology:
    topology = Topology("waiting", config)
    topology.bolt("bolt", which, topology.spout("numbers", ScriptedSpout(script)).shuffle(), **options)
    return topology


def test_inputs_that_wait_are_counted_with_the_time_from_their_start_to_their_end() -> None:
    done = bolt(run_topology(one_bolt(Waits(), [Number(2), Number(4)])).snapshot)
    assert (done.executed, done.waited, done.waited_s) == (2, 2, pytest.approx(6))
    assert input_s(done) == pytest.approx(3)
    assert done.taken_s == pytest.approx(6), "one place, and one input after the other"


def test_an_input_over_its_time_limit_has_waited_so_long_F9() -> None:
    topology = one_bolt(Waits(), [Number(100)], config=Config(process_timeout_s=10, max_replays=0))
    done = bolt(run_topology(topology).snapshot)
    assert done.waited == 1
    assert 10 <= done.waited_s < 12


def test_while_inputs_wait_they_are_in_hand_and_take_their_share_of_the_places() -> None:
    seen: list[Snapshot] = []
    topology = one_bolt(Waits(), [Number(8), Number(8)], concurrency=8)
    run_topology(topology, during=lambda run: looked(run, seen, 4.0))
    now = bolt(seen[0])
    assert (now.held, now.waited) == (2, 0)
    assert now.taken_s == pytest.approx(1.0, abs=0.1), "2 of 8 places, for 4 s"


def test_a_tuple_that_execute_keeps_has_waited_until_it_was_acked() -> None:
    topology = one_bolt(Holds(), [Number(1), Pause(6), Number(2)])
    done = bolt(run_topology(topology).snapshot)
    assert (done.executed, done.waited) == (2, 1), "the second was acked at once"
    assert done.waited_s == pytest.approx(6, abs=0.1)
    assert (done.held, done.taken_s) == (0, 0.0), "it keeps tuples, and has no places"


def test_a_bolt_that_never_waits_takes_no_place() -> None:
    topology, _ = line(ScriptedSpout(numbers(100)), Same())
    done = bolt(run_topology(topology).snapshot)
    assert (done.executed, done.waited, done.waited_s, done.taken_s) == (100, 0, 0.0, 0.0)


def test_each_spout_has_the_latencies_of_its_own_trees_and_all_together_are_the_run_s() -> None:
    topology = Topology("two")
    quick = topology.spout("quick", ScriptedSpout([Number(1)] * 3))
    slow = topology.spout("slow", ScriptedSpout([Number(5)]))
    topology.bolt("a", Waits(), quick.shuffle(), concurrency=8)
    topology.bolt("b", Waits(), slow.shuffle(), concurrency=8)
    snapshot = run_topology(topology).snapshot
    assert {name: one.total for name, one in snapshot.latencies.items()} == {"quick": 3, "slow": 1}
    assert snapshot.latencies["quick"].highest == pytest.approx(1, abs=0.1)
    assert snapshot.latencies["slow"].highest == pytest.approx(5, abs=0.1)
    assert (snapshot.latency.total, snapshot.latency.highest) == (4, snapshot.latencies["slow"].highest)
    again = unpacked(packed(snapshot))
    assert {name: one.total for name, one in again.latencies.items()} == {"quick": 3, "slow": 1}
    assert merged([snapshot, again]).latencies["quick"].total == 6
    assert merged([snapshot, again]).bolts["a"].waited == 6
