"""Records that go to Spark and come back: the time of each, and the rate of records through a window.

The topology runs in this process, Spark beside it as in every run; both share the machine. Must not know a benchmark's
bars, nor the figures of Spark alone.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

from acker.identity import MessageId
from benchmarks.alerts import percentile_ms
from benchmarks.handing_over import FIRST, KEYS, LOOK_S, PENDING, Login, login
from bridge import SparkResults, spark_query
from topology import Bolt, Config, Message, Record, Spout, Task, Topology
from topology.runtime.asyncio_tools import settle_heap
from topology.runtime.embedded.run import EmbeddedRun

RATE: Final = 1_000  # records per second when a round trip is measured
WARM_UP_BATCHES: Final = 25  # batches of a JVM that has just started
WARM_UP: Final = 50_000  # records of the window that is closed before the measured one
RECORDS: Final = 1_000_000  # records of the measured window
HOUR: Final = timedelta(hours=1)
MEASURED: Final = FIRST + 4 * HOUR  # beginning of the measured window; that of the warm-up begins at FIRST
UNTIL_S: Final = 110.0  # seconds that a run may take, Spark's start included


# -- round trip


class Stamped(Record):
    number: int
    at: float  # when it was emitted, by time.time


class Back(Record):
    number: int
    at: float
    batch_began_at: float  # when Spark began its batch


def passed(given: Any) -> Any:
    """The query: all records, unchanged."""
    from pyspark.sql.functions import current_timestamp, unix_micros

    return given.select("number", "at", (unix_micros(current_timestamp()) / 1e6).alias("batch_began_at"))


class Gate:
    """State that the parts of one run share. It is in the class, because tasks are copies of the topology's
    components."""

    ready = False  # True once Spark is ready
    first = 0  # number of the first record that counts
    acked: ClassVar[dict[int, float]] = {}  # number → when its segment was durable, and the source got the ack
    written: ClassVar[dict[int, float]] = {}  # number → when the file of its result had its name; to 4 ms
    seen: ClassVar[list[tuple[Back, float]]] = []  # results, and when each came into the topology
    batches: ClassVar[set[float]] = set()  # when Spark began each batch
    counted: ClassVar[Counter[datetime]] = Counter()  # windows → number of keys with a result,
    records: ClassVar[Counter[datetime]] = Counter()  # and the number of records in those results
    started_at = ended = 0.0  # when the measured window's first record was emitted, and when its last result arrived

    @classmethod
    def on_report(cls, line: str) -> None:
        """Receive the companion's output."""
        cls.ready |= "it is ready" in line


