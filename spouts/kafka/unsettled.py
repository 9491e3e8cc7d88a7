"""The offsets that a task has emitted and that are not settled, by partition. Pure; must not know a cluster."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spouts.kafka.partition import KafkaPartition


class OffsetsUnderWay:
    """The offsets of one partition that are under way. `settled_to` is the lowest of them, or the next one if there is
    none.

    Offsets that follow each other are kept as one run, so a million of them takes no more room than one.
    """

    def __init__(self, first: int) -> None:
        self.settled_to = first
        self._runs: deque[list[int]] = deque()  # [first, last] of emitted offsets, from `settled_to` on
        self._settled: set[int] = set()  # those that are settled above it

    def add(self, offsets: Sequence[int]) -> None:
        """Take note that these are emitted. They grow, and are above all before."""
        if not self._runs:
            self.settled_to = offsets[0]
        for offset in offsets:
            if self._runs and self._runs[-1][1] == offset - 1:
                self._runs[-1][1] = offset
            else:
                self._runs.append([offset, offset])

    def __contains__(self, offset: Any) -> bool:
        return offset not in self._settled and any(first <= offset <= last for first, last in self._runs)

    def settle(self, offsets: Iterable[Any]) -> None:
        """Take note that these are settled."""
        settled, runs = self._settled, self._runs
        settled.update(offsets)
        while runs and self.settled_to in settled:
            settled.remove(self.settled_to)
            run = runs[0]
            if self.settled_to < run[1]:
                run[0] = self.settled_to = self.settled_to + 1
            else:
                runs.popleft()
                self.settled_to = runs[0][0] if runs else self.settled_to + 1
        if not runs:
            settled.clear()

    def __bool__(self) -> bool:
        return bool(self._runs)


class UnsettledOffsets:
    """Offsets under way, for what is committed: the offset to which each partition is settled."""

    def __init__(self) -> None:
        self._current: dict[KafkaPartition, OffsetsUnderWay] = {}
        self._told: dict[KafkaPartition, int] = {}
        # by name: those of former topics of this name, whose messages end one after the other
        self._former: dict[str, list[OffsetsUnderWay]] = {}

    def emitted(self, partition: KafkaPartition, offsets: Sequence[int]) -> None:
        """Take note that these are emitted, in their order."""
        if partition not in self._current:
            self._current[partition] = OffsetsUnderWay(offsets[0])
        self._current[partition].add(offsets)

    def settle(self, offsets: Iterable[Any], name: str) -> None:
        """Take note that these are settled, of the partition with this name. Others are ignored."""
        former = self._former.get(name)
        if former:
            offsets = [offset for offset in offsets if not _settled_in(former, offset)]
            self._former[name] = [each for each in former if each]
        for partition, under_way in self._current.items():
            if partition.name == name:
                under_way.settle(offsets)

    def drop(self, partition: KafkaPartition) -> None:
        """Tell no more of this partition: it is gone, or of another topic."""
        under_way = self._current.pop(partition, None)
        self._told.pop(partition, None)
        if under_way:
            self._former.setdefault(partition.name, []).append(under_way)

    def news(self) -> dict[KafkaPartition, int]:
        """Return partition → the offset to which it is settled, for those that have changed since `tell`."""
        reached = {each: under_way.settled_to for each, under_way in self._current.items()}
        return {each: offset for each, offset in reached.items() if self._told.get(each) != offset}

    def tell(self, offsets: Mapping[KafkaPartition, int]) -> None:
        """Take note that these offsets are known elsewhere."""
        self._told.update({each: offset for each, offset in offsets.items() if each in self._current})


def _settled_in(former: Iterable[OffsetsUnderWay], offset: Any) -> bool:
    """Settle an offset of the first of these that has it under way. Return False if it is not one of theirs."""
    for under_way in former:
        if offset in under_way:
            under_way.settle([offset])
            return True
    return False
