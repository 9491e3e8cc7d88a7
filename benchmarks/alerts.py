"""The latency benchmark on Kedge: the SSH alerts' own bolts, fed through a pipe in an open loop.

Latency is from the scheduled time of the line that raises an alert to the entry of the sink's `process`. It includes
every wait between: a late feeder, a full pipe, a blocked loop. The sink is a probe that writes down the time, and
perf_counter is one clock for all processes. CPU time is that of all processes that run the topology, kernel and
supervisor included. The feeder is another process, and its CPU time is not included.
"""

import asyncio
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from benchmarks.feeder import SPIN_S, due_alerts
from benchmarks.workers import Running
from examples.ssh_alerts import BruteForce, DetectBruteForce, ParseFailures
from spouts import Line
from topology import Bolt, Config, Message, Spout, Task, Topology
from topology.runtime.asyncio_tools import settle_heap
from topology.runtime.embedded.run import EmbeddedRun

ROOT = Path(__file__).resolve().parent.parent
READ_MAX = 65_536  # bytes per read
SPIN_CORES_MAX = 0.25  # cores that a feeder beside workers may use to poll the clock
LEAD_S = 0.3  # seconds from the feeder's start command to the first line, in which the topology opens
WARM_UP_S = 0.7  # seconds of lines that are fed and not measured
REFERENCE = "2025-12-31T00:00:00"  # the lines are of that year


class PipedLines(Spout):
    """Lines from a pipe, each as soon as it arrives; ids count them.

    All arrived lines are read at once: an open loop is not held back. The pipe is a descriptor, or the path of a named
    pipe, which the reader opens.
    """

    def __init__(self, pipe: int | str) -> None:
        self.pipe = pipe

    def open(self, task: Task, positions: object) -> None:
        self.loop = asyncio.get_running_loop()
        self.arrived: deque[str] = deque()
        self.rest = b""
        self.next = 0
        self.ended = False
        self.waiting: asyncio.Future[None] | None = None
        self.fd = self.pipe if isinstance(self.pipe, int) else os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(self.fd, False)
        self.loop.add_reader(self.fd, self._read)

    def _read(self) -> None:
        data = os.read(self.fd, READ_MAX)
        if data:
            *whole, self.rest = (self.rest + data).split(b"\n")
            self.arrived.extend(map(bytes.decode, whole))
        else:
            self.loop.remove_reader(self.fd)
            self.ended = True
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)

    async def poll(self, limit: int) -> Sequence[Message[Line]]:
        while not self.arrived:
            if self.ended:
                return []
            self.waiting = self.loop.create_future()
            await self.waiting
        first = self.next
        self.next += min(limit, len(self.arrived))
        return [Message(Line(self.arrived.popleft()), number) for number in range(first, self.next)]


class Probe(Bolt):
    """Writes down when each address's alert came in; at the end also into a file, if one is named."""

    seen: ClassVar[list[tuple[str, float]]] = []  # of the class: each task has a copy of the topology's bolt

    def __init__(self, times: str) -> None:
        self.times = times

    def process(self, alert: BruteForce) -> None:
        self.seen.append((alert.source_ip, time.perf_counter()))

    def close(self) -> None:
        if self.times:
            Path(self.times).write_text(json.dumps(self.seen))


def alerts_topology(
    pipe: int | str, times: str = "", durability: Literal["disk", "process", "checkpoint"] = "disk"
) -> Topology:
    """Declare the topology as examples/ssh_alerts.py does, except both ends. On two workers `alerts.1` is on the
    second."""
    topology = Topology("ssh-alerts", Config(durability=durability))
    lines = topology.spout("lines", PipedLines(pipe))
    failures = topology.bolt("failures", ParseFailures("", REFERENCE), lines.shuffle())
    alerts = topology.bolt("alerts", DetectBruteForce(limit=5, within_s=60), failures.fields("source_ip"), tasks=2)
    topology.bolt("probe", Probe(times), alerts.global_())
    return topology


