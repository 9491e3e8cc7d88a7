"""The plan: subscriptions in order, edges' tags, effective groupings, placement, durations. A pure function."""

from collections.abc import Iterator
from typing import Any

import pytest

from acker.identity import edge_tag
from topology import Bolt, Message, Record, Spout, Topology
from topology.groupings import ByIdentity, Fields, Shuffle
from topology.plan import order, plan, seconds


class Word(Record):
    text: str


class Long(Record):
    text: str


class Words(Spout):
    async def poll(self, limit: int) -> list[Message[Word]]:
        return []


class Split(Bolt):
    def process(self, word: Word) -> Iterator[Word | Long]:
        yield word


class Sink(Bolt):
    def process(self, record: Record) -> None:
        """Takes anything."""


class Guess(Bolt):
    deterministic = False

    def process(self, word: Word) -> Iterator[Word]:
        yield word


def diamond() -> Topology:
    topology = Topology("diamond")
    words = topology.spout("words", Words(), tasks=2)
    split = topology.bolt("split", Split(), words.shuffle(), tasks=3)
    upper = topology.bolt("upper", Split(), split[Word].all(), tasks=2)
    topology.bolt("sink", Sink(), split[Word].shuffle(), split[Long].shuffle(), upper[Long].fields("text"), tasks=4)
    topology.bolt("tap", Sink(), split[Word].global_(), words.shuffle())
    topology.validate()
    return topology


def test_subscriptions_are_numbered_stream_by_stream_in_order_of_declaration() -> None:
    numbered = [(one.emitter, one.cls, one.index, one.subscriber) for one in plan(diamond()).subscriptions]
    assert numbered == [
        ("words", Word, 0, "split"),
        ("split", Word, 0, "upper"),
        ("split", Word, 1, "sink"),
        ("split", Long, 0, "sink"),
        ("upper", Long, 0, "sink"),
        ("split", Word, 2, "tap"),
        ("words", Word, 1, "tap"),
    ]


def test_the_identity_is_the_edge_for_the_first_subscription_of_a_stream_alone_A18() -> None:
    planned = plan(diamond())
    assert all((one.tag == 0) == (one.index == 0) for one in planned.subscriptions)
    tags = [one.tag for one in planned.subscriptions if (one.emitter, one.cls) == ("split", Word)]
    assert tags == [0, edge_tag(1), edge_tag(2)]
    assert len(set(tags)) == 3


def test_the_key_fields_are_those_of_a_fields_grouping_and_none_of_any_other() -> None:
    keys = {(one.emitter, one.subscriber): one.key_fields for one in plan(diamond()).subscriptions}
    assert keys["upper", "sink"] == ("text",)
    assert all(key == () for pair, key in keys.items() if pair != ("upper", "sink"))


def test_components_stand_behind_all_that_they_read() -> None:
    assert list(plan(diamond()).components) == ["words", "split", "upper", "tap", "sink"]
    assert order(list(reversed(diamond().components))) == ["words", "split", "tap", "upper", "sink"]


def test_what_a_component_reaches_is_all_below_it() -> None:
    planned = plan(diamond())
    assert planned.below("words") == {"split", "upper", "sink", "tap"}
    assert planned.below("upper") == {"sink"}
    assert planned.below("sink") == set()


def test_shuffles_before_a_bolt_that_is_not_deterministic_go_by_identity_B2() -> None:
    topology = Topology("guesses")
    words = topology.spout("words", Words())
    for name, read in {"a": words.shuffle(), "b": words.local_or_shuffle(), "c": words.fields("text")}.items():
        topology.bolt(name, Guess(), read)
    topology.bolt("d", Split(), words.shuffle())
    topology.validate()
    groupings = [type(one.grouping) for one in plan(topology).subscriptions]
    assert groupings == [ByIdentity, ByIdentity, Fields, Shuffle]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_every_task_has_a_worker_and_chains_of_one_task_number_share_theirs(workers: int) -> None:
    placement = plan(diamond(), workers).placement
    tasks = {"words": 2, "split": 3, "upper": 2, "sink": 4, "tap": 1}
    assert set(placement) == {(name, task) for name, count in tasks.items() for task in range(count)}
    assert set(placement.values()) <= set(range(workers))
    for task in range(2):
        assert len({placement[name, task] for name in ("words", "split", "upper")}) == 1


