"""What the latency benchmark runs on Kedge: the SSH alerts' own bolts, fed through a pipe in an open loop.

Latency is from the time for which the line that raises an alert was scheduled to the entry of the sink's `process`,
whatever was in between: a late feeder, a full pipe, a standing loop. The sink is a probe: it writes down the time.
CPU time is this process's, kernel included; the feeder is another process and not in it.
"""

import asyncio
import json
import math
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, ClassVar

from benchmarks.feeder import due_alerts
from examples.ssh_alerts import BruteForce, DetectBruteForce, ParseFailures
from spouts import Line
from topology import Bolt, Message, Spout, Task, Topology
from topology.runtime.embedded import EmbeddedRun
from topology.runtime.hosting import settle_heap

ROOT = Path(__file__).resolve().parent.parent
READ_MAX = 65_536  # bytes a read
LEAD_S = 0.3  # from giving the feeder its start to the first line: the topology opens meanwhile
WARM_UP_S = 0.7  # lines that are fed and not measured
REFERENCE = "2025-12-31T00:00:00"  # the lines are of that year


class PipedLines(Spout):
    """Lines from a pipe, each as soon as it is there; ids count them. All that has arrived is read at once: an open
    loop is not held back."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def open(self, task: Task, positions: object) -> None:
        self.loop = asyncio.get_running_loop()
        self.arrived: deque[str] = deque()
        self.rest = b""
        self.next = 0
        self.ended = False
        self.waiting: asyncio.Future[None] | None = None
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
        begun = self.next
        self.next += min(limit, len(self.arrived))
        return [Message(Line(self.arrived.popleft()), number) for number in range(begun, self.next)]


class Probe(Bolt):
    """Writes down when each address's alert came in."""

    seen: ClassVar[list[tuple[str, float]]] = []  # the class's: each task is a copy of what the topology was given

    def process(self, alert: BruteForce) -> None:
        self.seen.append((alert.source_ip, time.perf_counter()))


def alerts_topology(fd: int) -> Topology:
    """As examples/ssh_alerts.py declares it, but for both ends."""
    topology = Topology("ssh-alerts")
    lines = topology.spout("lines", PipedLines(fd))
    failures = topology.bolt("failures", ParseFailures("", REFERENCE), lines.shuffle())
    alerts = topology.bolt("alerts", DetectBruteForce(), failures.fields("source_ip"), tasks=2)
    topology.bolt("probe", Probe(), alerts.global_())
    return topology


def alert_latency(rate: int, seconds: float) -> dict[str, float]:
    """Feeds `rate` lines a second; milliseconds of all alerts after the warm-up, and the cores used.

    Raises RuntimeError where an alert is missing or one too many, or a line was not acked.
    """
    count = math.ceil(rate * (WARM_UP_S + seconds))
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "benchmarks.feeder", str(writing), str(rate), str(count)]
    with subprocess.Popen(
        command, cwd=ROOT, pass_fds=[writing], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as feeder:
        os.close(writing)
        keep_apart(feeder.pid)
        assert feeder.stdin is not None
        assert feeder.stdout is not None
        feeder.stdout.readline()  # "ready"
        start, cores = asyncio.run(_run(reading, feeder.stdin, count, seconds))
        lag = json.loads(feeder.stdout.readline())
    os.close(reading)
    due = due_alerts(count)
    if sorted(address for address, _ in Probe.seen) != sorted(due):
        raise RuntimeError(f"{len(Probe.seen)} alerts were raised, {len(due)} were due")
    first = rate * WARM_UP_S
    late = [at - start - due[address] / rate for address, at in Probe.seen if due[address] >= first]
    p50, p99, p999 = (percentile_ms(late, percent) for percent in (50, 99, 99.9))
    figures = {"value": p50, "p50": p50, "p99": p99, "p999": p999, "cores": cores, "alerts": float(len(late))}
    return {**figures, "feeder_lag_p99": lag["p99"], "feeder_lag_max": lag["max"]}


async def _run(fd: int, feeder: IO[str], count: int, seconds: float) -> tuple[float, float]:
    """Runs the topology until the feeder has ended; returns when the first line was due, and the cores used."""
    settle_heap()  # as `kedge run` does
    run = EmbeddedRun(alerts_topology(fd))
    finished = asyncio.ensure_future(run.finish())
    start = time.perf_counter() + LEAD_S
    feeder.write(f"{start!r}\n")
    feeder.flush()
    await asyncio.sleep(LEAD_S + WARM_UP_S)
    begun, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(start + WARM_UP_S + seconds - begun)
    cores = (time.process_time() - cpu) / (time.perf_counter() - begun)
    acked = (await finished).snapshot.total("acked")
    if acked != count:
        raise RuntimeError(f"{acked} lines were acked of {count} that were fed")
    return start, cores


def keep_apart(other: int) -> None:
    """Gives another process a core, this one the rest: Linux else puts both on one now and then, for 4 ms a time."""
    if hasattr(os, "sched_setaffinity") and len(cores := sorted(os.sched_getaffinity(0))) > 1:
        os.sched_setaffinity(other, cores[-1:])
        os.sched_setaffinity(0, cores[:-1])


def percentile_ms(durations_s: Sequence[float], percent: float) -> float:
    """The duration that this share of all does not exceed, in milliseconds."""
    ordered = sorted(durations_s)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] * 1000
