"""Where a partition begins: at its position, or where `begin` says. Pure, but for notes.

`begin` counts once. What it has found is noted, so that a run that was killed before it emitted anything of a partition
begins there again, and not at what is the latest message by then.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from topology.components import Task

BeginAt: TypeAlias = Literal["earliest", "latest", "committed"]
BEGINS: Final = ("earliest", "latest", "committed")


@dataclass(frozen=True)
class Limits:
    """The offsets of a partition in the cluster: the oldest offset, and the one that the next message gets."""

    low: int
    high: int


def resumed(position: int, limits: Limits, committed: int | None) -> tuple[int, int] | None:
    """Return the offset at which to resume, and how many messages are lost at most because they are deleted.

    `position` is that of a message that an earlier run has read. `committed`: what is settled, as far as the cluster
    knows. None: the cluster does not have that message any more, nor one after it; the partition was cut off.
    """
    if position < limits.low:
        return limits.low, max(0, limits.low - max(position, committed or 0))
    return (position, 0) if position < limits.high else None


def begun(begin: BeginAt, limits: Limits, committed: int | None) -> int:
    """Return the offset at which a partition begins that no run has read."""
    if begin == "latest":
        return limits.high
    if begin == "committed" and committed is not None and committed <= limits.high:
        return max(committed, limits.low)
    return limits.low  # also for what was committed of another topic with this name


class NotedBegins:
    """The offsets at which this run's tasks have begun, in the notes of the run: about 12 bytes a partition.

    A note is of one task; another number of tasks reads those of all.
    """

    def __init__(self, task: Task) -> None:
        self._notes, self._name, self._index = task.notes, task.known_as or task.component, task.index
        self._own = self._read(task.index)
        self._all: dict[str, tuple[str, int, dict[int, int]]] = {}
        index = 0
        while index <= task.index or self._notes.get(self._note(index)) is not None:
            for topic, (epoch, count, offsets) in self._read(index).items():
                known = self._all.get(topic)
                if known is None or known[0] != epoch:
                    self._all[topic] = (epoch, count, {int(number): at for number, at in offsets.items()})
                else:
                    merged = {**{int(number): at for number, at in offsets.items()}, **known[2]}
                    self._all[topic] = (epoch, max(count, known[1]), merged)
            index += 1

    def of(self, topic: str, epoch: str, number: int) -> int | Literal["earliest"] | None:
        """Return the noted offset of a partition. "earliest": the partition, or its topic, is newer than the note.
        None: nothing is noted."""
        known = self._all.get(topic)
        if known is None:
            return None
        noted_epoch, count, offsets = known
        if noted_epoch != epoch or number >= count:
            return "earliest"
        return offsets.get(number)

    def keep(self, topic: str, epoch: str, count: int, offsets: Mapping[int, int]) -> None:
        """Note where partitions of a topic begin, which has `count` of them. Blocks for an fsync."""
        before = self._own.get(topic)
        kept = dict(before[2]) if before is not None and before[0] == epoch else {}
        kept |= {str(number): offset for number, offset in offsets.items()}
        self._own[topic] = [epoch, count, kept]
        self._notes.set(self._note(self._index), json.dumps(self._own, separators=(",", ":")))

    def _note(self, index: int) -> str:
        return f"kafka begins of {self._name}.{index}"

    def _read(self, index: int) -> dict[str, list[Any]]:
        text = self._notes.get(self._note(index))
        found: dict[str, list[Any]] = json.loads(text) if text else {}
        return found


def names_of(places: Iterable[tuple[str, int]]) -> str:
    """Return partitions, for people: the first few."""
    names = [f"{topic}/{number}" for topic, number in places]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
