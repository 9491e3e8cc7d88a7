"""A checkpoint that takes long says which worker it waits for, and for which step (P16)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from acker.frontier import Frontier
from acker.frontier import Note as HomeNote
from topology.runtime.checkpoints.coordinator import Coordinator, GivenUp
from topology.testing.virtual_time.loop import run_virtual


class Member:
    """A worker that answers each step at once, unless it is the one at which it is stuck."""

    def __init__(self, worker: int, stuck: str = "", full: bool = False) -> None:
        self.worker = worker
        self.coordinator: Coordinator | None = None
        self.quiet = False
        self._stuck, self._full = stuck, full

    def ask_note(self, checkpoint: int) -> None:
        if self._stuck != "note":
            self._of().noted(self.worker, checkpoint, HomeNote((self.worker,), 0), self.quiet)

    def send_barrier(self, frontier: Frontier, *, alone: bool) -> None:
        if self._full:
            self._of().unprepared(self.worker, frontier.checkpoint, "no space left on device")
        elif self._stuck != "keep":
            self._of().prepared(self.worker, frontier.checkpoint, 100, 0.0)

    def send_decided(self, checkpoint: int) -> None:
        if self._stuck != "settle":
            self._of().settled(self.worker, checkpoint)

    def send_copy(self, checkpoint: int, folder: Path) -> None:
        if self._stuck != "copy":
            self._of().copied(self.worker, checkpoint, 1, "")

    def send_given_up(self, checkpoint: int) -> None:
        pass

    def _of(self) -> Coordinator:
        assert self.coordinator is not None
        return self.coordinator


async def at_once(checkpoint: int) -> None:
    pass


async def never(checkpoint: int) -> None:
    await asyncio.sleep(1e9)


async def _taking(
    members: Sequence[Member] | None, for_s: float, decide: Callable[[int], Awaitable[None]] = at_once
) -> Coordinator:
    coordinator = Coordinator(lambda: members, decide, first=4, every_s=0.2)
    for member in members or ():
        member.coordinator = coordinator
    running = asyncio.ensure_future(coordinator.run())
    await asyncio.sleep(for_s)
    running.cancel()
    await asyncio.wait({running})
    return coordinator


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("stuck", "said"),
    [
        ("note", "checkpoint 5 is not decided after 10 s: worker 1 has not noted what is done (K573)"),
        ("keep", "checkpoint 5 is not decided after 10 s: worker 1 has not kept what has changed (K573)"),
        (
            "settle",
            "checkpoint 5 is decided, and the next one waits: after 10 s worker 1 has not taken the decision in (K573)",
        ),
    ],
)
def test_the_worker_and_the_step_that_a_checkpoint_waits_for_are_named(
    caplog: pytest.LogCaptureFixture, stuck: str, said: str
) -> None:
    run_virtual(_taking([Member(0), Member(1, stuck), Member(2)], 12.0))
    assert lines(caplog) == [said]


def test_all_workers_that_a_checkpoint_waits_for_are_named(caplog: pytest.LogCaptureFixture) -> None:
    run_virtual(_taking([Member(2, "note"), Member(0), Member(1, "note")], 12.0))
    assert lines(caplog) == [
        "checkpoint 5 is not decided after 10 s: worker 1 and worker 2 have not noted what is done (K573)"
    ]


def test_a_decision_that_the_disk_does_not_take_is_named(caplog: pytest.LogCaptureFixture) -> None:
    run_virtual(_taking([Member(0), Member(1)], 12.0, never))
    assert lines(caplog) == ["checkpoint 5 is not decided after 10 s: the decision is not on the disk yet (K573)"]


def test_a_copy_that_takes_long_is_named_too(caplog: pytest.LogCaptureFixture) -> None:
    async def copying() -> None:
        members = [Member(0), Member(1, "copy")]
        coordinator = Coordinator(lambda: members, at_once, first=4, every_s=0.2)
        for member in members:
            member.coordinator = coordinator
        copies = asyncio.ensure_future(coordinator.copies(Path("kept")))
        await asyncio.sleep(12)
        coordinator.copied(1, 5, 1, "")
        assert await copies == {0: 1, 1: 1}
        await asyncio.sleep(60)

    run_virtual(copying())
    assert lines(caplog) == [
        "the copy of checkpoint 5 is not ready after 10 s: worker 1 has not copied its store (K573)"
    ]


def test_it_is_reported_again_each_time_after_twice_as_long(caplog: pytest.LogCaptureFixture) -> None:
    run_virtual(_taking([Member(0, "note")], 100.0))
    assert [line.partition("after ")[2].partition(" s")[0] for line in lines(caplog)] == ["10", "20", "40", "80"]


def test_checkpoints_that_are_all_given_up_are_reported_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    run_virtual(_taking([Member(0), Member(1, full=True)], 60.0))
    told = lines(caplog)
    assert 2 <= len(told) <= 3
    assert told[0].startswith("no checkpoint was decided for 1")
    assert told[0].endswith("the last one was given up: worker 1: no space left on device (K573)")


def test_a_worker_that_stays_away_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    run_virtual(_taking(None, 20.0))
    assert [line.partition("given up: ")[2] for line in lines(caplog)] == ["a worker is away (K573)"]


def test_a_run_whose_checkpoints_are_decided_reports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = run_virtual(_taking([Member(0), Member(1)], 60.0))
    assert lines(caplog) == []
    assert coordinator.facts.taken > 200
    assert coordinator.facts.checkpoint == 4 + coordinator.facts.taken


def test_a_run_in_which_nothing_changes_has_a_last_checkpoint_that_stays_new(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        members = [Member(0), Member(1)]
        coordinator = Coordinator(lambda: members, at_once, first=4, every_s=0.2)
        for member in members:
            member.coordinator = coordinator
        assert await coordinator.take()
        for member in members:
            member.quiet = True
        running = asyncio.ensure_future(coordinator.run())
        await asyncio.sleep(60.0)
        running.cancel()
        figures = coordinator.facts.figures(asyncio.get_running_loop().time())
        assert figures is not None
        assert (figures.number, figures.taken) == (5, 1)
        assert figures.age_s <= 0.201

    run_virtual(story())
    assert lines(caplog) == []


def test_a_checkpoint_of_more_than_a_second_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    async def slowly(checkpoint: int) -> None:
        await asyncio.sleep(1.5)

    coordinator = run_virtual(_taking([Member(0), Member(1)], 1.6, slowly))
    assert lines(caplog) == ["checkpoint 5 took 1.5 s, with 200 bytes (K574)"]
    figures = coordinator.facts.figures(coordinator.facts.current_at + 3.0)
    assert figures is not None
    assert (figures.number, figures.age_s, figures.bytes, round(figures.seconds, 6)) == (5, 3.0, 200, 1.5)


def test_figures_have_the_largest_and_the_slowest_checkpoint_of_this_run_and_none_of_runs_before() -> None:
    async def story() -> None:
        coordinator = Coordinator(lambda: None, at_once, first=4, every_s=0.2)
        assert coordinator.facts.figures(1.0) is None
        facts = coordinator.facts.next(5, 1.0, 300, 0.1).next(6, 2.0, 20, 0.3).next(7, 3.0, 100, 0.2)
        figures = facts.figures(3.5)
        assert figures is not None
        assert (figures.number, figures.age_s, figures.bytes, figures.seconds) == (7, 0.5, 100, 0.2)
        assert (figures.taken, figures.bytes_max, figures.seconds_max) == (3, 300, 0.3)

    run_virtual(story())


def test_a_copy_is_given_up_while_a_decision_can_not_be_taken_in_and_the_reason_is_named() -> None:
    async def copying() -> None:
        members = [Member(0), Member(1, "settle")]
        coordinator = Coordinator(lambda: members, at_once, first=4, every_s=0.2)
        for member in members:
            member.coordinator = coordinator
        running = asyncio.ensure_future(coordinator.run())
        await asyncio.sleep(1)
        with pytest.raises(GivenUp, match="5 is decided, and the next one waits: after 10 s worker 1 has not taken"):
            await coordinator.copies(Path("kept"))
        coordinator.settled(1, 5)
        running.cancel()

    run_virtual(copying())
