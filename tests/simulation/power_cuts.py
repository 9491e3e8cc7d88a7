"""The power fails at the n-th operation on the disk, for every n: of a whole run, and of the run that begins on what is
left. The real runtime, stores and SQLite, on a simulated disk and virtual time; after it all is exact.

    python -m tests.simulation.power_cuts            each operation of a run, and of each kind of recovery
    python -m tests.simulation.power_cuts --n 417    one of them again
    python -m tests.simulation.power_cuts --durability process

What the topology has: a state that counts, timers that are part of it, a bolt whose outputs are drawn and remembered,
below the count. The operation that fails is not done; what was not synced before is lost, kept or torn by the seed.

With durability "disk" nothing is computed twice. Else the run goes back to a checkpoint, and what came last under each
name is exact.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final, Literal
from unittest import mock

from topology import Bolt, Config, Record, State, Task, Topology
from topology.keys import value_of
from topology.runtime.run.report import Report
from topology.storage.directory.state_dir import StateDir
from topology.storage.rescale.assign import opened_stores
from topology.testing import Captured, Pause, ScriptedSpout, Watch
from topology.testing.simulator.between_runs import BetweenRuns
from topology.testing.simulator.disk import Change, FileNode, SimulatedDisk
from topology.testing.simulator.expected import quiet
from topology.testing.simulator.fate import STATE_DIR, Fate
from topology.testing.simulator.faults import FaultyLinks
from topology.testing.simulator.files import SimulatedFiles
from topology.testing.simulator.run import SimulatedRun, SimulatedWorker, takes
from topology.testing.simulator.sinks import SimulatedSinks
from topology.testing.virtual_time.loop import VirtualLoop, run_virtual
from topology.testing.virtual_time.process import SimulatedProcess
from topology.testing.virtual_time.slow_control import ORDER_S

NAME: Final = "power-cuts"
Durability = Literal["disk", "process", "checkpoint"]
DURABILITIES: Final[tuple[Durability, ...]] = ("disk", "process", "checkpoint")
MESSAGES: Final = 48
KEYS: Final = 3
PART: Final = 8  # messages from one pause to the next: long enough for what is done to be forgotten
PAUSE_S: Final = 0.35
LIVES_MAX: Final = 8
LIMIT_S: Final = 300.0  # of virtual time
LOG_PAGES: Final = 12  # so that the log is put into the file several times in a run
LATER: Final = ((2, 2), (1, 1), (3, 2))  # tasks and workers of the run that goes on: the same, fewer, and more slots
CUTS_A_PROCESS: Final = 50
RECOVERY: Final = 300  # operations of a run that goes on: all until it reads on, and some more


class PowerCut(BaseException):
    """There is no power. Nobody may take it for an error of the disk's."""


