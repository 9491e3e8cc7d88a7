"""Each grouping end to end: which task got what, and that every copy is waited for."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from runtime_kit import Number, numbers

from topology import Bolt, Collector, Config, EmitError, Grouping, Record, Task, Topology, Tuple
from topology.groupings import key_bytes, slot_of, task_of_slot
from topology.runtime.run.report import Report
from topology.testing import ScriptedSpout, Watch, run_topology


class Parity(Record):
    even: bool


class Where(Bolt):
    """Notes which of its tasks got which record."""

    def __init__(self, got: dict[int, list[Any]]) -> None:
        self.got = got

    def __deepcopy__(self, memo: Any) -> "Where":
        return Where(self.got)

    def open(self, task: Task) -> None:
        self.index = task.index

    def process(self, record: Record) -> None:
        self.got[self.index].append(record)


def dealt(read: Any, count: int = 60, tasks: int = 4, seed: int = 0) -> tuple[dict[int, list[Any]], Report]:
    """What each task gets of so many numbers; `read` makes the grouping of the stream."""
    topology, got = Topology("dealt"), defaultdict[int, list[Any]](list)
    stream = topology.spout("numbers", ScriptedSpout(numbers(count)))
    topology.bolt("where", Where(got), read(stream), tasks=tasks)
    report = run_topology(topology, seed=seed)
    assert report.snapshot.spouts["numbers"].acked == count
    return got, report


def test_shuffle_and_local_or_shuffle_deal_evenly() -> None:
    for read in (lambda stream: stream.shuffle(), lambda stream: stream.local_or_shuffle()):
        got, _ = dealt(read)
        assert sorted(len(records) for records in got.values()) == [15, 15, 15, 15]


def test_fields_sends_equal_values_to_the_task_of_their_slot() -> None:
    got, _ = dealt(lambda stream: stream.fields("n"))
    for task, records in got.items():
        assert {task_of_slot(slot_of(key_bytes(one.n)), 4) for one in records} == {task}
    assert sum(map(len, got.values())) == 60


def test_all_gives_every_task_a_copy() -> None:
    got, _ = dealt(lambda stream: stream.all(), tasks=3)
    assert {task: sorted(one.n for one in records) for task, records in got.items()} == {
        n: list(range(60)) for n in range(3)
    }


def test_global_gives_everything_to_task_0() -> None:
    got, _ = dealt(lambda stream: stream.global_())
    assert {task: len(records) for task, records in got.items()} == {0: 60}


def test_partial_key_splits_a_hot_value_between_two_tasks() -> None:
    for value in range(10):
        topology, got = Topology("partial"), defaultdict[int, list[Any]](list)
        stream = topology.spout("numbers", ScriptedSpout([Number(value)] * 100))
        topology.bolt("where", Where(got), stream.partial_key("n"), tasks=6)
        run_topology(topology)
        assert [len(records) for records in got.values()] == [50, 50]


def test_custom_sends_to_the_tasks_that_it_chooses_once_each() -> None:
    class Doubly(Grouping):
        def choose(self, record: Number, tasks: int) -> Sequence[int]:
            return [record.n % tasks, (record.n + 1) % tasks, record.n % tasks]

    got, _ = dealt(lambda stream: stream.custom(Doubly()))
    copies = Counter(one.n for records in got.values() for one in records)
    assert set(copies.values()) == {2}
    assert all(task in (one.n % 4, (one.n + 1) % 4) for task, records in got.items() for one in records)


class Directed(Bolt):
    """Names the task: the number itself, or none at all."""

    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        out.emit(tup.record, task=None if tup.record.n == 9 else tup.record.n)
        out.ack(tup)


def test_direct_sends_to_the_task_that_the_emitter_names_and_refuses_others() -> None:
    topology, got, watch = Topology("direct", Config(max_replays=0)), defaultdict[int, list[Any]](list), Watch()
    stream = topology.spout("numbers", ScriptedSpout([Number(n) for n in (0, 1, 2, 3, 4, -1, 9)]))
    directed = topology.bolt("directed", Directed(), stream.shuffle())
    topology.bolt("where", Where(got), directed.direct(), tasks=4)
    run_topology(topology, watch=watch)
    assert {task: [one.n for one in records] for task, records in got.items()} == {n: [n] for n in range(4)}
    assert sorted(one.record.n for one in watch.dead) == [-1, 4, 9]  # type: ignore[attr-defined]
    assert all(isinstance(one.failure.error, EmitError) for one in watch.dead)


@pytest.mark.parametrize("by", ["shuffle", "all", "global_"])
def test_a_task_that_is_named_for_a_reader_by_another_grouping_is_refused(by: str) -> None:
    topology, got, watch = Topology("undirected", Config(max_replays=0)), defaultdict[int, list[Any]](list), Watch()
    directed = topology.bolt("directed", Directed(), topology.spout("numbers", ScriptedSpout([Number(1)])).shuffle())
    topology.bolt("where", Where(got), getattr(directed, by)(), tasks=4)
    run_topology(topology, watch=watch)
    assert not got
    assert [str(one.failure.error) for one in watch.dead] == [
        "'directed' has named a task for a Number, which 'where' reads by another grouping than direct()"
    ]


def test_a_task_that_is_named_is_refused_where_the_record_is_anchored_to_nothing() -> None:
    class Free(Bolt):
        def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
            out.emit(tup.record, (), task=0)

    topology, watch = Topology("free", Config(max_replays=0)), Watch()
    free = topology.bolt("free", Free(), topology.spout("numbers", ScriptedSpout([Number(1)])).shuffle())
    topology.bolt("where", Where(defaultdict(list)), free.shuffle(), tasks=2)
    run_topology(topology, watch=watch)
    assert [isinstance(one.failure.error, EmitError) for one in watch.dead] == [True]


def test_a_task_may_be_named_where_one_of_two_readers_reads_by_direct() -> None:
    topology, direct, dealt_out = Topology("both"), defaultdict[int, list[Any]](list), defaultdict[int, list[Any]](list)
    stream = topology.spout("numbers", ScriptedSpout([Number(n) for n in (3, 3, 3, 3)]))
    directed = topology.bolt("directed", Directed(), stream.shuffle())
    topology.bolt("by-task", Where(direct), directed.direct(), tasks=4)
    topology.bolt("dealt", Where(dealt_out), directed.shuffle(), tasks=4)
    run_topology(topology)
    assert {task: len(records) for task, records in direct.items()} == {3: 4}
    assert {task: len(records) for task, records in dealt_out.items()} == {0: 1, 1: 1, 2: 1, 3: 1}


def test_a_bolt_with_two_streams_sends_each_class_to_its_readers() -> None:
    class Sorts(Bolt):
        def process(self, number: Number) -> Iterator[Number | Parity]:
            yield number
            yield Parity(number.n % 2 == 0)

    topology, records, parities = (
        Topology("streams"),
        defaultdict[int, list[Any]](list),
        defaultdict[int, list[Any]](list),
    )
    sorts = topology.bolt("sorts", Sorts(), topology.spout("numbers", ScriptedSpout(numbers(10))).shuffle())
    topology.bolt("numbers-read", Where(records), sorts[Number].shuffle())
    topology.bolt("parities-read", Where(parities), sorts[Parity].fields("even"), tasks=2)
    run_topology(topology)
    assert [one.n for one in records[0]] == list(range(10))
    assert sum(map(len, parities.values())) == 10
    assert all(len({one.even for one in found}) == 1 for found in parities.values()) or len(parities) == 1


@pytest.mark.parametrize("tasks", [1, 3])
def test_tuples_from_one_task_to_one_task_arrive_in_order_B6(tasks: int) -> None:
    got, _ = dealt(lambda stream: stream.fields("n"), count=300, tasks=tasks, seed=4)
    assert all([one.n for one in records] == sorted(one.n for one in records) for records in got.values())
