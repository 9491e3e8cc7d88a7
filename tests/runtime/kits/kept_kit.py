"""What the tests of state that survives share: what a run has kept, stores that are slow, full or broken, and runs on a
disk in memory. All of it goes through the real runtime on virtual time, and through real stores.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from letters_kit import Trying
from runtime_kit import Number

from topology import Bolt, State, Topology
from topology.filesystem.files import DiskFiles, Files
from topology.keys import value_of
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run import startup
from topology.runtime.run.lifecycle import Takeover
from topology.runtime.run.report import Report
from topology.runtime.state.value import StateCodec
from topology.runtime.worker.worker import Worker
from topology.storage.directory.decision import decided_in
from topology.storage.encoding import state as states
from topology.storage.encoding.entries import KnownEntry, unpacked
from topology.storage.encoding.log_records import LoggedInput, unpack
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreFull
from topology.storage.values import Changes, LoadedStates
from topology.storage.worker_store import WorkerStore, fold
from topology.testing import Watch, run_virtual
from topology.testing.simulator.run import STATE_DIR
from topology.testing.virtual_time.loop import VirtualLoop
from topology.testing.virtual_time.process import life_of
from topology.testing.virtual_time.worker import WatchedWorker

Hook = Callable[[Changes], None]


def nothing(changes: Changes) -> None:
    """Lets a commit be."""


class Counting(Bolt):
    """The state of each key is how many inputs it had; gives the count, and notes each number that it was given."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def __deepcopy__(self, memo: object) -> "Counting":
        return self

    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        self.given.append(number.n)
        state.set(state.get(0) + 1)
        yield Number(state.get(0))


# -- what is kept


def stored(path: Path, files: Files | None = None) -> list[LoadedStates]:
    """What the stores in a state directory hold, which nobody has open: as of the last decided checkpoint, with what
    their logs have since. `path` is a name only on another disk."""
    disk = files or DiskFiles()
    there = sorted(path.glob("worker-*.db")) if files is None else [path / "worker-0.db"]
    found = []
    with contextlib.ExitStack() as closing_all:
        stores = [closing_all.enter_context(closing(SqliteStore(disk, file))) for file in there]
        decided = decided_in(disk, path, stores, accept_loss=False)
        for store in stores:
            store.resolve(decided)
            fold(disk, store)
            found.append(store.states())
    return found


def kept_in(path: Path, component: str = "bolt", kind: Any = int, files: Files | None = None) -> dict[Any, Any]:
    """The state of each key, by its one field's value; () without one. A key is kept in one place only."""
    codec, found = StateCodec(component, kind, timed=True), dict[Any, Any]()
    for one in stored(path, files):
        for row in one.rows.get(component, ()):
            value = states.value_of(row.body[states.SUM_BYTES :])
            key = value_of(row.key) if row.key else ()
            assert key not in found
            found[key] = None if value is None else codec.decode(value)
    return found


def timers_in(path: Path, component: str = "bolt") -> dict[Any, dict[str, int]]:
    """The timers of each key, name → when they are due."""
    rows = [row for one in stored(path) for row in one.rows.get(component, ())]
    return {value_of(row.key) if row.key else (): dict(states.timers_of(row.body[states.SUM_BYTES :])) for row in rows}


def known_in(path: Path, component: str = "bolt", files: Files | None = None) -> list[KnownEntry]:
    """All inputs of a component that the stores know."""
    return [
        one for kept in stored(path, files) for row in kept.entries if row.component == component for one in of_row(row)
    ]


def of_row(row: Any) -> list[KnownEntry]:
    """What is in one row of known inputs."""
    return unpacked(row.entries)[1]


def inputs_of(records: Iterable[bytes]) -> list[LoggedInput]:
    """The inputs in records of a log."""
    return [one for record in records for one in unpack(record).inputs]


# -- stores


def dies() -> None:
    """End the worker whose code calls this, once this turn is over. For hooks of stores."""
    life = life_of()
    assert life is not None, "only in a run whose workers may crash"
    life.ending = True


def dies_unwritten() -> NoReturn:
    """The same where nothing may happen any more: what asked for it takes the disk for full."""
    dies()
    raise StoreFull("it dies")


def through(
    *,
    before: Hook = nothing,
    after: Hook = nothing,
    synced: Callable[[int], None] = lambda position: None,
    appending: Callable[[Sequence[bytes]], None] = lambda records: None,
    appended: Callable[[Sequence[bytes], int], None] = lambda records, position: None,
    deciding: Callable[[int], None] = lambda checkpoint: None,
    takes_s: float = 0.0,
) -> Callable[[Worker], None]:
    """For `Watch(before=…)`: each worker's store calls what `Trying` calls; what a thread does is done after `takes_s`,
    and told of as much later."""

    def begin(worker: Worker) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        if takes_s:
            loop.executor_takes = lambda: takes_s
        store = worker.checkpoints.store
        assert isinstance(store, WorkerStore)
        trying = Trying(store, before, after, synced, appending, appended, deciding)
        worker.checkpoints.store = trying
        if worker._log is not None:
            worker._log._store = trying

    return begin


def run_on(
    files: Files,
    topology: Topology,
    *,
    seed: int = 0,
    during: Callable[[EmbeddedRun], Awaitable[object]] | None = None,
    watch: Watch | None = None,
) -> Report:
    """One run of one worker, whose state directory is on this disk."""

    async def main() -> Report:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        run = EmbeddedRun(
            topology,
            state_dir=STATE_DIR,
            takeover=Takeover(report=lambda text: None),
            random=Random(seed),
            utc=loop.utc,
            worker_kind=partial(WatchedWorker, watch=watch or Watch(), seed=seed),
        )
        run._opens = partial(startup.opened, files=files, secret=Random(seed).randbytes)
        beside = asyncio.ensure_future(during(run)) if during is not None else None
        report = await run.finish()
        if beside is not None:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)
            if not beside.cancelled():
                beside.result()
        return report

    return run_virtual(main(), seed=seed)
