"""Bolts with timers, and a topology around one: shared by the tests of timers."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from runtime_kit import Number, Pair

from topology import Bolt, Config, Record, State, Task, Topology
from topology.testing import Captured, ScriptedSpout
from topology.testing.virtual_time.loop import START

Key = tuple[Any, ...]


class Fired(Record):
    key: int
    name: str
    at: float  # seconds since START
    count: int


class Timed(Bolt):
    """Each input sets a timer of its key so many seconds after now, and is counted; `on_timer` tells of itself."""

    def open(self, task: Task) -> None:
        self.clock = task.clock

    def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        state.timer(self.clock.utc() + timedelta(seconds=pair.right))
        yield Number(pair.left)

    def on_timer(self, key: Key, name: str, state: State[int]) -> Iterator[Fired]:
        yield Fired(key[0], name, (self.clock.utc() - START).total_seconds(), state.get(0))


def timing(bolt: Any, script: Sequence[Any], *sinks: Any, tasks: int = 1) -> tuple[Topology, Captured[Fired]]:
    """pairs → bolt, by the left one → what timers have emitted is captured."""
    topology, captured = Topology("timing", Config(max_replays=100)), Captured[Fired]()
    stream = topology.spout("pairs", ScriptedSpout(script, emits=(Pair,)))
    made: Any = topology.bolt("bolt", bolt, stream.fields("left"), tasks=tasks)
    fired: Any = made[Fired]
    for number, sink in enumerate(sinks):
        fired = topology.bolt(f"sink{number}", sink, fired.shuffle())
    topology.bolt("captured", captured, fired.shuffle())
    return topology, captured


class Closes(Timed):
    """As one that closes a window: each input sets the timer for the window's end, also one that comes late."""

    def process(self, pair: Pair, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        state.timer(START + timedelta(seconds=pair.right))
        yield Number(pair.left)


class Slow(Bolt):
    async def process(self, fired: Fired) -> list[Fired]:
        await asyncio.sleep(5)
        return [fired]


class AtEnd(Timed):
    fires_at_end = True
