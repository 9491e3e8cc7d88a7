"""The parts of `KafkaSource` that know no broker: offsets under way, where partitions begin, what has changed.

A mock broker cannot give a topic more partitions, so here a `KafkaAdmin` of a few lines does.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from random import Random
from typing import Any

import pytest

from spouts.kafka.begins import Limits, NotedBegins, begun, names_of, resumed
from spouts.kafka.partition import KafkaPartition
from spouts.kafka.planner import PartitionPlanner
from spouts.kafka.ready import BYTES_MAX, ReadyMessages
from spouts.kafka.unsettled import OffsetsUnderWay, UnsettledOffsets
from topology import ConfigurationError, Positions, Task
from topology.clients.errors import ServerAway, refused
from topology.clients.kafka import Place, TopicFound
from topology.errors import NotesAway, NotYet
from topology.runtime.clock import LoopClock
from topology.storage.directory.state_dir import MemoryNotes
from topology.testing.sources.driver import Memory


def partition(number: int = 0, epoch: str = "a", topic: str = "t") -> KafkaPartition:
    return KafkaPartition(topic, number, epoch, 0, 0, None, 0)


# -- offsets under way


@pytest.mark.parametrize("seed", range(30))
def test_settled_to_is_the_lowest_offset_that_is_not_settled(seed: int) -> None:
    random = Random(seed)
    offsets, under_way = OffsetsUnderWay(5), [*random.sample(range(5, 400), 200)]
    under_way.sort()
    emitted: list[int] = []
    settled: set[int] = set()
    while under_way or settled != {*emitted}:
        if under_way and random.random() < 0.5:
            count = random.randint(1, 20)
            emitted += under_way[:count]
            offsets.add(under_way[:count])
            del under_way[:count]
        elif open_ones := [offset for offset in emitted if offset not in settled]:
            some = random.sample(open_ones[:40], min(len(open_ones[:40]), random.randint(1, 10)))
            settled |= {*some}
            offsets.settle(some)
        left = [offset for offset in emitted if offset not in settled]
        if emitted:
            assert offsets.settled_to == (left[0] if left else emitted[-1] + 1)
            assert bool(offsets) == bool(left)
            assert all(offset in offsets for offset in left)
            assert not any(offset in offsets for offset in settled)


def test_offsets_in_a_row_take_no_room() -> None:
    offsets = OffsetsUnderWay(0)
    for begin in range(0, 1_000_000, 1_000):
        offsets.add(range(begin, begin + 1_000))
    assert len(offsets._runs) == 1


def test_equal_offsets_of_two_partitions_are_settled_apart() -> None:
    unsettled, first, second = UnsettledOffsets(), partition(0), partition(1)
    unsettled.emitted(first, [0, 1, 2])
    unsettled.emitted(second, [0, 1, 2])
    unsettled.settle([0, 1], "t/0")
    assert unsettled.news() == {first: 2, second: 0}
    unsettled.tell({first: 2})
    assert unsettled.news() == {second: 0}
    unsettled.settle([7], "t/9")  # of no partition that it knows


def test_what_is_settled_of_a_former_topic_is_not_settled_of_the_next() -> None:
    unsettled, former, now = UnsettledOffsets(), partition(0, "a"), partition(0, "b")
    unsettled.emitted(former, [0, 1])
    unsettled.drop(former)
    unsettled.emitted(now, [0, 1])
    unsettled.settle([0, 1], "t/0")
    assert unsettled.news() == {now: 0}
    unsettled.settle([0], "t/0")
    assert unsettled.news() == {now: 1}


# -- where partitions begin


@pytest.mark.parametrize(
    ("position", "low", "high", "committed", "found"),
    [
        (5, 0, 10, None, (5, 0)),
        (9, 0, 10, None, (9, 0)),
        (5, 8, 10, None, (8, 3)),  # three at most: the position's own message may have been done
        (5, 8, 10, 7, (8, 1)),
        (5, 8, 10, 8, (8, 0)),
        (7, 8, 8, 8, (8, 0)),  # all was read, and deleted
        (10, 0, 10, None, None),  # was read, and is not there
        (0, 0, 0, None, None),
    ],
)
def test_a_position_is_resumed(
    position: int, low: int, high: int, committed: int | None, found: tuple[int, int] | None
) -> None:
    assert resumed(position, Limits(low, high), committed) == found


@pytest.mark.parametrize(
    ("begin", "committed", "found"),
    [
        ("earliest", 7, 5),
        ("latest", 7, 10),
        ("committed", 7, 7),
        ("committed", None, 5),
        ("committed", 3, 5),
        ("committed", 10, 10),
        ("committed", 11, 5),  # of another topic
    ],
)
def test_a_partition_begins(begin: Any, committed: int | None, found: int) -> None:
    assert begun(begin, Limits(5, 10), committed) == found


async def made_task(memory: Memory, index: int = 0, tasks: int = 1) -> Task:
    return Task("run", "logs", index, tasks, LoopClock(asyncio.get_running_loop()), Random(1), memory.notes)


async def test_notes_of_all_tasks_count_and_those_of_another_topic_do_not() -> None:
    memory = Memory()
    NotedBegins(await made_task(memory, 0, 2)).keep("t", "a", 4, {0: 10, 2: 12})
    NotedBegins(await made_task(memory, 1, 2)).keep("t", "a", 4, {1: 11})
    notes = NotedBegins(await made_task(memory, 0, 3))
    assert [notes.of("t", "a", number) for number in range(5)] == [10, 11, 12, None, "earliest"]
    assert notes.of("t", "b", 0) == "earliest"
    assert notes.of("other", "a", 0) is None
    own = NotedBegins(await made_task(memory, 0, 2))
    own.keep("other", "c", 1, {0: 3})
    assert NotedBegins(await made_task(memory)).of("t", "a", 0) == 10


def test_names_of_many_partitions_are_a_few() -> None:
    assert names_of([("t", number) for number in range(5)]) == "t/0, t/1, t/2 and 2 more"


# -- what has changed


class StandIn:
    """A cluster of one topic, as `topology.clients.kafka.KafkaAdmin` answers for it."""

    where = "broker:9092"

    def __init__(self) -> None:
        self.id, self.limits = "a", {0: (0, 10), 1: (0, 10)}
        self.is_away = self.is_gone = False

    async def topics(self, names: Sequence[str]) -> dict[str, TopicFound]:
        if self.is_away:
            raise ServerAway("broker:9092 can't be used: it is asleep")
        if self.is_gone:
            raise refused("KafkaSource: there is no topic 't' at broker:9092")
        return {name: TopicFound(name, self.id, [*self.limits]) for name in names}

    async def offsets(self, places: Iterable[Place], *, latest: bool, committed: bool = False) -> dict[Place, int]:
        return {(topic, number): self.limits[number][latest] for topic, number in places}

    async def committed(self, group: str, places: Collection[Place]) -> dict[Place, int]:
        return {}


async def planned(cluster: Any, *, follow: bool = True, tasks: int = 1) -> PartitionPlanner:
    planner = PartitionPlanner(
        cluster, ["t"], await made_task(Memory(), 0, tasks), begin="latest", group="g", follow=follow
    )
    await planner.begin(Positions())
    return planner


async def test_a_begin_that_cannot_be_noted_now_is_not_yet() -> None:
    class Full(MemoryNotes):
        def set(self, name: str, text: str) -> None:
            raise NotesAway("the disk is full")

    memory = Memory()
    memory.notes = Full()
    planner = PartitionPlanner(
        StandIn(),  # type: ignore[arg-type]
        ["t"],
        await made_task(memory),
        begin="latest",
        group="g",
        follow=True,
    )
    with pytest.raises(NotYet, match=r"^KafkaSource: a note can't be stored: the disk is full"):
        await planner.begin(Positions())


async def test_a_new_partition_is_read_from_its_begin() -> None:
    cluster = StandIn()
    planner = await planned(cluster)
    cluster.limits |= {2: (0, 5), 3: (2, 5)}
    change = await planner.look(())
    assert [(each.name, each.next, each.epoch) for each in change.follow] == [("t/2", 0, "a"), ("t/3", 2, "a")]
    assert not change.leave
    assert not (await planner.look(())).follow


async def test_a_new_partition_is_read_by_the_task_that_it_belongs_to() -> None:
    cluster = StandIn()
    planner = await planned(cluster, tasks=2)
    cluster.limits |= {2: (0, 5), 3: (2, 5)}
    assert [each.name for each in (await planner.look(())).follow] == ["t/2"]


async def test_a_bounded_source_reads_no_new_partition() -> None:
    cluster = StandIn()
    planner = await planned(cluster, follow=False)
    cluster.limits |= {2: (0, 5)}
    assert not (await planner.look(())).follow


async def test_another_topic_of_this_name_begins_anew_and_with_fewer_partitions() -> None:
    cluster = StandIn()
    planner = await planned(cluster)
    cluster.id, cluster.limits = "b", {0: (0, 3)}
    change = await planner.look(())
    assert [(each.name, each.next, each.epoch) for each in change.follow] == [("t/0", 0, "b")]
    assert change.leave == [("t", 1)]


@pytest.mark.parametrize("what", ["is_away", "is_gone"])
async def test_what_is_refused_later_is_away(what: str) -> None:
    cluster = StandIn()
    planner = await planned(cluster)
    setattr(cluster, what, True)
    with pytest.raises(ServerAway):
        await planner.look(())


async def test_a_stuck_partition_goes_on_where_it_was_or_after_what_is_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = StandIn()
    planner = await planned(cluster)
    first = planner.partitions["t", 0]
    first.read = 10  # at the end: nothing is wrong
    assert (await planner.look([("t", 0)])).follow == [first]
    assert first.read == 10
    cluster.limits[0] = (30, 40)
    assert (await planner.look([("t", 0)])).follow == [first]
    assert first.read == 30
    assert "up to 20 messages of t/0 are lost" in caplog.text


async def test_a_stuck_partition_that_was_cut_off_is_refused() -> None:
    cluster = StandIn()
    planner = await planned(cluster)
    planner.partitions["t", 0].read = 12
    with pytest.raises(ConfigurationError, match="t/0 at broker:9092 ends before offset 10"):
        await planner.look([("t", 0)])


# -- what is ready


def test_what_is_ready_is_bounded_in_number_and_in_bytes() -> None:
    ready, one = ReadyMessages(10), partition()
    ready.put(one, [b"x"] * 6)
    assert (ready.room, ready.has_room.is_set()) == (4, True)
    ready.put(one, [b"x"] * 4)
    assert (ready.room, ready.has_room.is_set()) == (0, False)
    assert ready.take(7) == (one, [b"x"] * 6)
    assert (len(ready), ready.room, ready.has_room.is_set()) == (4, 6, True)
    ready.put(one, [bytes(BYTES_MAX)])
    assert (ready.room, ready.bytes_room) == (0, 0)
    ready.take(3)
    ready.take(3)
    assert ready.take(1)[1] == [bytes(BYTES_MAX)]
    assert (ready.room, ready.bytes_room) == (10, BYTES_MAX)
