"""Gives the tasks of a worker what its store has of their slots. Must not know bolts, nor what a store is made of."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from topology.groupings import task_of_slot
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.state.state_executor import StateExecutor
from topology.storage.encoding.entries import unpacked
from topology.storage.sqlite.errors import is_damaged, start_error
from topology.storage.store import StoreBroken
from topology.storage.values import LoadedStates, StateRow

SLOT: Final = attrgetter("slot")


async def restore(checkpoints: WorkerCheckpoints, executors: Sequence[StateExecutor], *, lives_on: bool) -> None:
    """Give each task what was kept of its slots. `lives_on`: it takes the place of a worker that has died in this run.
    Raises StartError where that is damaged."""
    store = checkpoints.store
    if store is None or not executors:
        return
    for executor in executors:
        if executor.timers is not None:
            executor.timers.due_times.resume(checkpoints.loaded.marks)
    try:
        _file(executors, await checkpoints.call(store.states), lives_on=lives_on)
    except StoreBroken as error:
        raise start_error(store.path, error) from error
    except ValueError as error:
        is_damaged(store.path, str(error))


def _file(executors: Iterable[StateExecutor], loaded: LoadedStates, *, lives_on: bool) -> None:
    """Raises ValueError for a row that is unreadable."""
    by_component: dict[str, dict[int, StateExecutor]] = {}
    for executor in executors:
        by_component.setdefault(executor.known_as, {})[executor.task] = executor
    for component, tasks in by_component.items():
        count = next(iter(tasks.values())).tasks
        filed: dict[int, list[StateRow]] = {task: [] for task in tasks}
        for slot, rows_of_slot in groupby(loaded.rows.get(component, ()), SLOT):  # there may be millions
            if (of_task := filed.get(task_of_slot(slot, count))) is not None:
                of_task.extend(rows_of_slot)
        for task, rows in filed.items():
            tasks[task].restore_keys(rows)
    for component, content in loaded.entries:
        tasks = by_component.get(component, {})
        if tasks:
            count = next(iter(tasks.values())).tasks
            classes, entries = unpacked(content)
            for entry in entries:
                if (at := task_of_slot(entry.slot, count)) in tasks:
                    tasks[at].restore_input(classes, entry, lives_on=lives_on)
