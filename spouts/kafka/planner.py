"""Decides which partitions a task reads, where each begins, and what has changed since. Knows a cluster; must not know
messages, nor who reads them."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from spouts.kafka.begins import BeginAt, Limits, NotedBegins, begun, names_of, resumed
from spouts.kafka.partition import KafkaPartition
from topology.clients.errors import ServerAway, not_yet, refused
from topology.clients.kafka import KafkaAdmin, Place, TopicFound
from topology.components import Positions, Task
from topology.errors import ConfigurationError, NotesAway

log = logging.getLogger("kedge.spouts")


@dataclass
class PartitionChange:
    """A task for a reader: read these partitions from their `read` on, and no more of those places."""

    follow: list[KafkaPartition] = field(default_factory=list)
    leave: list[Place] = field(default_factory=list)


class PartitionPlanner:
    """The partitions of one task: of n tasks, task i reads those whose number leaves i when divided by n."""

    def __init__(
        self, cluster: KafkaAdmin, topics: Sequence[str], task: Task, *, begin: BeginAt, group: str, follow: bool
    ) -> None:
        self.partitions: dict[Place, KafkaPartition] = {}
        self._cluster, self._topics, self._task = cluster, topics, task
        self._begin: BeginAt = begin
        self._group, self._follow = group, follow

    async def begin(self, positions: Positions) -> list[KafkaPartition]:
        """Return the partitions that the task reads at first.

        Raises ServerAway, ConfigurationError for a topic that is not there, or that was cut off, and NotYet if a note
        cannot be stored now.
        """
        found = await self._cluster.topics(self._topics)
        places = self._own(found)
        limits = await self._limits(places)
        ends = {} if self._follow else await self._cluster.offsets(places, latest=True, committed=True)
        resumes = {place: at for place in places if (at := _position(positions, found, place)) is not None}
        again = [place for place in places if _name(place) in positions and place not in resumes]
        fresh = [place for place in places if place not in resumes and place not in again]
        if again:
            self._tell_again(again)
        asked = fresh if self._begin == "committed" else []
        committed = await self._committed([*asked, *(each for each, at in resumes.items() if at < limits[each].low)])
        offsets = {place: self._resumed(place, at, limits[place], committed) for place, at in resumes.items()}
        offsets |= {place: limits[place].low for place in again}
        offsets |= self._begun(fresh, found, limits, committed)
        for place in places:
            self._add(place, found[place[0]].id, offsets[place], limits[place].high, ends.get(place))
            kept = positions.epochs.get(self.partitions[place].name)
            if place in resumes and kept is not None:
                self.partitions[place].epoch = kept  # a cluster may name its topics only since an upgrade
        return [self.partitions[place] for place in places]

    async def look(self, stuck: Collection[Place]) -> PartitionChange:
        """Ask the cluster what has changed. `stuck`: partitions that cannot be read further.

        Raises ServerAway if the cluster cannot answer for each partition, and also if it refuses what it has allowed
        before. Raises ConfigurationError for a partition that was cut off.
        """
        try:
            found = await self._cluster.topics(self._topics)
            known = self.partitions
            other = [each for each in known if _is_other(known[each].epoch, found[each[0]].id)]
            places = self._own(found)
            new = [place for place in places if self._follow and place not in known]
            gone = [place for place in known if place not in {*places}]
            highs = await self._cluster.offsets(places, latest=True)
            lows = await self._cluster.offsets({*new, *other, *stuck} & {*places}, latest=False)
        except ConfigurationError as error:
            raise ServerAway(str(error)) from error
        change = PartitionChange(leave=gone)
        for place in gone:
            del known[place]
        for place in places:
            limits = Limits(lows.get(place, 0), highs[place])
            if place in new or place in other:
                self._again(place, found[place[0]].id, limits, is_new=place in new)
            elif place in stuck:
                known[place].read = self._resumed(place, known[place].read, limits, {}, upto=1)
            elif place in known:
                known[place].high = max(known[place].high, limits.high)
                continue
            else:
                continue
            change.follow.append(known[place])
        return change

    # -- one partition

    def _add(self, place: Place, epoch: str, offset: int, high: int, end: int | None) -> None:
        self.partitions[place] = KafkaPartition(*place, epoch, offset, offset, end, high)

    def _again(self, place: Place, epoch: str, limits: Limits, *, is_new: bool) -> None:
        """Begin a partition that is new, or whose topic is another one now, at its first message."""
        if is_new:
            log.info("%s: %s is new, and is read from its first message", self._task.component, names_of([place]))
        else:
            self._tell_again([place])
        self._add(place, epoch, limits.low, limits.high, None if self._follow else limits.high)

    def _tell_again(self, places: Collection[Place]) -> None:
        text = "%s: the topic was deleted and made again, and is read from its first message: %s"
        log.warning(text, self._task.component, names_of(places))

    def _resumed(
        self, place: Place, position: int, limits: Limits, committed: Mapping[Place, int], upto: int = 0
    ) -> int:
        """Return the offset to read on from. `upto` is 1 if `position` is that of a message that was not read yet, and
        need not be there yet."""
        at = resumed(position - upto, limits, committed.get(place))
        if at is None:
            raise self._cut_off(place, position, limits)
        offset, lost = at
        if offset == position - upto:
            return position
        lost -= upto
        if lost > 0:
            text = "%s: up to %d messages of %s are lost: the cluster deleted them before they were done; goes on at %d"
            log.warning(text, self._task.component, lost, names_of([place]), offset)
        return offset

    def _cut_off(self, place: Place, position: int, limits: Limits) -> ConfigurationError:
        return refused(
            f"KafkaSource: {names_of([place])} at {self._cluster.where} ends before offset {limits.high}, and offset "
            f"{position} was read before: the cluster has lost messages, or has another topic under this name, and new "
            "messages would be taken for those; give the spout another name, and it begins at the start"
        )

    # -- all partitions

    def _own(self, found: Mapping[str, TopicFound]) -> list[Place]:
        tasks, index = self._task.tasks, self._task.index
        return [
            (topic, number)
            for topic in self._topics
            for number in sorted(found[topic].partitions)
            if number % tasks == index
        ]

    async def _limits(self, places: Collection[Place]) -> dict[Place, Limits]:
        lows = await self._cluster.offsets(places, latest=False)
        highs = await self._cluster.offsets(places, latest=True)
        return {place: Limits(lows[place], highs[place]) for place in places}

    async def _committed(self, places: Collection[Place]) -> dict[Place, int]:
        """Return what the group has committed. Without the right to read it, only `begin` can need it."""
        try:
            return await self._cluster.committed(self._group, places)
        except ConfigurationError:
            if self._begin == "committed":
                raise
            return {}

    def _begun(
        self,
        places: Collection[Place],
        found: Mapping[str, TopicFound],
        limits: Mapping[Place, Limits],
        committed: Mapping[Place, int],
    ) -> dict[Place, int]:
        """Return where partitions begin that have no position."""
        if self._begin == "earliest":
            return {place: limits[place].low for place in places}
        notes = NotedBegins(self._task)
        offsets: dict[Place, int] = {}
        to_note: dict[str, dict[int, int]] = {}
        for topic, number in places:
            place, own = (topic, number), limits[topic, number]
            noted = notes.of(topic, found[topic].id, number)
            if noted == "earliest":
                offsets[place] = own.low
            elif noted is not None:
                offsets[place] = max(noted, own.low)
            else:
                offsets[place] = begun(self._begin, own, committed.get(place))
                to_note.setdefault(topic, {})[number] = offsets[place]
        try:
            for topic, noted_now in to_note.items():
                notes.keep(topic, found[topic].id, max(found[topic].partitions) + 1, noted_now)
        except NotesAway as error:
            raise not_yet(f"KafkaSource: a note can't be stored: {error}") from error
        return offsets


def _position(positions: Positions, found: Mapping[str, TopicFound], place: Place) -> int | None:
    """Return the offset that an earlier run has left for a partition of this very topic."""
    name = _name(place)
    kept, epoch = positions.epochs.get(name, ""), found[place[0]].id
    position = positions.of(name, kept if not _is_other(kept, epoch) else epoch)
    return position if type(position) is int else None


def _name(place: Place) -> str:
    return f"{place[0]}/{place[1]}"


def _is_other(kept: str, now: str) -> bool:
    """Return True if these epochs are those of two topics. A cluster that is too old names none."""
    return bool(kept and now) and kept != now
