"""The power fails where commits are written, and synced apart (`durability="process"`): what holds all the same.

What is told was synced before: a mark that is announced, a dead letter that is counted, that a source may emit. What
was not may be gone, of each store from some write on. So every message is processed or a dead letter, once at sinks
that drop what they have; what a state has lost is lost, but nothing counts in it twice, and no row of the journal is
gone without the floor that lets it go. `Looked` opens, after each turn of the loop, what a loss of power would leave.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final
from unittest import mock

from acker.floors import HOME_SHIFT, Floors
from acker.progress import NUMBER_BITS, Progress
from acker.roots import NUMBER_SHIFT
from tests.simulation import power_cuts
from tests.simulation.power_cuts import (
    KEYS,
    MESSAGES,
    NAME,
    PART,
    PAUSE_S,
    Count,
    Counts,
    CutDisk,
    CutRun,
    Draws,
    Item,
    Kept,
    Lived,
    Stored,
)
from topology import Config, State, Topology
from topology.errors import Reject
from topology.keys import value_of
from topology.runtime.tasks.pending import Pending
from topology.storage.encoding.floors import floor_of
from topology.storage.encoding.journal import JournalInput, unpacked
from topology.storage.rescale.fired_timers import OF
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Mark
from topology.testing import Pause, ScriptedSpout
from topology.testing.simulator.disk import FileNode, SimulatedDisk
from topology.testing.simulator.files import SimulatedFiles
from topology.testing.simulator.run import STATE_DIR, SimulatedWorker

BAD: Final = frozenset(range(9, MESSAGES, 16))  # messages that end dead
SYNC_S: Final = 0.1  # that a sync takes at most: as long as a few commits beside it
LOG_PAGES: Final = 60  # of a log that is put into the file: after some syncs, and not after each
FORGET_S: Final = 0.05  # so that rows leave all the time,
GONE_LEAST: Final = 1  # and with commits of both kinds
AHEAD_MIN: Final = 4  # so that the source waits for what is synced


class Refuses(Counts):
    """As `Counts`, of all messages but some."""

    def process(self, item: Item, state: State[Kept]) -> Iterator[Count]:
        if item.n in BAD:
            raise Reject("it is a bad one")
        yield from super().process(item, state)


class PrefixDisk(CutDisk):
    """Mostly a loss of power leaves each file as it was after one of its writes, from the last sync on."""

    def _lose(self, node: FileNode) -> None:
        if self._random.random() < 0.2:
            super()._lose(node)
            return
        writes = len(node.unsynced)
        del node.unsynced[self._random.choice([0, writes, self._random.randint(0, writes)]) :]
        SimulatedDisk.sync(self, node)
        node.content = bytearray(node.durable)


@dataclass
class Unsynced(Stored):
    """Of a run whose commits are synced apart, a few messages of which are bad."""

    disk_kind: type[CutDisk] = PrefixDisk

    def topology(self, tasks: int) -> Topology:
        script: list[Any] = []
        for n in range(MESSAGES):
            script += [Pause(PAUSE_S if n % PART == 0 else 0.01), Item(n, n % KEYS)]
        config = Config(max_replays=1_000, max_restarts=1_000, tree_timeout_s=5, durability="process")
        topology = Topology(NAME, config)
        items = topology.spout("items", ScriptedSpout([*script, Pause(PAUSE_S)]))
        counts = topology.bolt("counts", Refuses(), items.fields("key"), tasks=tasks)
        drawn = topology.bolt("draws", Draws(), counts.shuffle(), tasks=tasks)
        topology.bolt("captured-counts", self.counts, counts.global_())
        topology.bolt("captured-drawn", self.drawn, drawn.global_())
        return topology

    def check(self) -> None:
        """Fails unless each message has come to both sinks once, or is dead, and counts once at most, as does the timer
        that it has set where it counts."""
        assert sorted(self.letters) == sorted(BAD), f"there are letters of {self.letters}"
        each = Counter(n % KEYS for n in range(MESSAGES) if n not in BAD)
        for name, found in (("counts", self.counts.distinct), ("drawn", self.drawn.distinct)):
            given = Counter(one.key for one in found.values() if one.key >= 0)
            assert given == each, f"{name}: messages of each key: {given}, and not {each}"
        for key, kept in self.state.items():
            assert kept.count <= each[value_of(key)], f"of {each[value_of(key)]} messages of a key, {kept} counts more"
            assert kept.rung == kept.count, f"as many timers have fired as were set: {kept}"


# -- what a loss of power would leave


@contextmanager
def left(disk: SimulatedDisk, path: Path, writes: int) -> Iterator[SqliteStore]:
    """The store as it would be with so many of the writes into its log that are not synced. Raises StartError."""
    fork = SimulatedDisk(Random(0))
    fork.make_directory(STATE_DIR)
    for name, kept in ((path.name, 0), (f"{path.name}-wal", writes)):
        if (node := disk.node(STATE_DIR / name)) is not None:
            copy = FileNode(bytearray(node.durable))
            for offset, data in node.unsynced[:kept]:
                if data is None:
                    fork.truncate(copy, offset)
                else:
                    fork.write(copy, offset, data)
            fork.change(STATE_DIR, {name: copy})
    files = SimulatedFiles(fork, Random(0))
    try:
        store = SqliteStore(files, path, lives=False)
        try:
            yield store
        finally:
            store.close()
    finally:
        files.close()


class NotingWorker(SimulatedWorker):
    """`ids` notes which messages are done: number → id."""

    ids: ClassVar[dict[int, Any]]

    def completed(self, trees: list[Any]) -> None:
        self.ids.update({one.root >> NUMBER_SHIFT: one.message.id for one in trees if isinstance(one, Pending)})
        super().completed(trees)


class LookingRun(CutRun):
    """`ids` is that of its workers; `looked` counts what was found to hold."""

    ids: ClassVar[dict[int, Any]]
    looked: ClassVar[Counter[str]]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._chance = Random(0)
        self._told: Any = None
        self._sizes: dict[Path, tuple[int, int]] = {}
        self._rows: dict[Path, dict[int, list[JournalInput]]] = {}  # of the journal, that were there

    def _crash_who_is_due(self) -> None:
        super()._crash_who_is_due()
        if self.killed.is_set():
            return
        told = [(one.owner, one.floors.version, *_told_of(one)) for one in self.workers]
        if told != self._told:
            self._told = told
            for worker in self.workers:
                self._look_at_what_was_told(worker)
        for store in self._kept.values():
            self._look_at_rows(store.path)

    def _look_at_what_was_told(self, worker: Any) -> None:
        """By this worker, and of it: what is synced says so (D4, E2)."""
        newest, letters = _told_of(worker)
        with left(self._fate.disk, self._kept[worker.worker].path, 0) as store:
            loaded = store.loaded
        marked: list[Any] = [mark.newest for mark in loaded.marks if not mark.component.startswith(OF)]
        beyond = newest - max(marked, default=-1)
        ahead = sum(one.ahead for one in loaded.begun)
        assert beyond <= ahead, f"it is {beyond} messages ahead of what is synced, and that it may be so {ahead}"
        assert letters <= loaded.letters, f"{letters} letters were told of, and {loaded.letters} are synced"
        self.looked["letters"] += letters
        for other in self.workers:
            for progress in other.floors.announced():
                if progress.newest >> HOME_SHIFT == worker.worker:
                    self._look_at_announced(progress, loaded.marks)

    def _look_at_announced(self, progress: Progress, marks: tuple[Mark, ...]) -> None:
        """Of the life that says so: what earlier ones had done and no mark says is refused, and given again."""
        for message, id in self.ids.items():
            if message >> NUMBER_BITS == progress.first and progress.covers(message):
                self.looked["announced"] += 1
                known = any(id < mark.position or any(a <= id <= b for a, b in mark.done) for mark in marks)
                assert known, f"message {id} is announced as done, and synced is {marks}"

    def _look_at_rows(self, path: Path) -> None:
        """Of what was written and not synced, all may be left, or some (D5)."""
        node = self._fate.disk.node(path.with_name(f"{path.name}-wal"))
        if node is None:
            return
        size, before = (len(node.content), len(node.unsynced)), self._sizes.get(path, (0, 0))
        if size == before:
            return
        self._sizes[path] = size
        first = before[1] if before[1] < size[1] else 0
        for writes in (self._chance.randint(first, size[1]), size[1]):
            with left(self._fate.disk, path, writes) as store:
                self._look_at_gone(path, store)

    def _look_at_gone(self, path: Path, store: SqliteStore) -> None:
        there = {one.number: unpacked(one.entries)[1] for one in store.journal()}
        known = {(one.origin, one.identity) for entries in there.values() for one in entries}
        floors = Floors(range(2))
        floors.restore(floor_of(one.progress) for one in store.loaded.floors)
        seen = self._rows.setdefault(path, {})
        seen.update(there)
        for number in seen.keys() - there.keys():
            for one in seen.pop(number):
                self.looked["gone"] += 1
                stale = all(floors.refuses(message) for message in one.messages)
                assert stale or (one.origin, one.identity) in known, (
                    f"row {number} is gone, and its input is new: {one}"
                )


def _told_of(worker: Any) -> tuple[int, int]:
    """The newest message that is under way, and of how many dead letters it has told."""
    under_way: list[Any] = [one.message.id for one in worker.ledger.trees() if isinstance(one, Pending)]
    return max(under_way, default=-1), sum(one.counters.dead for one in worker.spout_tasks.values())


@dataclass
class Looked(Unsynced):
    """What was found to hold is counted: messages that were announced, letters that were told, inputs that are gone."""

    looked: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        ids: dict[int, Any] = {}
        self.worker_kind = type("Noting", (NotingWorker,), {"ids": ids})
        self.run_kind = type("Looking", (LookingRun,), {"ids": ids, "looked": self.looked})


def live(seed: int, cuts: list[int], make: Callable[[], Unsynced] = Unsynced) -> tuple[Lived, Unsynced]:
    """As `power_cuts.live`; with what is stored in the end."""
    stored = make()
    with (
        mock.patch.multiple("topology.runtime.state.garbage", FORGET_S=FORGET_S, GONE_LEAST=GONE_LEAST),
        mock.patch("topology.runtime.tasks.read_ahead.AHEAD_MIN", AHEAD_MIN),
        mock.patch("topology.testing.simulator.run.SYNC_S", SYNC_S),
        mock.patch.object(power_cuts, "LOG_PAGES", LOG_PAGES),
    ):
        return power_cuts.live(seed, cuts, make=lambda: stored), stored