def test_planning_changes_nothing_and_gives_the_same_plan_again() -> None:
    topology = diamond()
    assert plan(topology) == plan(topology)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10s", 10.0), ("500ms", 0.5), ("5m", 300.0), ("1h", 3600.0), ("0.5s", 0.5), ("1.25h", 4500.0), ("1ms", 0.001)],
)
def test_a_duration_is_a_number_and_its_unit(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)


NOT_QUITE = ["", "10", "s", "10 s", " 10s", "10S", "10d", "-1s", "+1s", "1e3s", ".5s", "5.s", "10s\n", "١s", "infs"]
TOO_MUCH_OR_LITTLE = ["0s", "0ms", "0.5ms", "9000h", "9" * 400 + "s"]
NO_TEXT: list[Any] = [None, 10, 10.0, b"10s", ["10s"]]


@pytest.mark.parametrize("text", [*NOT_QUITE, *TOO_MUCH_OR_LITTLE, *NO_TEXT])
def test_anything_else_is_no_duration(text: Any) -> None:
    with pytest.raises(ValueError, match="a duration is"):
        seconds(text)


def chains() -> Topology:
    topology = Topology("chains")
    one = topology.spout("one", Words())
    two = topology.spout("two", Words())
    first = topology.bolt("first", Split(), one.shuffle())
    topology.bolt("second", Sink(), first[Word].fields("text"), tasks=2)
    topology.bolt("third", Sink(), two.shuffle())
    topology.validate()
    return topology


def test_a_chain_of_single_tasks_never_leaves_its_worker_and_the_next_chain_has_the_next_worker() -> None:
    placed = plan(chains(), 2).placement
    assert placed["one", 0] == placed["first", 0] == placed["second", 0] == 0
    assert placed["two", 0] == placed["third", 0] == 1
    assert placed["second", 1] == 1


def test_task_i_of_a_chain_shares_a_worker_all_the_way() -> None:
    placed = plan(diamond(), 3).placement
    assert [placed["words", 0], placed["split", 0], placed["upper", 0], placed["sink", 0]] == [0, 0, 0, 0]
    assert [placed["words", 1], placed["split", 1], placed["upper", 1], placed["sink", 1]] == [1, 1, 1, 1]


def test_workers_that_have_no_task_are_not_in_the_plan() -> None:
    assert plan(chains(), 8).workers == [0, 1]


def test_every_task_has_a_place_and_none_is_on_a_worker_that_was_not_asked_for() -> None:
    for workers in range(1, 6):
        planned = plan(diamond(), workers)
        assert set(planned.placement) == {
            (one.name, task) for one in planned.components.values() for task in range(one.tasks)
        }
        assert set(planned.workers) <= set(range(workers))


def test_the_fingerprint_is_the_same_for_the_same_declaration_and_another_for_any_change_F37() -> None:
    base = plan(diamond(), 2).fingerprint
    assert plan(diamond(), 2).fingerprint == base
    changed = [plan(diamond(), 3), plan(chains(), 2)]

    class Longer(Record):
        text: str
        more: int = 0

    class SplitsLonger(Bolt):
        def process(self, word: Word) -> Iterator[Word | Longer]:
            yield word

    for bolt, by in ((Split(), "all"), (Split(), "shuffle"), (SplitsLonger(), "all")):
        topology = Topology("diamond")
        words = topology.spout("words", Words(), tasks=2)
        split = topology.bolt("split", bolt, words.shuffle(), tasks=3)
        topology.bolt("upper", Sink(), getattr(split[Word], by)(), tasks=2)
        changed.append(plan(topology, 2))
    prints = [one.fingerprint for one in changed]
    assert len({base, *prints}) == 1 + len(prints)


def test_a_record_that_is_changed_deep_inside_another_changes_the_fingerprint() -> None:
    def declared(kind: Any) -> Topology:
        class Inner(Record):
            value: kind

        class Outer(Record):
            inner: tuple[Inner, ...]

        class Outers(Spout):
            async def poll(self, limit: int) -> list[Message[Outer]]:
                return []

        topology = Topology("nested")
        topology.bolt("sink", Sink(), topology.spout("outers", Outers()).shuffle())
        return topology

    assert plan(declared(int)).fingerprint == plan(declared(int)).fingerprint != plan(declared(str)).fingerprint