class Steady(Spout):
    """RATE records per second once Spark is ready, each stamped as it is emitted; due records are emitted at once.

    A warm-up comes first, until enough batches have returned; then `count` records, beginning with `Gate.first`.
    """

    def __init__(self, count: int, warm_up: int) -> None:
        self.count = count
        self.warm_up = warm_up
        self.next, self.started_at = 0, 0.0

    async def poll(self, limit: int) -> Sequence[Message[Stamped]]:
        while not Gate.ready:  # noqa: ASYNC110 – another thread's matter
            await asyncio.sleep(LOOK_S)
        self.started_at = self.started_at or time.perf_counter()
        first = self.next
        if not Gate.first and len(Gate.batches) >= self.warm_up:
            Gate.first = first
        left = Gate.first + self.count - first if Gate.first else limit
        if not left:
            return []
        if (ahead := self.started_at + first / RATE - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        due = int((time.perf_counter() - self.started_at) * RATE) + 1
        self.next, now = min(first + left, first + limit, max(first + 1, due)), time.time()
        return [Message(Stamped(number, now), number) for number in range(first, self.next)]

    def ack(self, id: MessageId) -> None:
        assert isinstance(id, int)
        Gate.acked[id] = time.time()


class Noting(SparkResults[Back]):
    """The results; writes down when each file was there."""

    def _read(self, number: int) -> list[Back]:
        records = super()._read(number)
        at = os.stat(self._folder.batch(number)).st_ctime
        Gate.written.update((row.number, at) for row in records)
        return records


class Arrived(Bolt):
    def process(self, back: Back) -> None:
        Gate.seen.append((back, time.time()))
        Gate.batches.add(back.batch_began_at)


def round_trip_topology(count: int, warm_up: int) -> Topology:
    topology = Topology("round-trip")
    records = topology.spout("records", Steady(count, warm_up))
    back = spark_query(topology, "back", {"records": records}, passed, output=Back)
    topology.components[-1].prototype = Noting(Back, "back", ["records"])
    topology.bolt("arrived", Arrived(), back.shuffle())
    return topology


def round_trip(seconds: float, warm_up: int = WARM_UP_BATCHES) -> dict[str, float]:
    """Return milliseconds from the emission of a record to the arrival of its result, after a warm-up.

    `value` and `p50`, `p99`, and medians of the parts: `segment` until the record is durable and acked, `wait` until
    Spark begins its batch, `batch` until the file of its result is there, `back` until the result is in the topology.

    Raises RuntimeError if a result is missing.
    """
    count = int(RATE * seconds)
    asyncio.run(_run(round_trip_topology(count, warm_up)))
    seen = [row for row in Gate.seen if row[0].number >= Gate.first]
    if len(seen) != count:
        raise RuntimeError(f"{len(seen)} results came back of {count} records")
    took = [now - back.at for back, now in seen]
    acked, written = Gate.acked, Gate.written
    parts = {
        "segment": [acked[back.number] - back.at for back, _ in seen],
        "wait": [back.batch_began_at - acked[back.number] for back, _ in seen],
        "batch": [written[back.number] - back.batch_began_at for back, _ in seen],
        "back": [now - written[back.number] for back, now in seen],
    }
    p50, p99 = (percentile_ms(took, percent) for percent in (50, 99))
    medians = {name: statistics.median(row) * 1000 for name, row in parts.items()}
    batches = len({back.batch_began_at for back, _ in seen})
    return {"value": p50, "p50": p50, "p99": p99, **medians, "batches": batches / seconds}


# -- a window


class Counted(Record):
    start: datetime
    address: str
    count: int


def by_address(given: Any) -> Any:
    """The query: counts of records by window and key."""
    from pyspark.sql.functions import col, window

    groups = given.withWatermark("at", "0 seconds").groupBy(window("at", "1 hour").alias("w"), "address")
    return groups.count().select(col("w.start").alias("start"), "address", "count")


def warming(count: int) -> list[Login]:
    """Return the records of the window at FIRST, and one that closes it."""
    return [*map(login, range(count)), Login(FIRST + 2 * HOUR, "closes", 0)]


def measured(count: int) -> list[Login]:
    """Return the records of the window at MEASURED, of up to KEYS keys, and one that closes it."""
    made = [Login(row.at + 4 * HOUR, row.address, row.number) for row in map(login, range(count))]
    return [*made, Login(FIRST + 8 * HOUR, "closes", 0)]


class Logins(Spout):
    """The records of the warm-up once Spark is ready; the measured records once all results of these are back."""

    def __init__(self, warm_up: int, count: int) -> None:
        self.warm_up, self.count = warm_up, count
        self.left: list[Login] = []
        self.given = 0
        self.phase = 0

    def open(self, task: Task, positions: Mapping[str, MessageId]) -> None:
        self.phases = [warming(self.warm_up), measured(self.count)]

    async def poll(self, limit: int) -> Sequence[Message[Login]]:
        if not self.phases and not self.left:
            return []
        if not self.left:
            while not (Gate.counted[FIRST] == min(self.warm_up, KEYS) if self.phase else Gate.ready):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S)
            self.left, self.phase = self.phases.pop(0)[::-1], self.phase + 1
            if self.phase == 2:
                Gate.started_at = time.perf_counter()
        first, records = self.given, [self.left.pop() for _ in range(min(limit, len(self.left)))]
        self.given += len(records)
        return [Message(record, number) for number, record in enumerate(records, start=first)]


class Windows(Bolt):
    """Counts results, and writes down when the last one of the measured window came."""

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def process(self, counted: Counted) -> None:
        start = counted.start
        Gate.counted[start] += 1
        Gate.records[start] += counted.count
        if start == MEASURED and Gate.counted[start] == self.keys:
            Gate.ended = time.perf_counter()


def window_topology(warm_up: int, count: int, pending: int) -> Topology:
    topology = Topology("windows", Config(max_pending=pending))
    logins = topology.spout("logins", Logins(warm_up, count))
    counted = spark_query(topology, "counted", {"logins": logins}, by_address, output=Counted)
    topology.bolt("windows", Windows(min(count, KEYS)), counted.shuffle())
    return topology


def windowed_a_second(
    seconds: float, count: int = RECORDS, warm_up: int = WARM_UP, pending: int = PENDING
) -> dict[str, float]:
    """Return `value`: records per second from the emission of the first to the arrival of the last result of their
    window.

    `took`: seconds. Its duration is fixed by the number of records: `seconds` is ignored.

    Raises RuntimeError if a record is missing in the results, or counted twice.
    """
    asyncio.run(_run(window_topology(warm_up, count, pending)))
    if Gate.records[MEASURED] != count or not Gate.ended:
        raise RuntimeError(f"{Gate.records[MEASURED]} records are in the results, and {count} were emitted")
    took = Gate.ended - Gate.started_at
    return {"value": count / took, "took": took}


async def _run(topology: Topology) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settle_heap()  # as `kedge run` does
        lines: list[str] = []

        def on_report(line: str) -> None:
            lines.append(line)
            Gate.on_report(line)

        run = EmbeddedRun(topology, state_dir=Path(folder), report=on_report)
        finished = asyncio.ensure_future(run.finish())
        await asyncio.wait({finished}, timeout=UNTIL_S)
        if not finished.done():
            where = f"{Gate.counted.total():,} windows and {len(Gate.seen):,} records are back"
            run.abort()
            await finished
            raise RuntimeError(f"not done after {UNTIL_S:g} s; {where}; {run.in_flight()}; Spark: {lines[-5:]}")
        report = finished.result()
        if report.exit_status:
            raise RuntimeError(f"the run has {report.ended}: {report.error}; Spark: {'; '.join(lines[-3:])}")
