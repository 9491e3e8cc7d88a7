"""The stages of a topology on Spark without Spark: rows through parts here, brought together by a dict."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from bridge.engine.batch_clock import in_batch
from bridge.engine.mapping import mapped
from bridge.engine.python_process import FolderNotes
from bridge.engine.rows import (
    REJECTED,
    TIMERS,
    DueNow,
    EngineRow,
    KeyTimers,
    Rejected,
    position_of,
    rejected_of,
    signed,
    timers_of,
)
from bridge.engine.stage import LazyState, Routing, StageBolts
from topology import Record, Task, Topology
from topology.records import encode
from topology.runtime.clock import LoopClock

Message = tuple[int, int, Record]  # origin, identity, record
Given = dict[str, list[tuple[int, int, Any]]]  # the same by sinks


BEGUN_US = 1_800_000_000_000_000  # when the first batch of all began


class Stages:
    """A topology on stages. `batch` is one micro-batch; states stay from one to the next."""

    def __init__(self, topology: Topology, folder: Path, seed: int = 0) -> None:
        self.mapped = mapped(topology)
        self.routing = Routing(self.mapped)
        self.loop = asyncio.new_event_loop()
        self.folder = folder
        self.random = Random(seed)
        self.states: dict[bytes, bytes] = {}
        self.rejected: list[Rejected] = []
        self.timers: list[KeyTimers] = []
        self.calls: dict[str, int] = defaultdict(int)
        self.read = 0
        self.batch_started_us = BEGUN_US  # when the next batch begins
        self.parts = [StageBolts(self.routing, stage.number, self._task, self.loop) for stage in self.mapped.stages]
        for part in self.parts:
            part.open()

    def close(self) -> None:
        for part in self.parts:
            part.close()
        self.loop.close()

    def batch(
        self, messages: Iterable[Message], timers: Iterable[DueNow] = ()
    ) -> dict[str, list[tuple[int, int, Any]]]:
        """What each sink is given, in its order: origin, identity, record."""
        self.batch_started_us += 1_000
        rows = [self._arrived(self._number(one[2]), one[0], one[1], encode(one[2])) for one in messages]
        rows += [self._arrived(len(self.mapped.streams), 0, 0, encode(one)) for one in timers]
        self.random.shuffle(rows)  # as partitions are worked on in any order
        rows = [*self.parts[0].arrive(rows)]
        for stage, part in zip(self.mapped.stages[1:], self.parts[1:], strict=True):
            groups: dict[bytes, list[EngineRow]] = defaultdict(list)
            for row in rows:
                groups[row.group].append(row)
            rows = []
            for group, members in groups.items():
                held = LazyState(lambda at=(stage.number, group): self.states.get(at, b""))  # type: ignore[misc]
                rows += part.take(sorted(members, key=lambda row: row.position), held)
                if held.changed:
                    self.states[stage.number, group] = held.content  # type: ignore[index]
        return self._given(rows)

    def counts(self) -> dict[tuple[str, str], int]:
        return {what: count for part in self.parts for what, count in part.counts.items()}

    def _given(self, rows: list[EngineRow]) -> Given:
        given: Given = defaultdict(list)
        for row in sorted(rows, key=lambda row: row.position):
            if row.to == REJECTED:
                self.rejected.append(rejected_of(row.record))
            elif row.to == TIMERS:
                self.timers.append(timers_of(row.record))
            else:
                tup = self.routing.tuple(row)
                given[self.routing.component(row)].append((tup.origin, tup.identity, tup.record))
        return given

    def _number(self, record: Record) -> int:
        return next(n for n, (_, cls) in enumerate(self.mapped.streams) if cls is type(record))

    def _arrived(self, number: int, origin: int, identity: int, content: bytes) -> EngineRow:
        self.read += 1
        position = in_batch(self.batch_started_us, position_of(self.read, number, 0, 0))
        return EngineRow(number, 0, b"", b"", signed(origin), signed(identity), position, content)

    def _task(self, name: str) -> Task:
        notes = FolderNotes(self.folder / "notes")
        return Task("test", name, 0, 1, LoopClock(self.loop), Random(0), notes, folder_of=lambda: self.folder)