class CutDisk(SimulatedDisk):
    """As `SimulatedDisk`. `done` names the operations that it has done; at number `cut_at`, 1 being the first, it does
    none any more until `lose_power`: it is `off`."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.done: list[str] = []
        self.cut_at = 0
        self.off = False

    def _before(self, operation: str) -> None:
        self.off = self.off or len(self.done) + 1 == self.cut_at
        if self.off:
            raise PowerCut
        self.done.append(operation)

    def change(self, path: Path, changed: Change) -> None:
        self._before(f"name {path.name}")
        super().change(path, changed)

    def write(self, node: FileNode, offset: int, data: bytes) -> None:
        self._before("write")
        super().write(node, offset, data)

    def allocate(self, node: FileNode, size: int) -> None:
        self._before("allocate")
        super().allocate(node, size)

    def truncate(self, node: FileNode, size: int) -> None:
        self._before("truncate")
        super().truncate(node, size)

    def sync(self, node: FileNode) -> None:
        self._before("sync")
        super().sync(node)

    def sync_directory(self, path: Path) -> None:
        self._before("sync directory")
        super().sync_directory(path)

    def lose_power(self) -> None:
        """It has power again afterwards, and counts anew."""
        self.off, self.cut_at, self.done = False, 0, []
        super().lose_power()


class CutRun(SimulatedRun):
    """All of it is dead in the turn of the loop in which the power was cut."""

    def _crash_who_is_due(self) -> None:
        if self._fate.disk.off:  # type: ignore[attr-defined]  # a CutDisk
            self._kill_all(power=True)
        else:
            super()._crash_who_is_due()


# -- what runs


class Item(Record):
    n: int
    key: int


class Count(Record):
    key: int
    count: int


class Drawn(Record):
    key: int
    count: int
    drawn: int


class Kept(Record):
    count: int = 0
    rung: int = 0


class Counts(Bolt):
    """Counts inputs, and the timers that each of them sets, under negative keys."""

    fires_at_end = True

    def open(self, task: Task) -> None:
        self.clock, self.random = task.clock, task.random

    def process(self, item: Item, state: State[Kept]) -> Iterator[Count]:
        kept = state.get(Kept())
        state.set(Kept(kept.count + 1, kept.rung))
        state.timer(self.clock.utc() + timedelta(seconds=self.random.uniform(0.05, 0.6)), f"{item.n}")
        yield Count(item.key, kept.count + 1)

    def on_timer(self, key: tuple[int], name: str, state: State[Kept]) -> Iterator[Count]:
        kept = state.get(Kept())
        state.set(Kept(kept.count, kept.rung + 1))
        yield Count(-1 - key[0], kept.rung + 1)


class Draws(Bolt):
    deterministic: ClassVar[bool] = False

    def open(self, task: Task) -> None:
        self.random = task.random

    def process(self, count: Count) -> Iterator[Drawn]:
        yield Drawn(count.key, count.count, self.random.getrandbits(60))


@dataclass
class Stored:
    """What sinks hold that drop what they have, over all lives; in the end also the state of the bolt that counts, and
    the ids that dead letters are of. Who lives through it is of these kinds."""

    durability: Durability = "disk"
    counts: Captured[Count] = field(default_factory=Captured)
    drawn: Captured[Drawn] = field(default_factory=Captured)
    state: Mapping[bytes, Kept] = field(default_factory=dict)
    letters: Sequence[Any] = ()
    disk_kind: type[CutDisk] = CutDisk
    run_kind: type[CutRun] = CutRun
    worker_kind: type[SimulatedWorker] = SimulatedWorker

    def topology(self, tasks: int) -> Topology:
        script: list[Any] = []
        for n in range(MESSAGES):
            script += [Pause(PAUSE_S)] if n % PART == 0 else []
            script.append(Item(n, n % KEYS))
        config = Config(max_replays=1_000, max_restarts=1_000, tree_timeout_s=5, durability=self.durability)
        topology = Topology(NAME, config)
        items = topology.spout("items", ScriptedSpout([*script, Pause(PAUSE_S)]))
        counts = topology.bolt("counts", Counts(), items.fields("key"), tasks=tasks)
        drawn = topology.bolt("draws", Draws(), counts.shuffle(), tasks=tasks)
        topology.bolt("captured-counts", self.counts, counts.global_())
        topology.bolt("captured-drawn", self.drawn, drawn.global_())
        return topology

    def check(self) -> None:
        """Fails unless each key has come to each of its counts once, timers too, and each was drawn for once."""
        if self.durability == "disk":
            assert self.counts.unstable == [], f"one output with two contents: {self.counts.unstable[:3]}"
            assert self.drawn.unstable == [], f"drawn again: {self.drawn.unstable[:3]}"
        each = Counter(n % KEYS for n in range(MESSAGES))
        wanted = Counter(
            Count(at, n) for key, many in each.items() for at in (key, -1 - key) for n in range(1, many + 1)
        )
        counts, drawn = _last(self.counts), Counter(Count(one.key, one.count) for one in _last(self.drawn).elements())
        for name, found in (("counts", counts), ("drawn", drawn)):
            assert found == wanted, f"{name}: more {[*(found - wanted)][:5]}, missing {[*(wanted - found)][:5]}"
        state = {value_of(key): kept for key, kept in self.state.items()}
        assert state == {key: Kept(many, many) for key, many in each.items()}, f"the state is {state}"


def _last(captured: Captured[Any]) -> Counter[Any]:
    """The records that came last under each name."""
    return Counter({(tup.origin, tup.identity): tup.record for tup in captured.tuples}.values())


# -- one simulation


@dataclass
class Lived:
    """How one has gone. `operations`: what the disk had done in each life; `known`: rows of inputs that are left."""

    operations: list[list[str]]
    known: int


def live(
    seed: int, cuts: Sequence[int], later: tuple[int, int] = LATER[0], make: Callable[[], Stored] = Stored
) -> Lived:
    """One run in its lives: in life i the power is cut at operation cuts[i], if it comes to that; in the first there
    are two tasks on two workers, in others `later`. Raises AssertionError where what is stored is not exact."""
    stored = make()
    random = Random(seed)
    disk = stored.disk_kind(Random(random.getrandbits(64)))
    files = SimulatedFiles(disk, Random(random.getrandbits(64)))
    files.make_directory(STATE_DIR, 0o700)
    links = FaultyLinks(Random(random.getrandbits(64)), {}, Counter())
    between = BetweenRuns(random, (), [], [], random)  # nothing happens between them but the cut
    fate = Fate(
        Random(random.getrandbits(64)),
        0,  # messages: no strike waits for their end
        [],
        ORDER_S,
        False,
        [],
        links,
        Counter(),
        disk,
        files,
        between,
        dies=False,
        sinks=SimulatedSinks({}),
    )
    try:
        with (
            quiet(),
            mock.patch("topology.storage.sqlite.database.LOG_PAGES", LOG_PAGES),
        ):
            lived = run_virtual(_lived(stored, fate, disk, cuts, later, seed), seed=seed, limit_s=LIMIT_S)
        stored.check()
        return lived
    finally:
        fate.files.close()


async def _lived(
    stored: Stored, fate: Fate, disk: CutDisk, cuts: Sequence[int], later: tuple[int, int], seed: int
) -> Lived:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.executor_takes = takes(Random(seed))
    lived, gone = Lived([], 0), list[CutRun]()
    try:
        for life in range(LIVES_MAX):
            disk.cut_at = cuts[life] if life < len(cuts) else 0
            tasks, workers = later if life else LATER[0]
            watch = Watch()
            run = stored.run_kind(
                stored.topology(tasks),
                fate=fate,
                life=(own := SimulatedProcess()),
                watch=watch,
                orders=Random(fate.random.getrandbits(64)),
                random=Random(fate.random.getrandbits(64)),
                workers=workers,
                worker_kind=partial(_kind(stored, fate), watch=watch, seed=seed),
                utc=loop.utc,
            )
            gone.append(run)
            report = await _one(run, own, fate, disk, lived)
            loop.unhandled = [one for one in loop.unhandled if not isinstance(one.get("exception"), PowerCut)]
            if report is not None:
                assert report.ended == "ended", f"life {life} {report.ended}: {report.error!r}"
                stored.state = watch.state("counts")
                lived.known, stored.letters = _left(fate)
                return lived
            await asyncio.sleep(1.0)
    finally:
        for run in gone:
            run.let_go()
    raise AssertionError(f"it has not ended after {LIVES_MAX} lives")


def _kind(stored: Stored, fate: Fate) -> Any:
    return type("Made", (stored.worker_kind,), {"done": fate.done, "paths": fate.paths, "refused": fate.refused})


async def _one(run: CutRun, own: SimulatedProcess, fate: Fate, disk: CutDisk, lived: Lived) -> Report | None:
    """One life; None where the power was cut in it."""
    lived.operations.append([])
    disk.done = lived.operations[-1]
    finishing = own.task(run.finish())
    killed = asyncio.ensure_future(run.killed.wait())
    await asyncio.wait({finishing, killed}, return_when=asyncio.FIRST_COMPLETED)
    if not finishing.done():  # cut while it went on
        return None
    killed.cancel()
    error = finishing.exception()
    if disk.off:  # cut as it began or ended, when nobody looks between the turns
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for worker in run.workers:
            loop.kill(worker.life)
        loop.kill(own)
        fate.new_machine(power=True)
        return None
    if error is not None:
        raise error
    fate.new_machine(power=False)
    return finishing.result()


def _left(fate: Fate) -> tuple[int, list[Any]]:
    """CapturedRows that the stores have of what bolts remember, and the ids that their dead letters are of."""
    with contextlib.closing(StateDir(STATE_DIR, NAME, files=fate.files)) as state, opened_stores(state) as stores:
        letters = [one.id for store in stores.values() for one in store.letters()]
        return sum(len(store.entries()) for store in stores.values()), letters


# -- all of them


@dataclass(frozen=True)
class Cut:
    """One simulation: the power is cut at operation `n` of the first life, or, where `recovering`, of the run that goes
    on with `later` tasks and workers where the power was cut at `first` before."""

    n: int
    recovering: bool = False
    first: int = 0
    later: tuple[int, int] = LATER[0]
    durability: Durability = "disk"

    def live(self, seed: int) -> Lived:
        cuts = [self.first, self.n] if self.recovering else [self.n]
        lived = live(seed, cuts, self.later, lambda: Stored(self.durability))
        assert len(lived.operations) == 2 + self.recovering, f"it has hit nothing: {[*map(len, lived.operations)]}"
        return lived


def all_cuts(seed: int, durability: Durability = "disk") -> list[Cut]:
    """Every operation of a whole run, and of recovery by each kind of successor, from some moment of the middle on."""
    whole = len(live(seed, [], make=lambda: Stored(durability)).operations[0])
    cuts = [Cut(n, later=LATER[n % len(LATER)], durability=durability) for n in range(1, whole + 1)]
    for at, later in enumerate(LATER):
        first = whole * (at + 1) // (len(LATER) + 1)
        cuts += [Cut(n, True, first, later, durability) for n in range(1, RECOVERY + 1)]
    return cuts


def failure(cut: Cut, seed: int) -> str:
    """What was not exact after it; empty where all was."""
    try:
        cut.live(seed)
    except Exception as error:
        return f"{cut}: {type(error).__name__}: {error}"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Cuts the power at each operation on the disk, and counts.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--durability", choices=DURABILITIES, default="disk")
    parser.add_argument("--n", type=int, help="one of them again, here: its number")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    given = parser.parse_args(arguments)
    cuts, begun, failed = all_cuts(given.seed, given.durability), time.monotonic(), 0
    if given.n is not None:
        cuts[given.n].live(given.seed)
        print(f"{cuts[given.n]} is exact")
        return 0
    # What is killed in a process stays there (`lives`), so none does many.
    with get_context("spawn").Pool(given.jobs, maxtasksperchild=CUTS_A_PROCESS) as pool:
        for number, said in enumerate(pool.imap(partial(failure, seed=given.seed), cuts)):
            if said:
                failed += 1
                print(f"FAILED: --durability {given.durability} --seed {given.seed} --n {number}: {said}", flush=True)
            elif number % 500 == 499:
                print(f"{number + 1:,} of {len(cuts):,}", flush=True)
    print(f"{len(cuts):,} cuts in {time.monotonic() - begun:.0f} s, {failed} of them not exact afterwards")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
