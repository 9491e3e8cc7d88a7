"""Whose message ids are: each task's own, or shared by all tasks of a spout; an id that two messages have. B14, F59."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from runtime_kit import Number, Same, line

from spouts import Paced
from topology import Bolt, Message, Positions, Spout, State, Task, Topology
from topology.errors import KedgeError
from topology.runtime.run.report import Report
from topology.testing import Captured, Crash, Watch, run_topology

EACH = 100


class Own(Spout):
    """Each task has numbers of its own, and ids from 0."""

    def open(self, task: Task, positions: Positions) -> None:
        self.task, self.next = task.index, positions.get("", 0)

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        ids = range(self.next, EACH)[:limit]  # type: ignore[misc]  # its ids are ints
        self.next = ids.stop
        return [Message(Number(1000 * self.task + id), id) for id in ids]


class Shared(Own):
    shared_ids = True


class Counts(Bolt):
    def process(self, item: Number, state: State[int]) -> list[Number]:
        state.set(state.get(0) + 1)
        return [item]


def counted(spout: Any, tasks: int, **settings: Any) -> tuple[Report, Counter[Any], Captured[Number]]:
    topology, watch, seen = Topology("ids"), Watch(), Captured[Number]()
    counts = topology.bolt("counts", Counts(), topology.spout("numbers", spout, tasks=tasks).fields("n"))
    topology.bolt("seen", seen, counts.shuffle())
    report = run_topology(topology, watch=watch, **settings)
    return report, Counter(watch.state("counts").values()), seen


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", [Own, lambda: Paced(Own(), 1e6)])
def test_tasks_whose_ids_are_the_same_lose_none_of_their_messages_B14(kind: Any, workers: int) -> None:
    report, counts, seen = counted(kind(), 5, workers=workers)
    assert report.snapshot.spouts["numbers"].acked == 500
    assert counts == {1: 500}
    assert len(seen.distinct) == 500


def test_the_ids_of_the_first_task_are_those_of_a_spout_with_one_B14() -> None:
    _, _, alone = counted(Own(), 1)
    _, _, three = counted(Own(), 3)
    assert set(alone.distinct) == {pair for pair, number in three.distinct.items() if number.n < 1000}


def test_tasks_that_share_one_set_of_ids_give_each_message_one_identity_B14() -> None:
    class Both(Own):
        """Its tasks give the same messages, as two readers of one queue may."""

        shared_ids = True

        async def poll(self, limit: int) -> Sequence[Message[Number]]:
            return [Message(Number(message.id), message.id) for message in await super().poll(limit)]  # type: ignore[arg-type]  # ints

    _, counts, seen = counted(Both(), 2)
    assert counts == {1: EACH}
    assert len(seen.distinct) == EACH


@pytest.mark.parametrize("crash", [Crash("numbers", acked=40), Crash("counts", acked=150)])
def test_after_a_crash_each_task_gives_its_messages_under_their_own_identities_again_B14(
    tmp_path: Path, crash: Crash
) -> None:
    _, counts, _ = counted(Own(), 3, workers=2, state_dir=tmp_path, crashes=[crash])
    assert counts == {1: 300}


def test_the_next_run_passes_over_what_each_task_has_done_B14(tmp_path: Path) -> None:
    counted(Own(), 3, state_dir=tmp_path)
    report, counts, _ = counted(Own(), 3, state_dir=tmp_path)
    assert report.snapshot.spouts["numbers"].emitted == 0
    assert counts == {1: 300}


# -- one id, two messages


class Given(Spout):
    """Gives these messages, each in a poll of its own or all in one."""

    def __init__(self, messages: Sequence[Message[Any]], *, at_once: bool) -> None:
        self.messages, self.at_once = [*messages], at_once

    def emits(self) -> tuple[type[Number]]:
        return (Number,)

    async def poll(self, limit: int) -> Sequence[Message[Any]]:
        count = len(self.messages) if self.at_once else 1
        given, self.messages = self.messages[:count], self.messages[count:]
        return given


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("id", [7, "seven", b"seven"])
def test_an_id_that_is_not_done_and_names_another_record_is_refused_by_name(id: Any, at_once: bool) -> None:
    topology, seen = line(Given([Message(Number(1), id), Message(Number(2), id)], at_once=at_once), Same())
    report = run_topology(topology)
    assert (report.ended, [one.n for one in seen.records]) == ("failed", [1])
    assert str(report.error) == (
        f"spout 'numbers' gave the id {id!r} to two messages: Number(n=1) is not done, and now it names Number(n=2)"
    )
    assert isinstance(report.error, KedgeError)
    assert str(report.error.code) == "K556"


@pytest.mark.parametrize("at_once", [False, True])
def test_the_same_message_given_again_is_one_F59(at_once: bool) -> None:
    topology, seen = line(Given([Message(Number(1), 7)] * 3, at_once=at_once), Same())
    report = run_topology(topology)
    assert (report.ended, [one.n for one in seen.records]) == ("ended", [1])
