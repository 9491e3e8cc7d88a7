"""What should hardly ever happen is counted where it happens, and people can read it: rules A3, A5, A10, D5.

Runs of the real runtime on virtual time; the summary's line is tested with the command.
"""

import asyncio
import contextlib
from random import Random
from typing import Any

import pytest
from runtime_kit import Doing, Number, Poisoned, Same, Totals, line, numbers

from topology import Bolt, Config, Reject, Topology, Tuple, TupleStateError
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.links.protocol import Frame
from topology.runtime.telemetry.metrics import RARE, Snapshot, merged
from topology.testing import Pause, ScriptedSpout, run_topology, run_virtual
from topology.testing.virtual_time.loop import VirtualLoop


def happened(snapshot: Snapshot | None) -> dict[str, int]:
    """What has happened at all; everything that is counted has a name in RARE."""
    assert snapshot is not None
    assert list(snapshot.rare) == list(RARE)
    return {name: count for name, count in snapshot.rare.items() if count}


def test_in_a_run_in_which_all_goes_well_nothing_rare_is_counted() -> None:
    topology, _ = line(ScriptedSpout(numbers(100)), Same(), Totals(), by="n", tasks=2)
    assert happened(run_topology(topology).snapshot) == {}


def test_acts_on_a_finished_tuple_are_counted_A3() -> None:
    def twice(bolt: Any, tup: Tuple[Number], out: Any) -> None:
        out.ack(tup)
        with contextlib.suppress(TupleStateError):
            out.emit(Number(9))

    topology, _ = line(ScriptedSpout(numbers(3)), Doing(twice))
    assert happened(run_topology(topology).snapshot) == {"acts on finished tuples": 3}


def test_a_stall_of_the_loop_is_counted_A10() -> None:
    async def jump(run: EmbeddedRun) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        await asyncio.sleep(1)
        loop.pass_time(60)

    topology, _ = line(ScriptedSpout([Number(0), Pause(3), Number(1)]), Same())
    assert happened(run_topology(topology, during=jump).snapshot) == {"stalls of the loop": 1}


class Late(Bolt):
    """Gives what it takes, five seconds later."""

    async def process(self, number: Number) -> list[Number]:
        await asyncio.sleep(5)
        return [number]


def test_an_ack_for_a_tree_that_has_failed_already_is_counted() -> None:
    topology = Topology("late", Config(max_replays=0))
    spout = topology.spout("numbers", ScriptedSpout(numbers(1)))
    topology.bolt("refuses", Poisoned(0, lambda: Reject("no")), spout.shuffle())
    topology.bolt("late", Late(), spout.shuffle())
    assert happened(run_topology(topology).snapshot) == {"late or unknown acks": 1}


class Stubborn(Bolt):
    """Never returns, and ignores that it is cancelled, until it is told to `end`."""

    end = False

    async def process(self, number: Number) -> list[Number]:
        while not Stubborn.end:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1)
        return [number]


def test_inputs_that_were_given_up_and_still_run_are_counted_while_they_do_A5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stubborn, "end", False)
    seen = []

    async def look(run: EmbeddedRun) -> None:
        await asyncio.sleep(5)
        seen.append(happened(run.snapshot()))
        Stubborn.end = True
        await asyncio.sleep(5)
        seen.append(happened(run.snapshot()))

    script = [Number(0), Pause(20), Number(1)]
    topology, _ = line(ScriptedSpout(script), Stubborn(), config=Config(process_timeout_s=2, max_replays=0))
    run_topology(topology, during=look)
    assert seen == [{"abandoned inputs": 1}, {}]


def test_tuples_that_a_bolt_with_state_refuses_since_their_message_is_done_are_counted_D5() -> None:
    topology = Topology("stale", Config(max_replays=0))
    script = ScriptedSpout[Number]([Number(0), Pause(10), Number(1), Pause(10)])
    spout = topology.spout("numbers", script)
    topology.bolt("refuses", Poisoned(0, lambda: Reject("no")), spout.shuffle())
    late = topology.bolt("late", Late(), spout.shuffle())
    topology.bolt("totals", Totals(), late.fields("n"))
    counts = happened(run_topology(topology).snapshot)
    assert counts["stale tuples refused"] == 1, counts


@pytest.mark.parametrize("seed", range(3))
def test_frames_that_come_again_are_counted_through_all_sessions(seed: int) -> None:
    random = Random(seed)

    def faults(frame: Frame) -> list[float]:
        return [] if random.random() < 0.02 else [0.0, 0.0]

    async def main() -> EmbeddedRun:
        topology, _ = line(ScriptedSpout([*numbers(20), Pause(60), Number(20)]), Same(), tasks=2)
        run = EmbeddedRun(topology, workers=2, random=Random(seed), faults=faults)
        before = 0
        finishing = asyncio.ensure_future(run.finish())
        while not finishing.done():
            await asyncio.sleep(0.1)
            counts = run.snapshot()
            assert counts is not None
            assert counts.rare["repeated frames"] >= before, "it only grows, whatever becomes of a session"
            before = counts.rare["repeated frames"]
        return run

    run = run_virtual(main(), seed=seed)
    ended = [peer.repeated for worker in run.workers for peer in worker.peers.by_worker.values()]
    assert max(ended) > 0, "no session was lost"
    assert happened(run.snapshot())["repeated frames"] > 0


def test_the_counts_of_several_workers_are_added_up() -> None:
    one, other = (Snapshot("t", 1.0, 1, {}, {}, rare={"stalls of the loop": n, "repeated frames": 0}) for n in (1, 2))
    assert merged([one, other]).rare == {"stalls of the loop": 3, "repeated frames": 0}
