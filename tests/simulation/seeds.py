"""Runs seeds in processes of their own, side by side, and adds up what they have seen.

A process takes a chunk of seeds and tells of each in a line of JSON; one that dies without a word fails its chunk.
Must not know topologies or faults.
"""

import asyncio
import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.simulation.consistent import check
from tests.simulation.drawing import RESCALE, draw, faults_of
from topology.testing.simulator.simulate import IN_VAIN, SimReport, SimulationFailed, simulate

ROOT: Final = Path(__file__).parents[2]
CHUNK: Final = 50  # seeds that a process runs: to begin one takes as long as two, and what is killed in it stays
GARBAGE: Final = 100_000  # new objects before some are looked at for garbage
SAID_MAX: Final = 4_000  # characters of a failure


@dataclass
class Seen:
    """What a number of seeds have seen together."""

    seeds: int = 0
    messages: int = 0
    seconds: float = 0.0  # of virtual time
    faults: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    kinds_min: int | None = None  # of faults that have hit one seed, at least
    messages_min: int | None = None  # of one seed
    failed: dict[int, str] = field(default_factory=dict)

    def add(self, told: dict[str, Any]) -> None:
        self.seeds += 1
        if "error" in told:
            self.failed[told["seed"]] = told["error"]
            return
        kinds, messages = len(told["faults"]), told["messages"]
        self.kinds_min = kinds if self.kinds_min is None else min(self.kinds_min, kinds)
        self.messages_min = messages if self.messages_min is None else min(self.messages_min, messages)
        self.messages += messages
        self.seconds += told["seconds"]
        self.faults.update(told["faults"])
        self.paths.update(told["paths"])

    def table(self) -> str:
        rows = [(count, name) for counts in (self.faults, self.paths) for name, count in sorted(counts.items())]
        body = "\n".join(f"{count:10,}  {name}" for count, name in rows)
        return f"{self.seeds:,} seeds, {self.messages:,} messages, {self.seconds:,.0f} s of virtual time\n{body}"


def run(seed: int) -> SimReport:
    """Run one seed here. Raises SimulationFailed."""
    report = simulate(lambda: draw(seed), seed=seed, faults=faults_of(seed), rescale=RESCALE)
    try:
        check(report, dead=bool(report.dead))
    except AssertionError as error:
        happened = "\n".join(report.told)
        raise SimulationFailed(f"seed {seed}: {error}\nwhat happened:\n{happened}") from error
    return report


def run_here(first: int, count: int) -> Iterator[dict[str, Any]]:
    """Runs seeds in this process, one after the other. What is collected as garbage is little beside what is kept of
    who was killed, and looking for it took a fifth of the time."""
    gc.set_threshold(GARBAGE)
    for seed in range(first, first + count):
        try:
            report = run(seed)
        except SimulationFailed as error:
            yield {"seed": seed, "error": str(error)[:SAID_MAX]}
        else:
            if late := report.paths[IN_VAIN]:  # a topology of somebody else may have reasons of its own
                yield {"seed": seed, "error": f"seed {seed}: {late} {IN_VAIN}"}
                continue
            yield {
                "seed": seed,
                "messages": report.messages,
                "seconds": report.seconds,
                "faults": dict(report.faults),
                "paths": dict(report.paths),
                "trace": report.trace,
            }


async def run_seeds(
    base: int, count: int, *, jobs: int, stop: bool = False, told: Callable[[Seen], None] = lambda seen: None
) -> Seen:
    """Runs seeds from `base` on, `jobs` processes at a time; with `stop`, no more once one has failed."""
    seen = Seen()
    chunks = [(first, min(CHUNK, base + count - first)) for first in range(base, base + count, CHUNK)][::-1]

    async def work() -> None:
        while chunks and not (stop and seen.failed):
            await _chunk(*chunks.pop(), seen, stop)
            told(seen)

    await asyncio.gather(*(work() for _ in range(jobs)))
    return seen


async def _chunk(first: int, count: int, seen: Seen, stop: bool) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.simulation", "--here", f"--base={first}", f"--seeds={count}"),
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    said = asyncio.ensure_future(process.stderr.read())
    done = 0
    try:
        async for line in process.stdout:
            seen.add(json.loads(line))
            done += 1
            if stop and seen.failed:
                break
        else:
            await process.wait()
            if done < count:
                text = (await said).decode(errors="replace")[-SAID_MAX:]
                seen.add({"seed": first + done, "error": f"the process ended with status {process.returncode}: {text}"})
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await said
