"""What the tests of state that survives share: what a run has kept, stores that are slow, full or broken, and runs on a
disk in memory. All of it goes through the real runtime on virtual time, and through real stores.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

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
from topology.storage.encoding import state as states
from topology.storage.encoding.journal import JournalInput, unpacked
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes, LoadedStates
from topology.testing import Watch, run_virtual
from topology.testing.simulator.run import STATE_DIR
from topology.testing.virtual_time.loop import VirtualLoop
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
    """What the stores in a state directory hold, which nobody has open. `path` is a name only on another disk."""
    there = path.glob("worker-*.db") if files is None else [path / "worker-0.db"]
    found = []
    for file in sorted(there):
        with closing(SqliteStore(files or DiskFiles(), file, lives=False)) as store:
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


def remembered_in(path: Path, component: str = "bolt") -> list[JournalInput]:
    """All that the journal holds of a component; what was filed again is there twice."""
    return [one for kept in stored(path) for row in kept.journal if row.component == component for one in of_row(row)]


def of_row(row: Any) -> list[JournalInput]:
    """What is in one row of the journal."""
    return unpacked(row.entries)[1]


# -- stores


def through(
    *,
    before: Hook = nothing,
    after: Hook = nothing,
    synced: Callable[[int], None] = lambda commits: None,
    takes_s: float = 0.0,
) -> Callable[[Worker], None]:
    """For `Watch(before=…)`: each worker's store calls `before` with what is to be committed, `after` once it is, and
    `synced` with how many commits were synced apart; what a thread does is done after `takes_s`, and told of as much
    later."""

    def begin(worker: Worker) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        if takes_s:
            loop.executor_takes = lambda: takes_s
        store = worker.group_commit.store
        assert isinstance(store, SqliteStore)
        worker.group_commit.store = Trying(store, before, after, synced)

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
