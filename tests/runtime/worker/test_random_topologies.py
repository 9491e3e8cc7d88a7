"""Random topologies under failures: each message is accounted for, and has its effect once where replays are dropped.

Each test prints its seed, and the same seed gives the same run. Rules A1, A2, A18, B4, B7, D3; F40.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from random_topologies import Drawn, Item, draw

from topology.groupings import key_bytes
from topology.runtime.links import peer
from topology.runtime.links.protocol import Frame, Kind
from topology.runtime.state import keyed_executor
from topology.runtime.tasks import executor
from topology.testing import Watch, run_topology

SEEDS = range(40)


async def accounted_for(run: Any) -> None:
    """At every turn of the clock: emitted = acked + dead + pending, for each spout."""
    while True:
        await asyncio.sleep(0.05)
        for name, one in run.snapshot().spouts.items():
            assert one.emitted == one.acked + one.dead + one.pending, name


def check(drawn: Drawn, watch: Watch, report: Any, seed: int) -> None:
    print(f"seed {seed}")
    total = report.snapshot.total
    assert report.ended == "ended", seed
    assert (total("emitted"), total("acked"), total("pending")) == (drawn.emitted, drawn.emitted, 0), seed
    assert total("failed") == total("replayed"), seed
    assert Counter(drawn.captured.distinct.values()) == drawn.items, seed
    for name, counted in drawn.counted.items():
        assert watch.state(name) == {key_bytes(n): times for n, times in counted.items()}, seed
    for worker in watch.workers:
        assert len(worker.ledger) == 0
        assert all(one.quiet for one in worker.executors.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_every_message_has_its_effect_once_although_bolts_fail(seed: int) -> None:
    watch, drawn = Watch(), draw(seed)
    check(drawn, watch, run_topology(drawn.topology, seed=seed, watch=watch, during=accounted_for), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_message_has_its_effect_once_although_all_are_replayed(seed: int) -> None:
    watch, drawn = Watch(), draw(seed, share=0.0)
    report = run_topology(drawn.topology, seed=seed, watch=watch, replay_all=True)
    check(drawn, watch, report, seed)
    assert report.snapshot.total("replayed") >= drawn.emitted


@pytest.mark.parametrize("seed", SEEDS)
def test_tiny_queues_deadlock_nowhere_F40(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    max_pending = tiny_queues(Random(seed), monkeypatch)
    watch, drawn = Watch(), draw(seed, max_pending=max_pending)
    check(drawn, watch, run_topology(drawn.topology, seed=seed, watch=watch), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_tiny_queues_deadlock_nowhere_between_workers_either_F40(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    max_pending = tiny_queues(Random(seed), monkeypatch)
    watch, drawn = Watch(), draw(seed, max_pending=max_pending)
    check(drawn, watch, run_topology(drawn.topology, seed=seed, watch=watch, workers=2 + seed % 3), seed)


def tiny_queues(random: Random, monkeypatch: pytest.MonkeyPatch) -> int:
    """Has queues be full at a tuple or a few, here and as other workers see them; returns a max_pending to go with."""
    high = random.choice([1, 2, 10])
    for module in (executor, peer):
        monkeypatch.setattr(module, "QUEUE_HIGH", high)
    monkeypatch.setattr(keyed_executor, "PARKED_MAX", high)
    monkeypatch.setattr(executor, "QUEUE_LOW", random.choice([0, 1]) if high > 1 else 0)
    return random.choice([3, 100_000])


@pytest.mark.parametrize("seed", SEEDS)
def test_several_workers_come_to_the_same(seed: int) -> None:
    watch, drawn = Watch(), draw(seed)
    check(drawn, watch, run_topology(drawn.topology, seed=seed, watch=watch, workers=2 + seed % 3), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_several_workers_come_to_the_same_over_links_that_lose_repeat_and_delay_A11(seed: int) -> None:
    random = Random(seed)

    def faults(frame: Frame) -> Sequence[float]:
        chance = random.random()
        if chance < 0.01 and frame.kind == Kind.CONTENT:
            return ()
        if chance < 0.02:
            return (0.0, random.random() / 100)
        return (random.random() / 3,) if chance < 0.1 else (0.0,)

    watch, drawn = Watch(), draw(seed, tree_timeout_s=5)
    report = run_topology(drawn.topology, seed=seed, watch=watch, workers=2 + seed % 3, faults=faults)
    check(drawn, watch, report, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_are_acked_or_dead_and_only_dead_ones_lack_effects(seed: int) -> None:
    watch, drawn = Watch(), draw(seed, share=0.3, max_replays=1)
    report = run_topology(drawn.topology, seed=seed, watch=watch, during=accounted_for)
    total = report.snapshot.total
    print(f"seed {seed}")
    assert report.ended == "ended"
    assert total("acked") + total("dead") == drawn.emitted
    assert len(watch.dead) == total("dead")
    assert report.exit_status == (1 if total("dead") else 0)
    dead = {one.record.n for one in watch.dead if isinstance(one.record, Item)}
    found = Counter(drawn.captured.distinct.values())
    assert found <= drawn.items
    assert {item.n for item in (drawn.items - found)} <= dead, seed
