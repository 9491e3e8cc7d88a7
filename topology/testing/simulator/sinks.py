"""The `Captured` of a simulation, as sinks that go back with a run which begins from a kept checkpoint.

Such a run is compared as if it wrote into another sink, which had what this one held at the cut of that checkpoint: of
each worker, what it had got when it gathered. Then results that depend on an order are of one order. Must not know
faults, nor what a checkpoint has.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Never

from topology.components import Collector
from topology.core.tuples import Tuple
from topology.testing.captured import Captured
from topology.testing.virtual_time.process import SimulatedProcess, life_of

Cut = dict[str, int]  # of each Captured: how many tuples had come


class SimulatedSinks:
    """Notes in which life of a worker each tuple comes, from when it is made."""

    def __init__(self, captured: Mapping[str, Captured[Any]]) -> None:
        self._captured = captured
        self._lives: dict[str, list[SimulatedProcess | None]] = {name: [] for name in captured}
        self._gathered: dict[SimulatedProcess, Cut] = {}
        self._copied: dict[str, dict[SimulatedProcess | None, Cut]] = {}  # savepoint → worker → its cut
        self._until: dict[str, Cut] = {}  # savepoint → what all had got when the first store was copied
        self._held: dict[str, dict[str, list[tuple[Any, float]]]] = {}  # savepoint → what each Captured held
        for name, sink in captured.items():
            self._note_lives(name, sink)

    def _note_lives(self, name: str, sink: Captured[Any]) -> None:
        execute, lives = sink.execute, self._lives[name]

        def executed(tup: Tuple[Any], out: Collector[Never]) -> None:
            lives.append(life_of())
            execute(tup, out)

        sink.execute = executed  # type: ignore[method-assign]

    @property
    def kept(self) -> list[str]:
        """The savepoints that sinks can go back to."""
        return [*self._held]

    def watch(self, checkpoints: Any, life: SimulatedProcess) -> None:
        """A worker begins, with these checkpoints: note when it gathers one, and which one a copy of its store has."""
        self._gathered[life] = self._now()
        before_gather, copy = checkpoints.before_gather, checkpoints.copy

        def gathers(checkpoint: int) -> None:
            before_gather(checkpoint)
            self._gathered[life] = self._now()

        def copies(checkpoint: int, path: Path) -> None:
            self._until.setdefault(path.parent.name, self._now())
            self._copied.setdefault(path.parent.name, {})[life] = self._gathered[life]
            copy(checkpoint, path)

        checkpoints.before_gather, checkpoints.copy = gathers, copies

    def keep(self, savepoint: str) -> None:
        """A savepoint is complete."""
        cuts, until = self._copied.pop(savepoint), self._until.pop(savepoint)
        self._held[savepoint] = {}
        for name, sink in self._captured.items():
            rows = zip(sink.tuples, sink.times, self._lives[name], strict=True)
            self._held[savepoint][name] = [
                (tup, at) for number, (tup, at, life) in enumerate(rows) if number < cuts.get(life, until)[name]
            ]

    def give_up(self, savepoint: str) -> None:
        """A savepoint could not be kept."""
        self._copied.pop(savepoint, None)
        self._until.pop(savepoint, None)

    def go_back(self, savepoint: str) -> Cut:
        """Have what the sinks held. Return how many tuples that are."""
        for name, sink in self._captured.items():
            held = self._held[savepoint][name]
            sink.restore(held)
            self._lives[name][:] = [None] * len(held)
        return self._now()

    def _now(self) -> Cut:
        return {name: len(sink.tuples) for name, sink in self._captured.items()}
