"""Spark's micro-batches without Spark: its logs of offsets and commits, and its stores of state, in the order in which
it writes them; beneath the driver and the bolts as they are. Each step of it may be the last of a life.

As Spark does, a part of a batch that is computed again goes on with the state that it has come to, and leaves on the
disk what an attempt before it has written there.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest

from bridge.engine.batch_clock import in_batch
from bridge.engine.counts_and_timers import CountsAndTimers
from bridge.engine.offsets import checkpoint
from bridge.engine.rows import SCHEMA, EngineRow, batch_of, rows_of
from bridge.engine.stage import LazyState
from bridge.engine.timers_source import TIMERS_INPUT
from bridge.files.input import StreamInput
from bridge.files.query import QueryFolder
from bridge.files.segments import Segments

PARTITIONS: Final = 2
LEFT: Final = (  # what the driver leaves behind, one call after the other
    (Segments, "write"),
    (Segments, "end"),
    (Segments, "goes_on"),
    (CountsAndTimers, "begin"),
    (CountsAndTimers, "keep"),
    (CountsAndTimers, "begin_end"),
    (CountsAndTimers, "fired"),
    (QueryFolder, "begin"),
    (QueryFolder, "write"),
    (QueryFolder, "close"),
    (QueryFolder, "end"),
    (StreamInput, "say_done"),
)

Place = tuple[int, int]  # a stage and a partition of it
State = dict[bytes, bytes]


class Killed(BaseException):
    """The driver, and the JVM with it."""


class World:
    """What goes on whoever dies: the time, the disk that states are on, and draws."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.random = Random(seed)
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.written: dict[Place, dict[int, State]] = defaultdict(dict)  # by version, what has changed in it
        self.steps = 0  # of this life
        self.kill_at = 0  # none
        self.alive = False
        for cls, name in LEFT:
            patch.setattr(cls, name, self._stepping(f"{cls.__name__}.{name}", getattr(cls, name)))

    def step(self, what: str) -> None:
        """Raises Killed where a life is to end here."""
        if self.alive:
            self.steps += 1
            self.now += timedelta(microseconds=self.random.randrange(1, 400_000))
            if self.steps == self.kill_at:
                self.alive = False
                raise Killed(what)

    def utc(self) -> datetime:
        return self.now

    def state(self, place: Place, version: int) -> State:
        """As whoever has it not in memory loads it."""
        return {key: one for at in range(1, version + 1) for key, one in self.written[place].get(at, {}).items()}

    def _stepping(self, what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*given: Any, **named: Any) -> Any:
            self.step(f"before {what}")
            found = call(*given, **named)
            self.step(f"after {what}")
            return found

        return stepping


class Session:
    """What a driver asks of Spark's besides."""

    value: Final[Mapping[Any, int]] = {}

    @property
    def dataSource(self) -> "Session":
        return self

    sparkContext = dataSource

    def register(self, source: object) -> None:
        """It has no other."""

    def accumulator(self, zero: object, param: object) -> "Session":
        return self


