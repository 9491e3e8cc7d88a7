"""Assignment before a run: each worker's store gets the data of the tasks that the worker will run.

Marks, trials and dead letters stay with their task when the plan has moved it to another worker. State and known inputs
move by slots (`partition`). `spout_tasks` handles a spout with another number of tasks. Every step may be interrupted,
and the next start completes it (F56). The directory must be locked and checked, and no worker may run. Must not know
the plan, nor what a run is.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

from topology.codes.startup import STATE_REASSIGNMENT_FAILED
from topology.errors import StartError
from topology.storage.directory.checks import settled
from topology.storage.directory.state_dir import StateDir
from topology.storage.rescale.fired_timers import shared
from topology.storage.rescale.move import move
from topology.storage.rescale.partition import Placement, partition
from topology.storage.rescale.resolve import resolve
from topology.storage.rescale.spout_tasks import Rescaling, change, complete
from topology.storage.sqlite.errors import start_error
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import Changes, Mark

Placed = Mapping[int, Sequence[tuple[str, int]]]  # worker → the spouts' tasks on it, each (component, task)

EPOCHS_KEPT: Final = 8  # of each partition: a run resumes in the newest, and the file does not grow with every rotation


class FiledStores(NamedTuple):
    """The stores of a run that begins."""

    paths: Mapping[int, Path]  # by worker
    decided: int  # the last decided checkpoint
    lost: Sequence[str]  # a sentence for each accepted loss


def refile(
    state: StateDir,
    placed: Placed,
    kept: Mapping[str, Placement] = MappingProxyType({}),
    *,
    rescales: Mapping[str, Rescaling] = MappingProxyType({}),
    accept_duplicates: bool = False,
    accept_loss: bool = False,
) -> FiledStores:
    """Resolve all stores, make those that are missing, and move all data that is in the wrong store.

    kept      The placement of each bolt that has state or known inputs. The data of other bolts stays where it is.
    rescales  The effects of another number of tasks, by spout.
    accept_loss  Continue without a decision file, or logs, that are not there.

    Raises StartError; calling it again then completes the work.
    """
    state.make_stores([*placed])
    tasks: dict[str, int] = {}
    for component, task in (spout_task for on_worker in placed.values() for spout_task in on_worker):
        tasks[component] = max(tasks.get(component, 0), task + 1)
    homes = {spout_task: worker for worker, on_worker in placed.items() for spout_task in on_worker}
    with opened_as_they_are(state) as stores:
        decided, lost = resolve(state, stores, accept_loss=accept_loss)
        try:
            for component, count in tasks.items():
                complete(stores, component)
                if component in rescales:
                    rescales[component].check(stores, count, clean=state.clean, accept_duplicates=accept_duplicates)
            for component, count in tasks.items():
                own_ids = component in rescales and rescales[component].own_ids
                change(stores, component, count, homes[component, 0], own_ids=own_ids)
            move(stores, lambda component, task: _home(homes, component, task))
            partition(stores, kept)
            shared(stores)
            _thin_out(stores)
        except (StoreFull, StoreBroken) as error:
            _failed(state, error)
    return FiledStores({worker: stores[worker].path for worker in placed}, decided, lost)


@contextlib.contextmanager
def opened_stores(state: StateDir) -> Iterator[dict[int, SqliteStore]]:
    """Open all stores of the directory; yield worker → its store, as of the last decided checkpoint (`resolve`). None
    may be open elsewhere. At the end their numbers of commits are recorded in the directory. Raises StartError."""
    with opened_as_they_are(state) as stores:
        resolve(state, stores)
        yield stores


@contextlib.contextmanager
def opened_as_they_are(state: StateDir) -> Iterator[dict[int, SqliteStore]]:
    """Open all stores as `opened_stores` does, without resolving them."""
    stores: dict[int, SqliteStore] = {}
    with contextlib.ExitStack() as closing:
        for name in state.known_files:
            store = SqliteStore(state.files, state.path / name, checked=state.checked)
            closing.callback(store.close)
            stores[store.number] = store
        yield stores
        seen = {**state.known_files, **{store.path.name: store.commits for store in stores.values() if settled(store)}}
        if seen != state.known_files:
            state.record(seen)


def _home(homes: Mapping[tuple[str, int], int], component: str, task: int) -> int | None:
    """Return the worker that a task's data belongs to. The data of a removed task belongs to the first task, and that
    of a removed spout to no worker."""
    return homes.get((component, task), homes.get((component, 0)))


def _thin_out(stores: Mapping[int, SqliteStore]) -> None:
    """Delete the marks of epochs that are long over."""
    for store in stores.values():
        epochs: dict[tuple[str, int, str], list[Mark]] = {}
        for mark in store.reread().marks:
            epochs.setdefault((mark.component, mark.task, mark.partition), []).append(mark)
        over = [mark for marks in epochs.values() for mark in marks[:-EPOCHS_KEPT]]
        if over:
            store.replace(Changes(), marks=over)


def _failed(state: StateDir, error: StoreFull | StoreBroken) -> NoReturn:
    if isinstance(error, StoreBroken) and error.damaged is not None:
        raise start_error(error.damaged, error) from None
    text = f"the content of the state directory {state.path} could not be filed for this run's workers: {error}"
    raise StartError(text, code=STATE_REASSIGNMENT_FAILED) from None
