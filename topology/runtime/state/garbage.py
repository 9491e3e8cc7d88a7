"""Forgets the rows of a worker's journal that are needed no more, and gives its executors what earlier lives have kept.

A row goes once the floors are kept by which it was forgotten, so that nothing that was forgotten is taken for new
after a restart (D5); a few with each commit that is made anyway, or many at once would hold up one of them. Those of
timers go with the floors, and are over when that is durable (D17). Must not know bolts, nor what a store is made of.
"""

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from acker.floors import HOME_SHIFT, Floors
from acker.progress import Progress
from topology.groupings import task_of_slot
from topology.runtime.commits.group_commit import GroupCommit
from topology.runtime.state.committed import CommittedStateExecutor
from topology.runtime.state.dedup import RememberedRow
from topology.storage.encoding.floors import floor_of, packed_floor
from topology.storage.encoding.journal import unpacked
from topology.storage.sqlite.errors import is_damaged, start_error
from topology.storage.store import StoreBroken
from topology.storage.values import Changes, KeptFloor, LoadedStates, StateRow

FORGET_S: Final = 1.0  # between two looks at what can be forgotten
GONE_LEAST: Final = 16  # rows for which a commit is asked to take some along,
GONE_EACH: Final = 32  # and how many it takes,
GONE_MAX: Final = 256  # or one of all parts; and twice as many as there are tasks at least, or the journal would grow
GONE_BYTES: Final = 16 << 10  # of more than those least a commit takes no more than this along,
GONE_BYTES_MAX: Final = 8 << 20  # or one of all parts


class Leaving:
    """Rows that are needed no more: some go with each commit. A `UrgentPart` in no hurry itself."""

    def __init__(self) -> None:
        self.executors: Sequence[CommittedStateExecutor] = ()
        self.most, self.bytes_most = GONE_EACH, GONE_BYTES  # that the next commit takes along
        self._left: deque[tuple[int, int]] = deque()  # numbers, and bytes on the disk, the oldest first
        self._numbers: set[int] = set()  # theirs, and those of rows that go just now
        self._gathered: list[tuple[int, int]] = []

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def add(self, rows: Mapping[int, int]) -> None:
        self._left.extend(rows.items())
        self._numbers.update(rows)

    @property
    def waiting_to_be_kept(self) -> int:
        return 1 if len(self._left) >= GONE_LEAST else 0

    def gather(self, changes: Changes) -> None:
        least, self._gathered, stored = 2 * len(self.executors), [], 0
        most = max(self.most, least)
        while self._left and len(self._gathered) < (most if stored < self.bytes_most else least):
            row = self._left.popleft()
            self._gathered.append(row)
            stored += row[1]
        self.most, self.bytes_most = GONE_EACH, GONE_BYTES
        changes.forgotten.extend(number for number, _ in self._gathered)
        changes.forgotten_bytes += stored

    def kept(self) -> None:
        numbers = [number for number, _ in self._gathered]
        for executor in self.executors:
            executor.memory.gone(numbers)
        self._numbers.difference_update(numbers)

    def not_kept(self) -> None:
        self._left.extendleft(reversed(self._gathered))


class Garbage:
    """A `CommitPart`. Make it before the executors are parts: what is filed again is gathered by them."""

    def __init__(self, floors: Floors, group_commit: GroupCommit) -> None:
        self.executors: Sequence[CommittedStateExecutor] = ()
        self._floors = floors
        self._group_commit = group_commit
        self._leaving = Leaving()
        self._going: list[int] = []  # rows that go with the floors,
        self._free: dict[int, int] = {}  # and that may once those are kept, with their bytes on the disk
        self._kept: dict[int, Progress] = {}  # by home
        self._gathered: dict[int, Progress] = {}
        self._ends = False
        self._last = 0.0
        self._newest = 0  # row when rows were forgotten last
        floors.restore(floor_of(floor.progress) for floor in group_commit.loaded.floors)
        group_commit.add(self)
        group_commit.add_urgent(self._leaving)

    def of(self, executors: Sequence[CommittedStateExecutor]) -> None:
        """Take the executors whose rows these are."""
        self.executors = self._leaving.executors = executors

    def ends(self) -> None:
        """Let what is over go with the next commit, which is the last. A timer that is done must not be there when the
        next run looks: after a clean end, the tasks that have had its outputs forget them."""
        self._last = -FORGET_S
        self._ends = True

    def gather(self, changes: Changes) -> None:
        self._going, self._free, self._gathered = [], {}, {}
        self._leaving.most = sys.maxsize if self._ends else GONE_MAX
        self._leaving.bytes_most = sys.maxsize if self._ends else GONE_BYTES_MAX
        now = self._group_commit.time()
        if not self.executors or now - self._last < FORGET_S:
            return
        self._last = now
        found = {number: of for executor in self.executors for number, of in executor.memory.empty_rows().items()}
        numbers = sorted(number for number in found if number not in self._leaving)
        newest, self._newest = self._newest, self._group_commit.next_row()
        for executor in self.executors:
            executor.refile(newest)
        if not numbers:
            return
        of_timers = {number for executor in self.executors for number in executor.over}
        for number in numbers:
            if self._ends or number in of_timers:
                self._going.append(number)
                changes.forgotten_bytes += found[number]
            else:
                self._free[number] = found[number]
        changes.forgotten.extend(self._going)
        announced = {progress.newest >> HOME_SHIFT: progress for progress in self._floors.announced()}
        self._gathered = {home: one for home, one in announced.items() if self._kept.get(home) != one}
        changes.floors.extend(KeptFloor(home, packed_floor(one)) for home, one in self._gathered.items())

    def kept(self) -> None:
        self._kept.update(self._gathered)
        for executor in self.executors:
            executor.rows_gone(self._going)
        self._leaving.add(self._free)

    def not_kept(self) -> None:
        """All of it is gathered again."""
        self._last = -FORGET_S


async def restore(group_commit: GroupCommit, executors: Sequence[CommittedStateExecutor]) -> None:
    """Gives each task what was kept of its slots. Raises StartError where that is damaged."""
    if group_commit.store is None or not executors:
        return
    for executor in executors:
        if executor.timers is not None:
            executor.timers.due_times.resume(group_commit.loaded.marks)
    try:
        _file(executors, await group_commit.call(group_commit.store.states))
    except StoreBroken as error:
        raise start_error(group_commit.store.path, error) from error
    except ValueError as error:
        is_damaged(group_commit.store.path, str(error))


def _file(executors: Iterable[CommittedStateExecutor], loaded: LoadedStates) -> None:
    """Raises ValueError for a row that is unreadable."""
    by_component: dict[str, dict[int, CommittedStateExecutor]] = {}
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
            shared = RememberedRow(
                number, [(entry.origin, entry.identity) for entry in entries], kept=True, stored=len(content)
            )
            for entry in entries:
                if (at := task_of_slot(entry.slot, count)) in tasks:
                    tasks[at].restore_input(shared, classes, entry)
