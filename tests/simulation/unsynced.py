"""Whatever a source, a sink or a person was told is on the disk, at each moment of a run (P5, P8, P10, P11).

`LookingRun` looks after each turn of the loop at which something was told: at a copy of the disk, as a loss of power
would leave it, or, with durability "process", a death of all processes. The state directory of the copy is opened as a
next run would open it. What it has must be no less than what was told: a checkpoint that is decided, messages that a
source may forget, dead letters, and of each key as many counts as sinks have got.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Final

from tests.simulation import power_cuts
from tests.simulation.power_cuts import (
    KEYS,
    MESSAGES,
    NAME,
    PART,
    PAUSE_S,
    Count,
    Counts,
    CutRun,
    Draws,
    Item,
    Kept,
    Lived,
    Stored,
)
from topology import Config, State, Topology
from topology.components import MessageId
from topology.errors import Reject
from topology.keys import value_of
from topology.runtime.state.value import StateCodec
from topology.storage.directory.state_dir import StateDir
from topology.storage.encoding.state import SUM_BYTES
from topology.storage.encoding.state import value_of as value_in
from topology.storage.rescale.assign import opened_stores
from topology.storage.sqlite.store import SqliteStore
from topology.testing import Pause, ScriptedSpout
from topology.testing.simulator.disk import FileNode, SimulatedDisk
from topology.testing.simulator.files import SimulatedFiles
from topology.testing.simulator.run import STATE_DIR

BAD: Final = frozenset(range(9, MESSAGES, 16))  # messages that end dead
_decoded: Final = StateCodec("counts", Kept, timed=True).decode


class Refuses(Counts):
    """As `Counts`, of all messages but some."""

    def process(self, item: Item, state: State[Kept]) -> Iterator[Count]:
        if item.n in BAD:
            raise Reject("it is a bad one")
        yield from super().process(item, state)


class Told(ScriptedSpout[Item]):
    """`told` has the ids that are settled."""

    told: ClassVar[set[MessageId]]

    def settled(self, ids: Sequence[MessageId], partition: str) -> None:
        self.told.update(ids)


@dataclass
class Looked(Stored):
    """A run that is looked at, a few messages of which are bad. `looked` counts what was found to hold."""

    looked: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.told: set[MessageId] = set()
        self.run_kind = type("Looking", (LookingRun,), {"stored": self})

    def topology(self, tasks: int) -> Topology:
        script: list[Any] = []
        for n in range(MESSAGES):
            script += [Pause(PAUSE_S if n % PART == 0 else 0.01), Item(n, n % KEYS)]
        config = Config(max_replays=1_000, max_restarts=1_000, tree_timeout_s=5, durability=self.durability)
        topology = Topology(NAME, config)
        source = type("Told", (Told,), {"told": self.told})([*script, Pause(PAUSE_S)])
        items = topology.spout("items", source)
        counts = topology.bolt("counts", Refuses(), items.fields("key"), tasks=tasks)
        drawn = topology.bolt("draws", Draws(), counts.shuffle(), tasks=tasks)
        topology.bolt("captured-counts", self.counts, counts.global_())
        topology.bolt("captured-drawn", self.drawn, drawn.global_())
        return topology

    def check(self) -> None:
        """Fails unless each message counts once, and so does the timer that it has set, or it is dead."""
        assert sorted(self.letters) == sorted(BAD), f"there are letters of {self.letters}"
        each = Counter(n % KEYS for n in range(MESSAGES) if n not in BAD)
        state = {value_of(key): kept for key, kept in self.state.items()}
        assert state == {key: Kept(many, many) for key, many in each.items()}, f"the state is {state}"


class LookingRun(CutRun):
    stored: ClassVar[Looked]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._seen: Any = None
        before = self.stored.durability == "process"  # what left before a loss of power may not be kept
        self._from = len(self.stored.counts.tuples) if before else 0

    def _crash_who_is_due(self) -> None:
        super()._crash_who_is_due()
        if self.killed.is_set() or not self.complete:
            return
        stored = self.stored
        decided = max(worker.decided.frontier.checkpoint for worker in self.workers)
        dead = sum(task.counters.dead for worker in self.workers for task in worker.spout_tasks.values())
        seen = decided, dead, len(stored.told), len(stored.counts.tuples)
        if seen != self._seen:
            self._seen = seen
            self._look_at(decided, dead)

    def _look_at(self, decided: int, dead: int) -> None:
        looked, stored = self.stored.looked, self.stored
        files = SimulatedFiles(_left(self._fate.disk, power=stored.durability != "process"), Random(0))
        try:
            with closing(StateDir(STATE_DIR, NAME, files=files)) as state, opened_stores(state) as stores:
                there = max(store.checkpoint for store in stores.values())
                letters = sum(store.loaded.letters for store in stores.values())
                marks = [mark for store in stores.values() for mark in store.loaded.marks if mark.component == "items"]
                counts = dict[int, Kept]()
                for store in stores.values():
                    counts |= _counts(store)
        finally:
            files.close()
        assert there >= decided, f"checkpoint {decided} was told to be decided, and {there} is"
        looked["decided"] += 1
        assert letters >= dead, f"{dead} letters were told of, and {letters} are kept"
        looked["letters"] += letters
        for id in stored.told:
            known = any(id < mark.position or any(a <= id <= b for a, b in mark.done) for mark in marks)
            assert known or id in BAD, f"message {id} is settled, and the marks are {marks}"
            looked["settled"] += 1
        if stored.durability != "checkpoint":
            for tup in stored.counts.tuples[self._from :]:
                key, count = tup.record.key, tup.record.count
                kept = counts.get(key if key >= 0 else -1 - key, Kept())
                has = kept.count if key >= 0 else kept.rung
                assert has >= count, f"count {count} of {key} has left, and kept is {kept}"
                looked["left"] += 1


def _left(disk: SimulatedDisk, *, power: bool) -> SimulatedDisk:
    """A disk with what a loss of power would leave of the state directory at least; or else a death of all."""
    fork = SimulatedDisk(Random(0))
    fork.boots = disk.boots + power
    fork.make_directory(STATE_DIR)
    directory = disk.directory(STATE_DIR)
    names = directory.durable if power else directory.names
    for name, node in names.items():
        content = bytearray(node.durable if power else node.content)
        fork.change(STATE_DIR, {name: FileNode(content, bytearray(content))})
    return fork


def _counts(store: SqliteStore) -> dict[int, Kept]:
    """What a store has of the state of the bolt that counts."""
    found = {}
    for row in store.states().rows.get("counts", ()):
        content = value_in(row.body[SUM_BYTES:])
        if content is not None:
            found[value_of(row.key)] = _decoded(content)
    return found


def live(seed: int, cuts: list[int], durability: power_cuts.Durability) -> tuple[Lived, Looked]:
    """As `power_cuts.live`, looked at; with what is stored in the end."""
    stored = Looked(durability)
    return power_cuts.live(seed, cuts, make=lambda: stored), stored
