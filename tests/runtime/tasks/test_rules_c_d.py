"""Halves of the rules C and D that no other test sees alone: C1, C2, D3, as the runtime keeps them."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from runtime_kit import Number, Pair, Totals, numbers

from acker.identity import MessageId
from topology import Bolt, Config, Message, Spout, State, Topology
from topology.runtime.tasks import spout_task
from topology.testing import Captured, ScriptedSpout, Watch, run_topology

# -- C1, C2: messages


def test_messages_whose_identities_collide_are_told_apart_by_their_origins_C1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 bits alone, two of a few billion messages would be one; the second would be dropped as a replay."""

    def colliding(message_id: MessageId, seed: int) -> tuple[int, int]:
        assert type(message_id) is int
        return message_id + 1, 4711

    monkeypatch.setattr(spout_task, "message_pair", colliding)
    watch = Watch()
    topology, captured = Topology("colliding"), Captured[Number]()
    stream = topology.spout("numbers", ScriptedSpout(numbers(8)))
    topology.bolt("captured", captured, topology.bolt("bolt", Totals(), stream.global_()).shuffle())
    run_topology(topology, watch=watch)
    assert watch.state("bolt") == {b"": 8}
    assert len(captured.distinct) == 8


def test_the_same_ids_of_a_new_epoch_are_new_messages_C2() -> None:
    class Recreated(Spout):
        """Its source is made anew after every three messages, and counts from 0 again."""

        def __init__(self) -> None:
            self.generation = 0

        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            self.generation += 1
            self.epochs = {"": str(self.generation)}
            return [Message(Number(n), n) for n in range(3)] if self.generation <= 4 else []

        def partitions(self) -> Mapping[str, str]:
            return self.epochs

    topology, captured = Topology("epochs"), Captured[Number]()
    topology.bolt("captured", captured, topology.spout("numbers", Recreated()).shuffle())
    run_topology(topology)
    assert len(captured.distinct) == 12


def test_the_same_id_of_another_topology_spout_or_partition_is_another_message_C2() -> None:
    found: list[tuple[int, int]] = []
    for name in ("one", "other"):
        topology, captured = Topology(name), Captured[Number]()
        for spout in ("first", "second"):
            messages = [Message(Number(0), 0, partition) for partition in ("", "a", "b")]
            topology.bolt(f"to-{spout}", captured, topology.spout(spout, ScriptedSpout(messages)).shuffle())
        run_topology(topology)
        found += captured.distinct
    assert len(set(found)) == len(found) == 12


# -- D3: attempts that meet


def test_a_second_attempt_waits_for_the_first_and_takes_its_outputs_D3() -> None:
    """The first one's tree times out while `process` still works on it: the replay meets it there."""
    begun: list[int] = []

    class Slow(Bolt):
        async def process(self, pair: Pair, state: State[int]) -> list[Number]:
            begun.append(pair.right)
            await asyncio.sleep(25 if pair.right == 0 else 0.1)
            state.set(state.get(0) + 1)
            return [Number(state.get(0))]

    watch, captured = Watch(), Captured[Number]()
    topology = Topology("attempts", Config(tree_timeout_s=1, process_timeout_s=1000))
    stream = topology.spout("pairs", ScriptedSpout([Pair(7, 0), Pair(7, 1)]))
    topology.bolt("captured", captured, topology.bolt("slow", Slow(), stream.fields("left"), concurrency=4).shuffle())
    report = run_topology(topology, watch=watch)
    assert report.snapshot.total("replayed") >= 1
    assert begun == [0, 1]
    assert list(watch.state("slow").values()) == [2]
    assert set(captured.distinct.values()) == {Number(1), Number(2)}
