"""A run in which nothing happens writes nothing, whatever it knows. Rule P16."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from durability_kit import DURABILITIES, Counts, Durability
from letters_kit import until
from runtime_kit import Number, Pair

from acker.identity import MessageId
from topology import Bolt, Config, Reject, Topology
from topology.runtime.embedded.run import EmbeddedRun
from topology.testing import Captured, Pause, ScriptedSpout, run_topology

IDLE_S = 60


class Passes(Bolt):
    def process(self, number: Number) -> tuple[Number]:
        return (number,)


class Refuses(Bolt):
    """Rejects some pairs, below a bolt that has counted their inputs: these are known as long as the letters stay."""

    def process(self, pair: Pair) -> list[Pair]:
        if pair.left == 3:
            raise Reject("no threes")
        return [pair]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("durability", DURABILITIES)
def test_an_idle_run_takes_no_checkpoints_though_inputs_of_dead_letters_are_known(
    tmp_path: Path, durability: Durability, workers: int
) -> None:
    script = [*(Number(n % 7) for n in range(50)), Pause(IDLE_S)]
    topology = Topology("idle", Config(durability=durability))
    numbers = topology.spout("numbers", ScriptedSpout[Number](script, emits=(Number,)))
    counts = topology.bolt("counts", Counts(), numbers.fields("n"), tasks=2)
    refuses = topology.bolt("refuses", Refuses(), counts.shuffle())
    topology.bolt("captured", Captured[Pair](), refuses.shuffle())
    taken: list[int] = []

    async def look(run: EmbeddedRun) -> None:
        await until(lambda: (seen := run.snapshot()) is not None and seen.total("dead") == 7)
        await asyncio.sleep(10)
        for _ in range(2):
            snapshot = run.snapshot()
            assert snapshot is not None
            assert snapshot.checkpoint is not None
            taken.append(snapshot.checkpoint.taken)
            await asyncio.sleep(20)

    report = run_topology(topology, workers=workers, state_dir=tmp_path, during=look)
    assert report.snapshot.total("dead") == 7
    assert taken[0] == taken[1]


@pytest.mark.parametrize("silent_s", [9.1, 9.3, 9.5, 9.7, 9.9])
def test_a_message_after_a_long_silence_is_in_a_checkpoint_soon(tmp_path: Path, silent_s: float) -> None:
    """An idle run takes checkpoints once a second; a worker that has work wants one."""
    topology = Topology("idle", Config(durability="checkpoint"))
    numbers = topology.spout("numbers", ScriptedSpout[Number]([Number(1), Pause(silent_s), Number(2), Pause(9)]))
    topology.bolt("counts", Counts(), numbers.fields("n"))
    late: list[float] = []

    async def look(run: EmbeddedRun) -> None:
        loop = asyncio.get_running_loop()
        taken = lambda: seen.checkpoint.taken if (seen := run.snapshot()) and seen.checkpoint else 0  # noqa: E731
        await asyncio.sleep(9)
        before = taken()
        await until(lambda: (seen := run.snapshot()) is not None and seen.total("emitted") > 1)
        came_at = loop.time()
        await until(lambda: taken() > before)
        late.append(loop.time() - came_at)

    run_topology(topology, state_dir=tmp_path, during=look)
    assert late[0] < 0.5


class Settling(ScriptedSpout[Number]):
    """Notes when its messages are settled."""

    settled_at: ClassVar[list[float]] = []

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        self.settled_at += [asyncio.get_running_loop().time() for _ in ids]


class Slow(Bolt):
    """Takes its time, and notes when that is over."""

    ended_at: ClassVar[list[float]] = []

    async def process(self, number: Number) -> None:
        await asyncio.sleep(3.5 + number.n * 0.117)
        self.ended_at.append(asyncio.get_running_loop().time())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_message_is_settled_soon_after_slow_work_has_ended(tmp_path: Path, workers: int) -> None:
    """The run is idle while it waits for the bolt."""
    Settling.settled_at, Slow.ended_at = [], []
    topology = Topology("idle")
    script = [part for n in range(9) for part in (Number(n), Pause(6.0))]
    topology.bolt("slow", Slow(), topology.spout("numbers", Settling(script)).shuffle(), tasks=workers)
    run_topology(topology, workers=workers, state_dir=tmp_path)
    late = [settled - ended for settled, ended in zip(Settling.settled_at, Slow.ended_at, strict=True)]
    assert max(late) < 0.35


@pytest.mark.parametrize("checkpoint_s", [0.2, 2.0])
def test_a_worker_that_keeps_nothing_wants_no_checkpoint_while_others_work(tmp_path: Path, checkpoint_s: float) -> None:
    topology = Topology("busy", Config(checkpoint_s=checkpoint_s))
    script = [part for n in range(200) for part in (Number(n), Pause(0.05))]
    passed = topology.bolt("passes", Passes(), topology.spout("numbers", ScriptedSpout(script)).shuffle(), tasks=2)
    counts = topology.bolt("counts", Counts(), passed.fields("n"))
    topology.bolt("captured", Captured[Pair](), counts.shuffle())
    report = run_topology(topology, workers=2, state_dir=tmp_path)
    assert report.snapshot.checkpoint is not None
    assert report.snapshot.checkpoint.taken <= 10 / checkpoint_s + 4
