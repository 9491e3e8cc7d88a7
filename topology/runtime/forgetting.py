"""Forgetting, and taking up again: which rows of a worker's journal nobody needs any more, and what its executors get
of what was kept.

A row goes in the commit that keeps the floors by which it was forgotten, so that nothing that was forgotten is taken
for new after a restart (D5). Must not know bolts, nor what a store is made of.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from acker.floors import HOME_SHIFT, Floors
from acker.progress import Progress
from topology.durable.floors import floor_of, packed_floor
from topology.durable.journal import unpacked
from topology.durable.refusing import is_damaged, start_error
from topology.durable.store import StoreBroken
from topology.durable.values import Changes, KeptFloor, LoadedStates, StateRow
from topology.groupings import task_of_slot
from topology.runtime.committing import CommittingExecutor
from topology.runtime.keeping import Keeper
from topology.runtime.remembering import Row

FORGET_S: Final = 1.0  # between two commits that forget


class Forgetting:
    """A `keeping.Part`. Make it before the executors are parts: what is filed again is gathered by them."""

    def __init__(self, floors: Floors, keeper: Keeper) -> None:
        self.executors: Sequence[CommittingExecutor] = ()
        self._floors = floors
        self._keeper = keeper
        self._forgotten: list[int] = []
        self._kept: dict[int, Progress] = {}  # by home
        self._gathered: dict[int, Progress] = {}
        self._last = 0.0
        self._newest = 0  # row when rows were forgotten last
        floors.restore(floor_of(one.progress) for one in keeper.loaded.floors)
        keeper.add(self)

    def ends(self) -> None:
        """What is over goes with the next commit, which is the last: a timer that is done may not be there when the
        next run looks, as those who have had what it put out are made to forget that after a clean end."""
        self._last = -FORGET_S

    def gather(self, changes: Changes) -> None:
        self._forgotten, self._gathered = [], {}
        now = self._keeper.time()
        if not self.executors or now - self._last < FORGET_S:
            return
        self._last = now
        numbers = {number for executor in self.executors for number in executor.memory.empty_rows()}
        newest, self._newest = self._newest, self._keeper.next_row()
        for executor in self.executors:
            executor.refile(newest)
        if not numbers:
            return
        self._forgotten = sorted(numbers)
        changes.forgotten.extend(self._forgotten)
        announced = {one.newest >> HOME_SHIFT: one for one in self._floors.announced()}
        self._gathered = {home: one for home, one in announced.items() if self._kept.get(home) != one}
        changes.floors.extend(KeptFloor(home, packed_floor(one)) for home, one in self._gathered.items())

    def kept(self) -> None:
        self._kept.update(self._gathered)
        for executor in self.executors:
            executor.rows_gone(self._forgotten)

    def not_kept(self) -> None:
        """All of it is gathered again."""
        self._last = 0.0


async def restore(keeper: Keeper, executors: Sequence[CommittingExecutor]) -> None:
    """Gives each task what was kept of its slots. Raises StartError where that is damaged."""
    if keeper.store is None or not executors:
        return
    try:
        _file(executors, await keeper.call(keeper.store.states))
    except StoreBroken as error:
        raise start_error(keeper.store.path, error) from error
    except ValueError as error:
        is_damaged(keeper.store.path, str(error))


def _file(executors: Iterable[CommittingExecutor], loaded: LoadedStates) -> None:
    """Raises ValueError for a row that can't be read."""
    by_component: dict[str, dict[int, CommittingExecutor]] = {}
    for executor in executors:
        by_component.setdefault(executor.known_as, {})[executor.task] = executor
    for component, tasks in by_component.items():
        count = next(iter(tasks.values())).tasks
        filed: dict[int, list[StateRow]] = {task: [] for task in tasks}
        for row in loaded.rows.get(component, ()):
            if (of_task := filed.get(task_of_slot(row.slot, count))) is not None:
                of_task.append(row)
        for task, rows in filed.items():
            tasks[task].restore_keys(rows)
    for number, component, content in loaded.journal:
        tasks = by_component.get(component, {})
        if tasks:
            count = next(iter(tasks.values())).tasks
            classes, entries = unpacked(content)
            shared = Row(number, [(one.origin, one.identity) for one in entries], 0, kept=True)
            for one in entries:
                if (at := task_of_slot(one.slot, count)) in tasks:
                    tasks[at].restore_input(shared, classes, one)