class Feeder:
    """The feeder's process, ready to write into a pipe."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    @classmethod
    @contextlib.contextmanager
    def ready(cls, writing: int, rate: int, count: int, spin_s: float) -> "Iterator[Feeder]":
        """Yield a feeder that can be started, and polls the clock for the last `spin_s` before each of `count` lines.

        It has a copy of the descriptor, and the only one once the descriptor is closed here.
        """
        command = [sys.executable, "-m", "benchmarks.feeder", *map(str, (writing, rate, count, spin_s))]
        with subprocess.Popen(
            command, cwd=ROOT, pass_fds=[writing], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                feeder = cls(process)
                feeder._said()  # "ready"
                yield feeder
            except BaseException:
                process.kill()
                raise

    def start(self) -> float:
        """Let it begin in LEAD_S; return when the first line is due."""
        assert self.process.stdin is not None
        start = time.perf_counter() + LEAD_S
        self.process.stdin.write(f"{start!r}\n")
        self.process.stdin.flush()
        return start

    def lag(self) -> dict[str, float]:
        """Return how late it was; wait for its end."""
        lag = json.loads(self._said())
        return {"feeder_lag_p99": lag["p99"], "feeder_lag_max": lag["max"]}

    def _said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


def alert_latency(rate: int, seconds: float) -> dict[str, float]:
    """Feed `rate` lines per second; return milliseconds of all alerts after the warm-up, and the cores used.

    Raises RuntimeError if an alert is missing or unexpected, or a line was not acked.
    """
    count = lines_of(rate, seconds)
    reading, writing = os.pipe()
    with Feeder.ready(writing, rate, count, SPIN_S) as feeder:
        os.close(writing)
        keep_apart(feeder.process.pid)
        start, cores = asyncio.run(_run(reading, feeder, count, seconds))
        lag = feeder.lag()
    os.close(reading)
    return {**_latencies(Probe.seen, start, rate, count), "cores": cores, **lag}


async def _run(fd: int, feeder: Feeder, count: int, seconds: float) -> tuple[float, float]:
    """Run the topology until the feeder has ended; return when the first line was due, and the cores used."""
    settle_heap()  # as `kedge run` does
    run = EmbeddedRun(alerts_topology(fd))
    finished = asyncio.ensure_future(run.finish())
    start = feeder.start()
    await asyncio.sleep(LEAD_S + WARM_UP_S)
    started_at, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(start + WARM_UP_S + seconds - started_at)
    cores = (time.process_time() - cpu) / (time.perf_counter() - started_at)
    acked = (await finished).snapshot.total("acked")
    if acked != count:
        raise RuntimeError(f"{acked} lines were acked of {count} that were fed")
    return start, cores


def alert_latency_of_workers(
    rate: int, seconds: float, durability: Literal["disk", "process", "checkpoint"] | None = None
) -> dict[str, float]:
    """Measure as `alert_latency` does, on two worker processes; `cores` are those of the supervisor and the workers.

    With `durability` the state and the positions are kept; else there is no state directory, and the state is in
    memory.

    All processes may use all cores. At a high rate the feeder only sleeps between lines: on two cores, a feeder that
    polls the clock all the time would take a worker's core.
    """
    count = lines_of(rate, seconds)
    spin_s = SPIN_S if rate * SPIN_S < SPIN_CORES_MAX else 0.0
    with tempfile.TemporaryDirectory() as folder:
        pipe, times = f"{folder}/lines", f"{folder}/times"
        state_dir = f"{folder}/state" if durability else None
        running = Running(
            alerts_topology, ends=True, state_dir=state_dir, pipe=pipe, times=times, durability=durability or "disk"
        )
        os.mkfifo(pipe)
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # never read: a pipe cannot be written without a reader
        writing = os.open(pipe, os.O_WRONLY)
        with Feeder.ready(writing, rate, count, spin_s) as feeder:
            start, cores = asyncio.run(_run_workers(running, writing, feeder, count, seconds))
            lag = feeder.lag()
        os.close(reading)
        seen = json.loads(Path(times).read_text())
    return {**_latencies(seen, start, rate, count), "cores": cores, **lag}


async def _run_workers(
    pending: Running, writing: int, feeder: Feeder, count: int, seconds: float
) -> tuple[float, float]:
    """Run as `_run` does. An empty line, which no bolt uses, goes first: once it is acked, all is up."""
    async with pending as running:
        os.write(writing, b"\n")
        os.close(writing)
        await running.acked(1)
        start = feeder.start()
        await asyncio.sleep(LEAD_S + WARM_UP_S)
        started_at, cpu = time.perf_counter(), running.cpu_s()
        await asyncio.sleep(start + WARM_UP_S + seconds - started_at)
        cores = (running.cpu_s() - cpu) / (time.perf_counter() - started_at)
    assert running.report is not None
    acked = running.report.snapshot.total("acked") - 1
    if acked != count:
        raise RuntimeError(f"{acked} lines were acked of {count} that were fed")
    return start, cores


def lines_of(rate: int, seconds: float) -> int:
    """Return how many lines are fed."""
    return math.ceil(rate * (WARM_UP_S + seconds))


def _latencies(seen: Sequence[tuple[str, float]], start: float, rate: int, count: int) -> dict[str, float]:
    """Return percentiles over all alerts of lines after the warm-up. Raises RuntimeError if other alerts were due."""
    due = due_alerts(count)
    if sorted(address for address, _ in seen) != sorted(due):
        raise RuntimeError(f"{len(seen)} alerts were raised, {len(due)} were due")
    first = rate * WARM_UP_S
    latencies = [at - start - due[address] / rate for address, at in seen if due[address] >= first]
    p50, p99, p999 = (percentile_ms(latencies, percent) for percent in (50, 99, 99.9))
    return {"value": p50, "p50": p50, "p99": p99, "p999": p999, "alerts": float(len(latencies))}


def keep_apart(other: int) -> None:
    """Give another process a core, and this one the rest: otherwise Linux now and then puts both on one for 4 ms."""
    if hasattr(os, "sched_setaffinity") and len(cores := sorted(os.sched_getaffinity(0))) > 1:
        os.sched_setaffinity(other, cores[-1:])
        os.sched_setaffinity(0, cores[:-1])


def percentile_ms(durations_s: Sequence[float], percent: float) -> float:
    """Return the duration that this share of all does not exceed, in milliseconds."""
    ordered = sorted(durations_s)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] * 1000
