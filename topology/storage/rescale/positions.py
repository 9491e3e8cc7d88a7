"""Positions of a spout's task: the rule by which marks of earlier runs become the points to resume at. Pure.

The rule prefers safety. A position is used only if all messages before it are known to be done. All others are read
again, and sinks deduplicate them. The knowledge depends on the former number of tasks. Tasks may share a partition
(each reads every n-th message), and then the mark of one task says nothing about the messages of another. The rule has
three parts:

- A task that has begun as one of as many tasks resumes at its own marks. Without a mark, no emission of it is known,
  and it begins at the beginning, even if other tasks have a mark of that partition: they may share it.
- If there was another number of tasks, all of them must have begun, and each must have a mark of the partition. Then
  all messages before the lowest mark are done. A span of one task covers ints of other tasks, so spans count only if
  there was a single task. With several tasks only ints compare; names resume only if all tasks agree.
- Marks count within an epoch, because another epoch reuses its ids (C2). Of several epochs of a partition, the one that
  a task reached last counts, by the order of the marks; if tasks disagree about it, none counts. Messages in flight in
  the epochs before it cannot be read again from this partition, because the source has started it again.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from topology.storage.values import Begun, Mark


def positions(marks: Sequence[Mark], begun: Iterable[Begun], component: str, task: int, tasks: int) -> dict[str, Mark]:
    """Return partition → the mark at which this task, one of `tasks`, resumes; it may be the mark of another task.
    `marks` are in the order in which they were first kept, as a store returns them, and of all tasks of the component
    if they are available."""
    counts = {entry.task: entry.tasks for entry in begun if entry.component == component}
    by_task = newest(mark for mark in marks if mark.component == component)
    if counts.get(task) == tasks:
        return by_task.get(task, {})
    return common(counts, by_task)


def newest(marks: Iterable[Mark]) -> dict[int, dict[str, Mark]]:
    """Return task → partition → its mark in the epoch that it reached last."""
    found: dict[int, dict[str, Mark]] = {}
    for mark in marks:
        found.setdefault(mark.task, {})[mark.partition] = mark
    return found


def common(counts: Mapping[int, int], by_task: Mapping[int, Mapping[str, Mark]]) -> dict[str, Mark]:
    """Return partition → the joint progress of all tasks, for any task of a run with another number of them. `counts`:
    for each task that has begun, the number of tasks at that time."""
    before = next(iter(counts.values()), 0)
    if not before or any(count != before for count in counts.values()) or counts.keys() != {*range(before)}:
        return {}  # not all of them have begun, or an earlier change of their number is incomplete
    found: dict[str, Mark] = {}
    for partition in by_task.get(0, {}):
        marks = [by_task[task][partition] for task in range(before) if partition in by_task.get(task, {})]
        if len(marks) == before and (mark := _lowest(marks)) is not None:
            found[partition] = mark
    return found


def _lowest(marks: Sequence[Mark]) -> Mark | None:
    """Return the joint progress of these marks; None if it is unknown."""
    first = marks[0]
    if len(marks) == 1:
        return first
    if any(mark.epoch != first.epoch for mark in marks):
        return None
    ends = [mark.position for mark in marks]
    if any(type(end) is not type(first.position) for end in ends):
        return None
    if type(first.position) is int:
        lowest = min(marks, key=lambda mark: mark.position)
        ends = [mark.newest for mark in marks if type(mark.newest) is int]
        return msgspec.structs.replace(lowest, done=(), newest=max(ends, default=lowest.newest))
    return msgspec.structs.replace(first, done=()) if all(end == first.position for end in ends) else None
