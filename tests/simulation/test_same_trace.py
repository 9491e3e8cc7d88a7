"""One seed is one run, wherever and after whatever it runs: its trace, and what a verdict is made of."""

import asyncio
import json
import os
import sys
from pathlib import Path
from random import Random

import pytest

from topology.testing.simulator.disk import ROOT as DISK
from topology.testing.simulator.disk import FileNode, SimulatedDisk
from topology.testing.virtual_time.loop import run_virtual

ROOT = Path(__file__).parents[2]
FIRST, SEEDS = 82, 6  # two of them lose power, in three are dead messages


async def traces(first: int, count: int, *, hashes: str) -> dict[int, str]:
    """Of seeds that run in one process, by seed; `hashes` is Python's seed of what strings hash to."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.simulation", "--here", f"--base={first}", f"--seeds={count}"),
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return {told["seed"]: told["trace"] for told in map(json.loads, said.splitlines())}


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_seed_has_the_same_trace_whatever_ran_before_it_in_its_process_and_whatever_strings_hash_to() -> None:
    together = await traces(FIRST, SEEDS, hashes="1")
    assert len({*together.values()}) == SEEDS
    for seed in range(FIRST + 1, FIRST + SEEDS):
        assert await traces(seed, 1, hashes=str(seed)) == {seed: together[seed]}


def litter(random: Random) -> list[object]:
    """Has what is made next stand elsewhere in memory."""
    return [bytearray(random.randrange(200)) for _ in range(random.randrange(200))]


def test_what_a_loss_of_power_leaves_does_not_depend_on_where_in_memory_files_are() -> None:
    def left(place: int) -> list[bytes]:
        litters, disk, random = [], SimulatedDisk(Random(7)), Random(place)
        for number in range(20):
            litters.append(litter(random))
            disk.change(DISK, {str(number): (node := FileNode())})
            disk.write(node, 0, b"written")
        disk.sync_directory(DISK)
        disk.lose_power()
        return [bytes(node.content) for node in disk.directory(DISK).names.values()]

    first = left(0)
    assert len({*first}) == 2, "some of it has to be there, and some not"
    assert all(left(place) == first for place in range(1, 20))


def test_tasks_and_futures_of_one_loop_stand_in_sets_as_those_of_another_do() -> None:
    async def ordered(place: int) -> list[str]:
        litters, random = [], Random(place)
        waiting: dict[asyncio.Future[None], str] = {}
        for number in range(40):
            litters.append(litter(random))
            if number % 2:
                waiting[asyncio.get_running_loop().create_future()] = f"future {number}"
            else:
                task = asyncio.create_task(asyncio.sleep(0))
                waiting[task] = task.get_name()
        return [waiting[one] for one in {*waiting}]

    first = run_virtual(ordered(0))
    assert all(run_virtual(ordered(place)) == first for place in range(1, 20))
