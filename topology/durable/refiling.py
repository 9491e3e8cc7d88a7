"""Before a run: each worker's store has what belongs to the tasks that the worker will run.

Marks, trials and dead letters stay with their task when the plan has put it on another worker, and state with its
journal goes by slots (`partition`). Where a spout has another number of tasks, what all of the former ones together had
reached becomes the mark of each new one, in one transaction of one store. Every step can be cut short, and the next
start goes on (F56). The directory has to be locked, and checked, and no worker be there. Must not know the plan, nor
what a run is.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn

import msgspec

from topology.codes.starting import K437
from topology.durable.checking import settled
from topology.durable.journal_filing import empty_journal
from topology.durable.moving import move
from topology.durable.partition import Placement, partition
from topology.durable.positions import common, newest
from topology.durable.refusing import start_error
from topology.durable.sqlite import SqliteStore
from topology.durable.statedir import StateDir
from topology.durable.store import StoreBroken, StoreFull
from topology.durable.values import Begun, Changes, Mark
from topology.errors import StartError

Placed = Mapping[int, Sequence[tuple[str, int]]]  # worker → the spouts' tasks on it, each (component, task)

EPOCHS_KEPT: Final = 8  # of each partition: a run resumes in the newest, and the file does not grow with every rotation
CHANGING: Final = -1  # the task of a `Begun` that says: this store has the marks of the new tasks, no other has any

logger = logging.getLogger("kedge")


def refile(state: StateDir, placed: Placed, kept: Mapping[str, Placement] = MappingProxyType({})) -> dict[int, Path]:
    """Makes the stores that are missing, and moves what is not where it belongs. `kept`: the placement of each bolt
    that has state or journal there; what is kept of others stays where it is. Where all was done when the last run
    ended, what is remembered of it is forgotten. Returns worker → the path of its store. Raises StartError, after which
    calling it again goes on."""
    state.make_stores([*placed])
    tasks: dict[str, int] = {}
    for component, task in (one for on_worker in placed.values() for one in on_worker):
        tasks[component] = max(tasks.get(component, 0), task + 1)
    homes = {one: worker for worker, on_worker in placed.items() for one in on_worker}
    with opened_stores(state) as stores:
        try:
            if state.clean:
                empty_journal(stores)
            for component, count in tasks.items():
                _complete(stores, component)
                _change(stores, component, count, homes[component, 0])
            move(stores, lambda component, task: _home(homes, component, task))
            partition(stores, kept)
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


# -- another number of tasks


def _change(stores: Mapping[int, SqliteStore], component: str, tasks: int, worker: int) -> None:
    """Where the former tasks were not as many as these: all of them have begun now, at what those had reached."""
    former = [one for store in stores.values() for one in store.reread().begun if one.component == component]
    begun = {one.task: one.tasks for one in former}
    if not begun or {*begun.values()} == {tasks}:
        return
    marks = [mark for store in stores.values() for mark in store.loaded.marks if mark.component == component]
    by_task = newest(marks)
    reached = common(begun, by_task)
    _tell(component, tasks, begun, reached, {mark.partition for mark in marks})
    now = [msgspec.structs.replace(mark, task=task) for task in range(tasks) for mark in reached.values()]
    ahead = sum(one.ahead for one in former)  # what all of them may have emitted beyond the marks, any of these gives
    first = stores[worker]
    old = [mark for mark in first.loaded.marks if mark.component == component]
    first.replace(
        Changes(marks=now, begun=[Begun(component, task, tasks, ahead) for task in (*range(tasks), CHANGING)]),
        marks=old,
        begun=[one for one in first.loaded.begun if one.component == component],
    )
    _complete(stores, component)


def _complete(stores: Mapping[int, SqliteStore], component: str) -> None:
    """Where one store has the marks of a changed number of tasks, the others forget those from before."""
    for store in stores.values():
        held = store.reread()
        changing = [one for one in held.begun if (one.component, one.task) == (component, CHANGING)]
        if not changing:
            continue
        for other in stores.values():
            there = other.reread()
            marks: list[Mark] = [mark for mark in there.marks if mark.component == component]
            begun = [one for one in there.begun if one.component == component]
            if other is not store and (marks or begun):
                other.replace(Changes(), marks=marks, begun=begun)
        store.replace(Changes(), begun=changing)


def _tell(
    component: str, tasks: int, begun: Mapping[int, int], reached: Mapping[str, Mark], partitions: set[str]
) -> None:
    before = max(begun.values())
    if len(reached) == len(partitions):
        logger.info("%r has %d tasks now, and had %d: all go on where those had been", component, tasks, before)
        return
    logger.warning(
        "%r has %d tasks now, and had %d; how far those had come together is known of %d of %d partitions, and the "
        "others are read from their beginning",
        *(component, tasks, before, len(reached), len(partitions)),
    )


def _failed(state: StateDir, error: StoreFull | StoreBroken) -> NoReturn:
    if isinstance(error, StoreBroken) and error.damaged is not None:
        raise start_error(error.damaged, error) from None
    text = f"what is in the state directory {state.path} could not be filed for this run's workers: {error}"
    raise StartError(text, code=K437) from None
