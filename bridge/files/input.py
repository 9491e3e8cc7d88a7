"""All tasks' segments of one input, as readers see them: which there are, where they end, and how far all readers are.

Knows the folders of tasks and what `segments` makes of one; not what is in a segment, nor who reads it.
"""

import os
from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import count, islice
from pathlib import Path

from bridge.files.query import place
from bridge.files.segments import Segments


class StreamInput:
    """The folder `stream/<input>` of a query. Tasks are texts here, as they are in offsets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, task: str) -> Segments:
        """What one task has handed over."""
        return Segments(self.folder / task)

    def tasks(self) -> list[str]:
        """All tasks that have ever handed anything over, those of runs that had more of them too."""
        try:
            return sorted((one for one in os.listdir(self.folder) if one.isdecimal()), key=int)
        except FileNotFoundError:
            return []

    def reached(
        self, start: Mapping[str, int], until: Mapping[str, int] | None = None, most: int | None = None
    ) -> dict[str, int]:
        """Up to where each task's segments are there, from `start` on, and no further than `until`. Of more than `most`
        those that were written first, of all tasks: were those of one task taken before, the others came late (D16).
        Probes for numbers, and lists nothing."""
        found = {task: start.get(task, 0) for task in self.tasks()}
        ends = {task: None if until is None else until.get(task, number) for task, number in found.items()}
        written = merge(*(self._written(task, number, ends[task]) for task, number in found.items()))
        for _, task in islice(written, most):
            found[task] += 1
        return found

    def _written(self, task: str, number: int, until: int | None) -> Iterator[tuple[int, str]]:
        """When each of a task's segments was written, one after the other."""
        segments = self.of(task)
        for at in count(number) if until is None else range(number, until):
            try:
                yield segments.path(at).stat().st_mtime_ns, task
            except FileNotFoundError:
                return

    def ended(self, reached: Mapping[str, int]) -> bool:
        """Whether every task of the present run has said that it ends at this number."""
        tasks = self._present()
        return tasks > 0 and all(self.of(str(one)).has_ended(reached.get(str(one), 0)) for one in range(tasks))

    def is_at(self, ends: Mapping[str, int]) -> bool:
        """The same, and nobody has gone on since."""
        return self.ended(ends) and not self.goes_on(ends)

    def goes_on(self, ends: Mapping[str, int]) -> bool:
        """Whether there is a segment that is not below these numbers."""
        return any(self.of(task).has(ends.get(task, 0)) for task in self.tasks())

    def say_done(self, reached: Mapping[str, int]) -> None:
        """Tells the hand-over that no reader will ask for segments below these numbers again, after a crash either."""
        for task, number in reached.items():
            place(self.folder / task / "done", str(number).encode(), durable=False)

    def _present(self) -> int:
        """How many tasks hand over now; 0 where none has begun."""
        try:
            return int((self.folder / "tasks").read_text())
        except (FileNotFoundError, ValueError):
            return 0
