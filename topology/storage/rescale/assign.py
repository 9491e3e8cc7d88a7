"""Before a run: each worker's store has what belongs to the tasks that the worker will run.

Marks, trials and dead letters stay with their task when the plan has put it on another worker, and state with its
journal goes by slots (`partition`). Where a spout has another number of tasks: `rescaling`. Every step can be cut
short, and the next start goes on (F56). The directory has to be locked, and checked, and no worker be there. Must not
know the plan, nor what a run is.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn

from topology.codes.startup import STATE_REASSIGNMENT_FAILED
from topology.errors import StartError
from topology.storage.directory.checks import settled
from topology.storage.directory.state_dir import StateDir
from topology.storage.rescale.fired_timers import shared
from topology.storage.rescale.journal import empty_journal
from topology.storage.rescale.move import move
from topology.storage.rescale.partition import Placement, partition
from topology.storage.rescale.spout_tasks import Rescaling, change, complete
from topology.storage.sqlite.errors import start_error
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import Changes, Mark

Placed = Mapping[int, Sequence[tuple[str, int]]]  # worker → the spouts' tasks on it, each (component, task)

EPOCHS_KEPT: Final = 8  # of each partition: a run resumes in the newest, and the file does not grow with every rotation


def refile(
    state: StateDir,
    placed: Placed,
    kept: Mapping[str, Placement] = MappingProxyType({}),
    *,
    rescales: Mapping[str, Rescaling] = MappingProxyType({}),
    accept_duplicates: bool = False,
) -> dict[int, Path]:
    """Makes the stores that are missing, and moves what is not where it belongs. `kept`: the placement of each bolt
    that has state or journal there; what is kept of others stays where it is. Where all was done when the last run
    ended, what is remembered of it is forgotten. `rescales`: what another number of tasks would do, by spout. Returns
    worker → the path of its store. Raises StartError, after which calling it again goes on."""
    state.make_stores([*placed])
    tasks: dict[str, int] = {}
    for component, task in (one for on_worker in placed.values() for one in on_worker):
        tasks[component] = max(tasks.get(component, 0), task + 1)
    homes = {one: worker for worker, on_worker in placed.items() for one in on_worker}
    with opened_stores(state) as stores:
        try:
            for component, count in tasks.items():
                complete(stores, component)
                if component in rescales:
                    rescales[component].check(stores, count, clean=state.clean, accept_duplicates=accept_duplicates)
            if state.clean:
                empty_journal(stores)
            for component, count in tasks.items():
                own_ids = component in rescales and rescales[component].own_ids
                change(stores, component, count, homes[component, 0], own_ids=own_ids)
            move(stores, lambda component, task: _home(homes, component, task))
            partition(stores, kept)
            shared(stores)
            _thin_out(stores)
        except (StoreFull, StoreBroken) as error:
            _failed(state, error)
    return {worker: stores[worker].path for worker in placed}


@contextlib.contextmanager
def opened_stores(state: StateDir) -> Iterator[dict[int, SqliteStore]]:
    """Worker → its store, of all that there are, none of which is open anywhere else. At the end the directory knows
    how many commits they have seen. Raises StartError."""
    stores: dict[int, SqliteStore] = {}
    with contextlib.ExitStack() as closing:
        for name in state.known_files:
            store = SqliteStore(state.files, state.path / name, lives=False, checked=state.checked)
            closing.callback(store.close)
            stores[store.number] = store
        yield stores
        seen = {**state.known_files, **{store.path.name: store.commits for store in stores.values() if settled(store)}}
        if seen != state.known_files:
            state.record(seen)


def _home(homes: Mapping[tuple[str, int], int], component: str, task: int) -> int | None:
    """Where it belongs: with a task that is there no more, to the first one; of a spout that is there no more, to
    nobody."""
    return homes.get((component, task), homes.get((component, 0)))


def _thin_out(stores: Mapping[int, SqliteStore]) -> None:
    """Forgets the marks of epochs that are long over."""
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
    text = f"what is in the state directory {state.path} could not be filed for this run's workers: {error}"
    raise StartError(text, code=STATE_REASSIGNMENT_FAILED) from None
