"""Records handed over to Spark, as fast as one worker writes them: the whole bolt, in a run that keeps its state.

Each record is acked once its segment is on the disk. No Spark runs meanwhile, so nothing takes a core from the worker,
and no segment is removed. Must not know a benchmark's bars.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from acker.identity import MessageId
from benchmarks.embedded import WARM_UP_S
from bridge.handover.bolt import HandOver
from topology import Config, Message, Record, Spout, Task, Topology
from topology.runtime.asyncio_tools import settle_heap
from topology.runtime.embedded.run import EmbeddedRun

KEYS: Final = 100_000
FIRST: Final = datetime(2026, 1, 1, tzinfo=UTC)  # time of record 0; each further record is a millisecond later
MADE: Final = 1 << 17  # records made before the clock starts; they are reused under other ids
PENDING: Final = 8_000  # messages that may be in flight: a few segments
LOOK_S: Final = 0.02  # seconds between two checks whether it has begun


class Login(Record):
    at: datetime
    address: str
    number: int


def login(number: int) -> Login:
    """Return a login of one of KEYS addresses, each in turn."""
    key = number % KEYS
    return Login(FIRST + timedelta(milliseconds=number), f"10.{key >> 16}.{key >> 8 & 255}.{key & 255}", number)


class Logins(Spout):
    """Whole slices of ready messages, for ever, each under a new id."""

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        self.made = [*map(login, range(MADE))]
        self.next = 0

    async def poll(self, limit: int) -> Sequence[Message[Login]]:
        made, first = self.made, self.next
        self.next += limit
        return [Message(made[number % MADE], number) for number in range(first, self.next)]


def logins_topology(pending: int) -> Topology:
    topology = Topology("logins", Config(max_pending=pending))
    logins = topology.spout("logins", Logins())
    topology.bolt("hand-over", HandOver(Login, "logins", "logins"), logins.shuffle())
    return topology


def handed_over_a_second(seconds: float, pending: int = PENDING) -> dict[str, float]:
    """Return `value`: acked records per second after a warm-up; `rows`: records per segment; `commits`: segments per
    second; `bytes` per record; `cores` that the process took."""
    with tempfile.TemporaryDirectory() as folder:
        settle_heap()  # as `kedge run` does
        return asyncio.run(_handed_over_a_second(logins_topology(pending), Path(folder), seconds))


async def _handed_over_a_second(topology: Topology, state_dir: Path, seconds: float) -> dict[str, float]:
    run = EmbeddedRun(topology, state_dir=state_dir)
    finished = asyncio.ensure_future(run.finish())
    await until(lambda: finished.done() or _acked(run) > 0)
    await asyncio.sleep(WARM_UP_S)
    folder = state_dir / "kept" / "spark" / "logins" / "stream" / "logins" / "0"
    segments, acked, started_at, cpu = _segments(folder), _acked(run), time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    acked, took, cpu = _acked(run) - acked, time.perf_counter() - started_at, time.process_time() - cpu
    new = _segments(folder) - segments
    size = sum(path.stat().st_size for path in new) / max(acked, 1)
    run.abort()
    await finished
    if not acked or not new:
        raise RuntimeError(f"nothing was handed over in {seconds:g} s")
    figures = {"value": acked / took, "rows": acked / len(new), "commits": len(new) / took}
    return {**figures, "bytes": size, "cores": cpu / took}


def _acked(run: EmbeddedRun) -> int:
    snapshot = run.snapshot()
    return snapshot.total("acked") if snapshot is not None else 0


def _segments(folder: Path) -> set[Path]:
    return {folder / name for name in os.listdir(folder) if name.startswith("seg-")} if folder.is_dir() else set()


async def until(condition: Callable[[], bool]) -> None:
    """Return once this holds."""
    while not condition():  # noqa: ASYNC110 – polls counters
        await asyncio.sleep(LOOK_S)
