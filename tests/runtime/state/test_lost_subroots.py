"""What is known of inputs that came in a sub-tree which stands for a message of a life that is over (D17, D4)."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from kept_kit import dies
from letters_kit import until
from positions_kit import Counted, Stuck
from runtime_kit import Number, Totals

from topology import Bolt, Collector, Config, Message, Positions, Task, Topology, Tuple
from topology.plan import plan
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.worker.worker import Worker
from topology.testing import Captured, Crash, ScriptedSpout, Watch, run_topology

EACH = 10  # messages of each source: an output is anchored to all, which are more than a tuple may name


class Late(Counted):
    """Each life but the first gives nothing for some seconds."""

    lives = 0

    def open(self, task: Task, positions: Positions) -> None:
        super().open(task, positions)
        self.lives += 1

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        if self.lives > 1:
            await asyncio.sleep(4)
        return await super().poll(limit)


class Gather(Bolt):
    """Once it has all messages it gives one number for each, anchored to all of them."""

    def open(self, task: Task) -> None:
        self.held: dict[int, Tuple[Number]] = {}

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        if (before := self.held.pop(tup.record.n, None)) is not None:
            out.ack(before)  # of an attempt that has failed
        self.held[tup.record.n] = tup
        if len(self.held) == 2 * EACH:
            held, self.held = self.held, {}
            anchors = [held[n] for n in sorted(held)]
            for n in sorted(held):
                out.emit(Number(n), anchors=anchors, key=n)
            for one in anchors:
                out.ack(one)


def gathering(late: Late, stuck: set[int], durability: Literal["disk", "process", "checkpoint"]) -> Topology:
    topology = Topology("lost", Config(durability=durability))
    sooner = topology.spout("sooner", ScriptedSpout([Number(1_000 + n) for n in range(EACH)]))
    later = topology.spout("later", late)
    gather = topology.bolt("gather", Gather(), sooner.global_(), later.global_())
    topology.bolt("busy", Stuck(stuck), sooner.shuffle(), tasks=2, concurrency=64)
    totals = topology.bolt("totals", Totals(), gather.fields("n"), tasks=2)
    behind = topology.bolt("behind", Stuck(stuck), totals.shuffle(), concurrency=64)
    topology.bolt("captured", Captured[Number](), behind.shuffle())
    return topology


@pytest.mark.parametrize("durability", ["disk", "process", "checkpoint"])
def test_what_came_in_a_lost_sub_tree_is_known_though_its_worker_dies_as_it_hears_of_that_D17_D4(
    tmp_path: Path, durability: Any
) -> None:
    """The first death of a worker makes the sub-tree a lost one. Its replacement dies once a frontier is decided
    that names it."""
    late, stuck = Late(EACH), {1, *range(1_000, 1_000 + EACH)}
    topology = gathering(late, stuck, durability)
    placement = plan(topology, 2).placement
    dying = placement["later", 0]
    assert placement["gather", 0] != dying, "the sub-tree's home lives on"

    def before(worker: Worker) -> None:
        def decided() -> None:
            if worker.worker == dying and worker.decided.frontier.lost and len(watch.deaths) == 1:
                dies()

        worker.checkpoints.at_decision.append(decided)

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: len(watch.deaths) == 2)
        await asyncio.sleep(2)
        stuck.clear()

    watch = Watch(before=before)
    crash = Crash("later", at_s=1)
    run_topology(topology, workers=2, state_dir=tmp_path, crashes=[crash], during=during, watch=watch)
    assert len(watch.deaths) == 2
    assert Counter(watch.state("totals").values()) == {1: 2 * EACH}, "each number once"
