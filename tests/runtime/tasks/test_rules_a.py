"""Halves of the rules A that no other test sees alone: A2, A7, A9, A10, A18."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from runtime_kit import Doing, Given, Number, Same, line, numbers

from acker.ledger import Ledger, Tree
from acker.roots import message_of
from topology import Bolt, Config, Message, Spout, Topology, Tuple
from topology.runtime.failures import Reason
from topology.testing import Captured, ScriptedSpout, Watch, run_topology, spend


def test_an_anchor_given_twice_gives_the_identity_of_one_A2() -> None:
    def identities(times: int) -> dict[tuple[int, int], Number]:
        def execute(bolt: Any, tup: Tuple[Number], out: Any) -> None:
            out.emit(tup.record, anchors=[tup] * times)
            out.ack(tup)

        topology, captured = line(ScriptedSpout(numbers(3)), Doing(execute))
        run_topology(topology)
        return captured.distinct

    assert identities(1) == identities(2)


def test_each_run_over_a_state_directory_has_an_incarnation_of_its_own_A7(tmp_path: Path) -> None:
    roots: list[int] = []
    for run in (1, 2, 3):
        topology, captured = line(ScriptedSpout(numbers(5 * run)))  # a run goes on where the one before it was
        run_topology(topology, state_dir=tmp_path / "state")
        roots += [tup.root for tup in captured.tuples]
    assert len(set(roots)) == len(roots) == 15
    assert sorted({message_of(root) >> 32 & 0xFFF for root in roots}) == [1, 2, 3]
    assert {message_of(root) & 0xFFFF_FFFF for root in roots} == {1, 2, 3, 4, 5}


class Fast(Spout):
    """As many numbers as are asked for, up to `count`."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.next = 0

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        begun, self.next = self.next, min(self.count, self.next + limit)
        return [Message(Number(n), n) for n in range(begun, self.next)]


def test_deadlines_stop_while_a_spout_is_paused_A9() -> None:
    """A tuple at the end of a full queue waits for longer than touches alone would save it."""

    class Slow(Bolt):
        async def process(self, number: Number) -> list[Number]:
            await asyncio.sleep(0.03)
            return [number]

    watch = Watch()
    topology, captured = line(Fast(2000), Slow(), config=Config(max_pending=1_000_000, tree_timeout_s=1))
    run_topology(topology, watch=watch)
    assert watch.failures == []
    assert len(captured.records) == 2000


def test_a_time_limit_is_longer_by_just_the_time_that_the_loop_stood_still_A10() -> None:
    class Hangs(Bolt):
        async def process(self, number: Number) -> list[Number]:
            await asyncio.get_running_loop().create_future()
            return [number]

    async def blocks(run: Any) -> None:
        await asyncio.sleep(1)
        spend(10)

    watch = Watch()
    config = Config(process_timeout_s=5, max_replays=0)
    topology, _ = line(ScriptedSpout(numbers(1)), Hangs(), config=config)
    report = run_topology(topology, watch=watch, during=blocks)
    assert [one.reason for one in watch.failures] == [Reason.TIME_LIMIT]
    assert report.snapshot.seconds == pytest.approx(15, abs=0.3)


def test_two_readers_of_one_stream_do_not_cancel_each_other_A18() -> None:
    """While both still work on it, the message is not done."""

    class Slow(Bolt):
        async def process(self, number: Number) -> list[Number]:
            await asyncio.sleep(5)
            return [number]

    topology, spout, captured = Topology("two"), ScriptedSpout(numbers(4)), Captured[Number]()
    stream = topology.bolt("same", Same(), topology.spout("numbers", spout).shuffle())
    slow = [topology.bolt(f"slow{i}", Slow(), stream.shuffle(), concurrency=9) for i in range(2)]
    topology.bolt("captured", captured, *(one.shuffle() for one in slow))
    early: list[int] = []

    async def look(run: Any) -> None:
        await asyncio.sleep(2)
        early.append(len(spout.acked))

    run_topology(topology, during=look)
    assert early == [0]
    assert len(captured.distinct) == 8
    assert sorted(spout.acked) == [0, 1, 2, 3]


def test_a_late_ack_of_an_earlier_attempt_does_not_complete_the_next_one_A7() -> None:
    """The bolt acks the first attempt, which has failed below it, and still works on the second."""

    def late(bolt: Doing, tup: Tuple[Number], out: Any) -> None:
        out.emit(tup.record)
        bolt.kept.append(tup)
        if len(bolt.kept) == 2:
            out.ack(bolt.kept[0])
            seen.append(list(spout.acked))
            out.ack(tup)

    def raises_once(number: Number) -> list[Number]:
        raised.append(number)
        return [number] if len(raised) > 1 else [Number(1 // 0)]

    seen: list[list[Any]] = []
    raised: list[Number] = []
    spout = ScriptedSpout(numbers(1))
    topology, _ = line(spout, Doing(late), Given(raises_once))
    watch = Watch()
    run_topology(topology, watch=watch)
    assert seen == [[]]
    assert spout.acked == [0]
    assert watch.workers[0].ledger.unknown > 0


def test_touches_are_counted_anew_after_an_ack_A9() -> None:
    """Else a large tree that is worked off slowly would spend its touches, and be cut off in the end."""
    ledger: Ledger[Tree] = Ledger(10.0, now=0.0, hard_cap=2)
    ledger.begin(Tree(1, 1))
    now = 0.0

    def silent_for_a_timeout_but_touched() -> None:
        nonlocal now
        until = now + 10.0
        while now < until:
            now += 0.5
            assert ledger.advance(now) == []
        ledger.touch(1)

    for _ in range(2):
        silent_for_a_timeout_but_touched()
    for n in range(2, 20):
        assert ledger.ack(1, 1 << n) is None
        for _ in range(2):
            silent_for_a_timeout_but_touched()


@pytest.mark.parametrize("silent_s", [1.0, 9.0, 12.0, 19.0])
def test_a_tree_that_was_silent_before_a_stall_has_its_time_left_after_it_A10(silent_s: float) -> None:
    ledger: Ledger[Tree] = Ledger(10.0, now=0.0)
    ledger.begin(Tree(1, 1))
    turns = [turn / 4 for turn in range(1, 100)]
    running = [now for now in turns if now <= silent_s] + [now + 3600 for now in turns if now > silent_s]
    expired = [now for now in running if ledger.advance(now)]
    assert len(expired) == 1
    assert expired[0] - 3600 == pytest.approx(20, abs=0.6)
