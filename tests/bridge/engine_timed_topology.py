"""A timer for each number, of which none comes due while a test lasts."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from engine_topology import Numbered

from bolts import SqliteSink
from spouts import Items
from topology import Bolt, State, Topology

DUE = datetime(2090, 1, 1, tzinfo=UTC)


class Late(Bolt):
    def process(self, given: Numbered, state: State[int]) -> Iterator[Numbered]:
        state.set(given.number)
        state.timer(DUE, "late")
        yield given

    def on_timer(self, key: tuple[int], name: str, state: State[int]) -> Iterator[Numbered]:
        yield Numbered(-state.get(0))


class Lasting(Bolt):
    """A sink that is closed once there is a file `go`; until then there is one that says that it is to be closed."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, given: Numbered) -> None:
        """It is one that is driven."""

    def close(self) -> None:
        pause, folder = threading.Event(), Path(self.folder)
        (folder / "closes").touch()
        while not (folder / "go").exists():
            pause.wait(0.02)


def topology(store: str, count: int = 3, lasting: str = "") -> Topology:
    """`lasting`: the folder of a `Lasting`."""
    topology = Topology("timed")
    numbers = topology.spout("numbers", Items([Numbered(one) for one in range(count)]))
    late = topology.bolt("late", Late(), numbers.fields("number"))
    topology.bolt("store", SqliteSink(store, records=[Numbered]), late.global_())
    if lasting:
        topology.bolt("lasting", Lasting(lasting), late.global_())
    return topology
