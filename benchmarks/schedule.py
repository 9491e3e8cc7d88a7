"""The topology of the recovery benchmark: records that are due by a schedule, and a log of them that outlives a
SIGKILL.

The log is a file that all processes map: a worker's entries survive the worker. An open loop: record n is due n / rate
seconds after the start, whatever became of earlier records. A spout whose worker was killed reads in the log which
records were acked, and resumes the rest of its schedule. The log replaces positions, which this run does not keep. A
real source starts from its position, and takes longer by the time in which it reads records again.
"""

import asyncio
import mmap
import time
from array import array
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from topology import Bolt, Config, Message, Record, Spout, State, Task, Topology
from topology.groupings import key_bytes, slot_of, task_of_slot

TASKS: Final = 2  # of the bolt: one in each worker
SLEEP_S: Final = 0.001  # seconds between two checks of the schedule; timers of the loop are no finer
HEADER: Final = 16  # numbers in front of the times; 1 + 2 × 2 + 2 are used
LANES: Final = tuple(  # the key whose records go to the bolt's first task, and to its second
    next(key for key in map(str, range(1_000)) if task_of_slot(slot_of(key_bytes(key)), TASKS) == task)
    for task in range(TASKS)
)

Durability = Literal["disk", "process", "checkpoint"]


def lane_of(number: int, spouts: int) -> int:
    """Return the bolt's task for a record: each spout's records go to both tasks in turn."""
    return number // spouts % TASKS


class Log:
    """The mapped file. Times are seconds of `time.perf_counter`, one clock for all processes; 0.0: not yet.

    start     when record 0 is due, at index 0; set by the measuring process, once all spouts are `polled`.
    given     spout task → how many of its records it has polled.
    lives     task of the bolt → how many processes it has had.
    acked     spout task → when each of its records was acked; its k-th one is record k × spouts + task.
    marks     record → in which life the bolt's task processed it last.
    """

    def __init__(self, path: str, spouts: int, capacity: int) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), self._size(spouts, capacity))
        whole = memoryview(self._map)
        numbers = whole[: 8 * (HEADER + spouts * capacity)].cast("d")
        self.start = numbers[:1]
        self.polled = numbers[1:3]
        self.given = numbers[3:5]
        self.lives = numbers[5:7]
        self.acked = [numbers[HEADER + task * capacity :][:capacity] for task in range(spouts)]
        self.marks = whole[8 * (HEADER + spouts * capacity) :]

    @classmethod
    def make(cls, path: Path, spouts: int, capacity: int) -> "Log":
        """Return a new file of zeros; only written parts take space."""
        with open(path, "xb") as file:
            file.truncate(cls._size(spouts, capacity))
        return cls(str(path), spouts, capacity)

    @staticmethod
    def _size(spouts: int, capacity: int) -> int:
        return 8 * (HEADER + spouts * capacity) + spouts * capacity

    def open_of(self, task: int, begin: int, end: int) -> list[int]:
        """Return a spout's records from `begin` to before `end` that are not acked, by its own numbers, in order."""
        times = array("d", self.acked[task][begin:end].tobytes())
        found, at = [], -1
        try:
            while True:
                at = times.index(0.0, at + 1)
                found.append(begin + at)
        except ValueError:
            return found


class Numbered(Record):
    n: int
    lane: str


class Scheduled(Spout):
    """Emits its share of the records, each as soon as it is due; writes down when each was acked. Endless."""

    def __init__(self, path: str, spouts: int, capacity: int, rate: float) -> None:
        self.where = path, spouts, capacity
        self.spouts = spouts
        self.capacity = capacity
        self.rate = rate

    def open(self, task: Task, positions: object) -> None:
        self.log = Log(*self.where)
        self.index = task.index
        self.acked = self.log.acked[task.index]
        self.next = int(self.log.given[task.index])
        self.again = deque(self.log.open_of(task.index, 0, self.next))

    async def poll(self, limit: int) -> Sequence[Message[Numbered]]:
        self.log.polled[self.index] = 1.0
        if self.again:
            return [self._message(self.again.popleft()) for _ in range(min(limit, len(self.again)))]
        while (due := self._due()) <= self.next:  # noqa: ASYNC110 – waits for a time
            await asyncio.sleep(SLEEP_S)
        first, self.next = self.next, min(due, self.next + limit)
        self.log.given[self.index] = float(self.next)
        return [self._message(number) for number in range(first, self.next)]

    def _due(self) -> int:
        """Return how many of its records are due by now."""
        start, now = self.log.start[0], time.perf_counter()
        if not 0 < start <= now:
            return 0
        return min(self.capacity, int(((now - start) * self.rate - self.index) // self.spouts) + 1)

    def _message(self, own: int) -> Message[Numbered]:
        number = own * self.spouts + self.index
        return Message(Numbered(number, LANES[own % TASKS]), number)

    def ack(self, id: object) -> None:
        assert isinstance(id, int)
        self.acked[id // self.spouts] = time.perf_counter()


class Marks(Bolt):
    """Writes down, for each record, in which life of this task it was processed."""

    def __init__(self, path: str, spouts: int, capacity: int) -> None:
        self.where = path, spouts, capacity

    def open(self, task: Task) -> None:
        log = Log(*self.where)
        self.marks = log.marks
        self.life = int(log.lives[task.index]) + 1
        log.lives[task.index] = float(self.life)

    def process(self, record: Numbered) -> None:
        self.marks[record.n] = self.life


class KeptMarks(Marks):
    """The same, and has a count of each lane as its state."""

    def process(self, record: Numbered, state: State[int]) -> None:  # type: ignore[override]
        state.set(state.get(0) + 1)
        super().process(record)


def scheduled(path: str, spouts: int, capacity: int, rate: float, durability: Durability | None = None) -> Topology:
    """Declare for two workers: a bolt task in each, a spout in the first or in each, half of the records crossing. With
    a `durability` the bolt has state."""
    topology = Topology("schedule", Config(max_pending=2_000, durability=durability or "disk"))
    records = topology.spout("records", Scheduled(path, spouts, capacity, rate), tasks=spouts)
    marks = KeptMarks if durability else Marks
    topology.bolt("marks", marks(path, spouts, capacity), records.fields("lane"), tasks=TASKS)
    return topology
