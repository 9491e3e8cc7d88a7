"""Where a task of a spout resumes: the rule by which marks of earlier runs become positions. Pure.

Safe first: a position is used where all before it is known to be done, and everything else is read again, which sinks
drop. What is known depends on how many tasks there were, since tasks may share a partition (each reads every n-th
message), and then the mark of one says nothing of the messages of another. So:

- A task that has begun as one of as many tasks resumes at its own marks. Where it has none it had emitted nothing that
  is known of, and begins at the beginning, even where other tasks have a mark of that partition: they may share it.
- Where there were other numbers of tasks, all of them have to have begun, and every one has to have a mark of the
  partition: then all before the lowest is done. A span of one task covers ints that were another's, so spans count only
  where there was a single task. With several tasks only ints compare; names resume only where all agree.
- Marks count within an epoch, whose ids another epoch uses anew (C2). Of several epochs of a partition the one that a
  task came to last is meant, by the order of the marks; where tasks disagree about it, none is. What was under way in
  the epochs before it can't be read again from this partition: the source has begun it anew.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from topology.storage.values import Begun, Mark


def positions(marks: Sequence[Mark], begun: Iterable[Begun], component: str, task: int, tasks: int) -> dict[str, Mark]:
    """Partition → where this task, one of `tasks`, resumes in it; the mark's own task may be another. `marks` in the
    order in which they were first kept, as a store gives them; of all tasks of the component, if they are at hand."""
    counts = {one.task: one.tasks for one in begun if one.component == component}
    by_task = newest(mark for mark in marks if mark.component == component)
    if counts.get(task) == tasks:
        return by_task.get(task, {})
    return common(counts, by_task)


def newest(marks: Iterable[Mark]) -> dict[int, dict[str, Mark]]:
    """Task → partition → its mark of the epoch that it came to last."""
    found: dict[int, dict[str, Mark]] = {}
    for mark in marks:
        found.setdefault(mark.task, {})[mark.partition] = mark
    return found


def common(counts: Mapping[int, int], by_task: Mapping[int, Mapping[str, Mark]]) -> dict[str, Mark]:
    """Partition → what all tasks together have reached, for any task of a run with another number of them. `counts`:
    which tasks have begun, and as one of how many."""
    before = next(iter(counts.values()), 0)
    if not before or any(count != before for count in counts.values()) or counts.keys() != {*range(before)}:
        return {}  # not all of them have begun, or an earlier change of their number was not completed
    found: dict[str, Mark] = {}
    for partition in by_task.get(0, {}):
        marks = [by_task[task][partition] for task in range(before) if partition in by_task.get(task, {})]
        if len(marks) == before and (mark := _lowest(marks)) is not None:
            found[partition] = mark
    return found


def _lowest(marks: Sequence[Mark]) -> Mark | None:
    """What all of them have reached; None where that can't be said."""
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
