"""The segments of all tasks of one input, for readers: which exist, where they end, and how far all readers are.

Knows the folders of tasks, and `segments` for one of them; must not know what a segment holds, nor who reads it.
"""

import os
from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import count, islice
from pathlib import Path

from bridge.files.query import place
from bridge.files.segments import Segments


class StreamInput:
    """The folder `stream/<input>` of a query. Tasks are texts here, as in offsets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, task: str) -> Segments:
        """Return the segments of one task."""
        return Segments(self.folder / task)

    def tasks(self) -> list[str]:
        """Return all tasks that have ever handed anything over, also those of earlier runs that had more tasks."""
        try:
            return sorted((name for name in os.listdir(self.folder) if name.isdecimal()), key=int)
        except FileNotFoundError:
            return []

    def reached(
        self, start: Mapping[str, int], until: Mapping[str, int] | None = None, most: int | None = None
    ) -> dict[str, int]:
        """Return the number per task up to which segments exist, from `start` on and not beyond `until`. If there are
        more than `most`, take those that were written first, over all tasks: if the segments of one task came first,
        those of the others would be late (D16). Checks for single numbers and lists no folder."""
        found = {task: start.get(task, 0) for task in self.tasks()}
        ends = {task: None if until is None else until.get(task, number) for task, number in found.items()}
        written = merge(*(self._written(task, number, ends[task]) for task, number in found.items()))
        for _, task in islice(written, most):
            found[task] += 1
        return found

    def _written(self, task: str, number: int, until: int | None) -> Iterator[tuple[int, str]]:
        """Yield when each of a task's segments was written, in order."""
        segments = self.of(task)
        for at in count(number) if until is None else range(number, until):
            try:
                yield segments.path(at).stat().st_mtime_ns, task
            except FileNotFoundError:
                return

    def ended(self, reached: Mapping[str, int]) -> bool:
        """Return True if every task of the present run has said that it ends at this number."""
        tasks = self._present()
        return tasks > 0 and all(self.of(str(task)).has_ended(reached.get(str(task), 0)) for task in range(tasks))

    def is_at(self, ends: Mapping[str, int]) -> bool:
        """Return True if every task has ended at these numbers and none has written since."""
        return self.ended(ends) and not self.goes_on(ends)

    def goes_on(self, ends: Mapping[str, int]) -> bool:
        """Return True if there is a segment at or above these numbers."""
        return any(self.of(task).has(ends.get(task, 0)) for task in self.tasks())

    def say_done(self, reached: Mapping[str, int]) -> None:
        """Tell the hand-over that no reader will ask for segments below these numbers again, not even after a crash."""
        for task, number in reached.items():
            place(self.folder / task / "done", str(number).encode(), durable=False)

    def _present(self) -> int:
        """Return how many tasks hand over now; 0 if none has begun."""
        try:
            return int((self.folder / "tasks").read_text())
        except (FileNotFoundError, ValueError):
            return 0