class Query:
    """A `StreamingQuery` in one life of a driver; `turn` is one micro-batch of it."""

    isActive = True

    def __init__(self, world: World, running: Any) -> None:
        from bridge.engine.source import MessageReader

        self._world, self._running = world, running
        self._log = checkpoint(running.folder)
        for name in ("offsets", "commits"):
            (self._log / name).mkdir(parents=True, exist_ok=True)
        self._batch = len([*(self._log / "commits").iterdir()])
        stages = range(1, len(running.mapped.stages))
        places = [(stage, partition) for stage in stages for partition in range(PARTITIONS)]
        self._states = {place: world.state(place, self._batch) for place in places}
        self._readers = [MessageReader(self._options(n), SCHEMA.names) for n in range(len(running._all_inputs))]

    def _options(self, number: int) -> dict[str, str]:
        running, name = self._running, self._running._all_inputs[number]
        given = {"folder": str(running.folder.folder), "input": name, "life": running._python_process.life}
        return given | {
            "begin": "{}",
            "parts": "1",
            "number": str(number),
            "among": "yes" if name == TIMERS_INPUT else "no",
        }

    def processAllAvailable(self) -> None:
        while self.turn():
            continue

    def stop(self) -> None:
        """It holds nothing."""

    def turn(self) -> bool:
        """Whether there was anything to do."""
        number = self._batch
        begin = self._offsets(number - 1) if number else [one.initialOffset() for one in self._readers]
        if not (self._log / "offsets" / str(number)).exists():
            now_ms = int(self._world.now.timestamp() * 1_000)
            both = zip(self._readers, begin, strict=True)
            ends = [one.latestOffset(at, one.getDefaultReadLimit()) for one, at in both]
            if ends == begin:
                return False
            lines = ["v1", json.dumps({"batchTimestampMs": now_ms}), *map(json.dumps, ends)]
            self._put("offsets", number, "\n".join(lines))
        rows = self._arrived(begin, self._offsets(number), self._begun_us(number))
        rows = [*self._running._process.part(0, 0).arrive(rows)]
        for stage in range(1, len(self._running.mapped.stages)):
            rows = self._through(stage, rows)
        self._running._keep(pa.Table.from_batches([batch_of(rows)], SCHEMA), number)
        self._put("commits", number, "v1\n{}")
        self._batch += 1
        return True

    def _arrived(self, begin: list[Any], end: list[Any], batch_started_us: int) -> list[EngineRow]:
        rows = []
        for reader, *offsets in zip(self._readers, begin, end, strict=True):
            batches = [batch for one in reader.partitions(*offsets) for batch in reader.read(one)]
            rows += [row for batch in batches for row in rows_of(batch)]
        return [row._replace(position=in_batch(batch_started_us, row.position)) for row in rows]

    def _through(self, stage: int, rows: list[EngineRow]) -> list[EngineRow]:
        given: list[EngineRow] = []
        for partition in range(PARTITIONS):
            own = [row for row in rows if sum(row.group) % PARTITIONS == partition]
            given += self._task((stage, partition), own)
        return given

    def _task(self, place: Place, rows: list[EngineRow]) -> list[EngineRow]:
        """A task of Spark's, which may be on another executor than in the batch before, or die when it is done."""
        world = self._world
        while True:
            if world.random.random() < 0.2:
                self._lost(place)
            changed: State = {}
            given = self._taken(place, rows, changed)
            world.step(f"state of {place} computed")
            world.written[place].setdefault(self._batch + 1, changed)
            world.step(f"state of {place} written")
            if world.random.random() >= 0.2:
                self._states[place] |= changed
                return given
            self._lost(place)

    def _lost(self, place: Place) -> None:
        self._states[place] = self._world.state(place, self._batch)
        self._running._process._parts.pop(place, None)

    def _taken(self, place: Place, rows: list[EngineRow], changed: State) -> list[EngineRow]:
        part, groups = self._running._process.part(*place), defaultdict(list)
        for row in rows:
            groups[row.group].append(row)
        given: list[EngineRow] = []
        for group in self._world.random.sample(sorted(groups), len(groups)):
            held = LazyState(lambda group=group: self._states[place].get(group, b""))  # type: ignore[misc]
            given += part.take(sorted(groups[group], key=lambda row: row.position), held)
            if held.changed:
                changed[group] = held.content
        return given

    def _put(self, log: str, number: int, text: str) -> None:
        self._world.step(f"before {log} {number}")
        (self._log / log / str(number)).write_text(text)
        self._world.step(f"after {log} {number}")

    def _offsets(self, number: int) -> list[Any]:
        return [json.loads(line) for line in (self._log / "offsets" / str(number)).read_text().splitlines()[2:]]

    def _begun_us(self, number: int) -> int:
        header: dict[str, int] = json.loads((self._log / "offsets" / str(number)).read_text().splitlines()[1])
        return header["batchTimestampMs"] * 1_000
