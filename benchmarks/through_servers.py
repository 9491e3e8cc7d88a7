"""The measurements of `benchmarks.connectors`: messages through a server, by a topology or by plain code.

A measurement has as many messages as go through in about SECONDS. Must not know a server's protocol.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.servers.kinds import BenchedSink, BenchedSource, Reading, bodies, plain_reading, reading
from topology import Bolt, Message, Positions, Spout, Task, Topology
from topology.runtime.asyncio_tools import settle_heap
from topology.runtime.embedded.run import EmbeddedRun

SERVERS: Final = {  # name → class, and messages a second that are expected of it
    "nats": ("nats.Nats", 15_000),
    "kafka": ("kafka.Kafka", 40_000),  # the mock brokers keep 5 MiB of a partition
    "redis": ("redis.RedisStream", 30_000),
    "amqp": ("amqp.Amqp", 8_000),
    "mqtt": ("mqtt.Mqtt", 8_000),
    "postgres": ("postgres.Postgres", 80_000),
    "http": ("http.Http", 6_000),
}
WAIT_S: Final = 100.0


class Timer:
    """The time until the last of `count` messages. A task's copy of it is the same object."""

    def __init__(self, count: int) -> None:
        self.count = self.left = count
        self.is_over = asyncio.Event()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Timer":
        return self

    def begin(self) -> None:
        self._at, self._cpu = time.perf_counter(), time.process_time()

    def came(self, count: int = 1) -> None:
        self.left -= count
        if self.left <= 0 and not self.is_over.is_set():
            took, cpu = time.perf_counter() - self._at, time.process_time() - self._cpu
            self.figures = {"value": self.count / took, "cpu_us": 1e6 * cpu / self.count}
            self.is_over.set()


class Count(Bolt):
    """Counts the readings of a source."""

    def __init__(self, timer: Timer) -> None:
        self.timer = timer

    def open(self, task: Task) -> None:
        self.timer.begin()  # sources open next

    def process(self, reading: Reading) -> None:
        self.timer.came()


class Readings(Spout):
    """Made readings, whose acks it counts. The time begins with the first poll."""

    def __init__(self, readings: Sequence[Reading], timer: Timer) -> None:
        self.readings, self.timer, self.next = readings, timer, 0

    def __deepcopy__(self, memo: dict[int, Any]) -> "Readings":
        return self  # there is one task, and the readings are many

    def open(self, task: Task, positions: Positions) -> None:
        self.next = 0

    async def poll(self, limit: int) -> Sequence[Message[Reading]]:
        first = self.next
        if not first:
            self.timer.begin()
        self.next = min(first + limit, len(self.readings))
        if first == self.next:
            await asyncio.Event().wait()
        return [Message(self.readings[number], number) for number in range(first, self.next)]

    def ack(self, id: object) -> None:
        self.timer.came()


def measured(name: str, seconds: float) -> dict[str, float]:
    """Return `value`: messages per second, and `cpu_us` of NAME: SERVER-source, SERVER-sink, or one of these and
    `-bare`. Raises TimeoutError if they do not go through."""
    server, way, *bare = name.split("-")
    path, expected = SERVERS[server]
    module, kind = path.split(".")
    made = getattr(import_module(f"benchmarks.servers.{module}"), kind)()
    measure: Any = {"source": _read_bare if bare else _read, "sink": _write_bare if bare else _write}[way]
    return asyncio.run(_within(measure, made, max(100, round(expected * seconds))))


async def _within(
    measure: Callable[[Any, Timer], Coroutine[Any, Any, None]], server: Any, count: int
) -> dict[str, float]:
    timer = Timer(count)
    async with asyncio.timeout(WAIT_S), server.there():
        await measure(server, timer)
    return timer.figures


async def _read(server: BenchedSource, timer: Timer) -> None:
    await server.fill(bodies(timer.count))
    topology = Topology("bench")
    topology.bolt("count", Count(timer), topology.spout("readings", server.source()).shuffle())
    await _run(topology, timer)


async def _read_bare(server: BenchedSource, timer: Timer) -> None:
    await server.fill(bodies(timer.count))
    settle_heap()
    timer.begin()
    async for came in server.read(timer.count):
        timer.came(came)


async def _write(server: BenchedSink, timer: Timer) -> None:
    await server.receive()
    readings = Readings([reading(number) for number in range(timer.count)], timer)
    topology = Topology("bench")
    topology.bolt("send", server.sink(), topology.spout("readings", readings).shuffle())
    await _run(topology, timer)


async def _write_bare(server: BenchedSink, timer: Timer) -> None:
    await server.receive()
    readings = [plain_reading(number) for number in range(timer.count)]
    settle_heap()
    timer.begin()
    await server.write([msgspec.json.encode(each) for each in readings])
    timer.came(timer.count)


async def _run(topology: Topology, timer: Timer) -> None:
    """Run until the last message has come, with a state directory, as `kedge run` has one."""
    settle_heap()
    with tempfile.TemporaryDirectory() as folder:
        run = EmbeddedRun(topology, state_dir=Path(folder) / "state")
        finished = asyncio.ensure_future(run.finish())
        over = asyncio.ensure_future(timer.is_over.wait())
        await asyncio.wait({finished, over}, return_when=asyncio.FIRST_COMPLETED)
        run.drain()
        report = await finished
        over.cancel()
    if timer.left > 0:
        raise RuntimeError(f"the run has {report.ended}, with {timer.left} messages left: {report.error}")
