"""What the tests of dead letters share: runs that keep state in one real store, and a store that has a bad day.

Virtual time, the real runtime, the real SQLite file. A second run over the same file is a restart.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random

from topology import Bolt, DeadLetter, Topology
from topology.filesystem.files import DiskFiles
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run.report import Report
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.encoding.packing import letter_of
from topology.storage.sqlite.schema import create_store
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import Store, StoreFull
from topology.storage.values import Changes, Letter, Loaded, LoadedStates
from topology.storage.worker_store import WorkerStore, open_store
from topology.testing import Watch, run_virtual
from topology.testing.virtual_time.loop import VirtualLoop
from topology.testing.virtual_time.worker import WatchedWorker

INCARNATIONS = itertools.count(1)  # of the worker, over all stores that a test opens


def store_at(path: Path, *, logged: bool = True) -> WorkerStore:
    """The store of worker 0 in this folder, for one more life; it is made where it is missing."""
    file = path / "worker-0.db"
    if not file.exists():
        create_store(DiskFiles(), file, id=bytes(16), number=0)
    return open_store(DiskFiles(), file, owner=(0, next(INCARNATIONS)), decided=0, logged=logged)


def letters_in(path: Path) -> list[Letter]:
    """What the store of a run that has ended holds."""
    store = SqliteStore(DiskFiles(), path / "worker-0.db")
    try:
        return store.letters()
    finally:
        store.close()


class Trying:
    """A store in front of a real one. `before` is called with all that is to be committed, prepared or concluded, and
    may raise; `after` once it is. `appending` is called with records of the log before they are written, and may raise;
    `appended` once they are, with the position behind them, and may raise too; `synced` with the position up to which
    the log survives a loss of power; `deciding` before a decision is taken in."""

    def __init__(
        self,
        store: Store,
        before: Callable[[Changes], None] = lambda changes: None,
        after: Callable[[Changes], None] = lambda changes: None,
        synced: Callable[[int], None] = lambda position: None,
        appending: Callable[[Sequence[bytes]], None] = lambda records: None,
        appended: Callable[[Sequence[bytes], int], None] = lambda records, position: None,
        deciding: Callable[[int], None] = lambda checkpoint: None,
    ) -> None:
        self._store = store
        self._before, self._after, self._synced = before, after, synced
        self._appending, self._appended, self._deciding = appending, appended, deciding

    @property
    def loaded(self) -> Loaded:
        return self._store.loaded

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def commits(self) -> int:
        return self._store.commits

    @property
    def log_bytes(self) -> int:
        return self._store.log_bytes

    @property
    def is_owing(self) -> bool:
        return self._store.is_owing

    def prepare(self, checkpoint: int, changes: Changes) -> None:
        self._before(changes)
        self._store.prepare(checkpoint, changes)
        self._after(changes)

    def decided(self, checkpoint: int) -> None:
        self._deciding(checkpoint)
        self._store.decided(checkpoint)

    def conclude(self, checkpoint: int, changes: Changes) -> None:
        self._before(changes)
        self._store.conclude(checkpoint, changes)
        self._after(changes)

    def append(self, records: Sequence[bytes]) -> int:
        self._appending(records)
        position = self._store.append(records)
        self._appended(records, position)
        return position

    def sync(self) -> int:
        position = self._store.sync()
        self._synced(position)
        return position

    def mark(self, checkpoint: int) -> None:
        self._store.mark(checkpoint)

    def states(self) -> LoadedStates:
        return self._store.states()

    def letters(self, names: Sequence[str] | None = None, after: str = "", limit: int = 1_000) -> list[Letter]:
        return self._store.letters(names, after, limit)

    def listed(self, after: str = "", limit: int = 1_000) -> list[Letter]:
        return self._store.listed(after, limit)

    def names(self) -> list[str]:
        return self._store.names()

    def copy_to(self, path: Path) -> int:
        return self._store.copy_to(path)

    def ended_in_order(self) -> None:
        self._store.ended_in_order()

    def close(self) -> None:
        self._store.close()


class Disk:
    """How full a disk is: nothing is committed or appended while `full`; `refused` counts that."""

    def __init__(self) -> None:
        self.full = False
        self.refused = 0

    def check(self, changes: object) -> None:
        if self.full:
            self.refused += 1
            raise StoreFull("no space left on device")


def run_kept(
    topology: Topology,
    store: Store | None,
    *,
    seed: int = 0,
    during: Callable[[EmbeddedRun], Awaitable[object]] | None = None,
    watch: Watch | None = None,
    limit_s: float = 10_000.0,
) -> Report:
    """One run on one worker that keeps its state there."""
    kind = partial(WatchedWorker, watch=watch or Watch(), seed=seed)

    async def main() -> Report:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        run = EmbeddedRun(topology, stores=lambda worker: store, random=Random(seed), utc=loop.utc, worker_kind=kind)
        if store is not None:
            run._first_checkpoint = store.loaded.checkpoint
        beside = asyncio.ensure_future(during(run)) if during is not None else None
        report = await run.finish()
        if beside is not None:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)
            if not beside.cancelled():
                beside.result()
        return report

    return run_virtual(main(), seed=seed, limit_s=limit_s)


async def until(condition: Callable[[], bool]) -> None:
    """Returns once this holds; virtual time limits it."""
    while not condition():  # noqa: ASYNC110 – virtual time, and nothing tells
        await asyncio.sleep(0.01)


async def dead_of(run: EmbeddedRun, count: int) -> None:
    """Returns once so many messages are dead."""
    await until(lambda: (snapshot := run.snapshot()) is not None and snapshot.total("dead") >= count)


async def asked(run: EmbeddedRun, act: str, *names: str, after: str = "", limit: int = 1_000) -> DeadAnswer:
    return await run.dead(DeadAsk(7, act, names, after, limit))


def letters_of(answer: DeadAnswer) -> list[Letter]:
    return [letter_of(data) for data in answer.letters]


class Paged(Bolt):
    """Keeps what it gets of dead letters, with their identities; `fails(letter)` may raise."""

    def __init__(self, fails: Callable[[DeadLetter], None] = lambda letter: None) -> None:
        self.fails = fails
        self.letters: list[DeadLetter] = []
        self.tried = 0

    def __deepcopy__(self, memo: object) -> "Paged":
        return self

    def process(self, letter: DeadLetter) -> Iterator[DeadLetter]:
        self.tried += 1
        self.fails(letter)
        self.letters.append(letter)
        yield letter
