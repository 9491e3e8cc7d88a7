"""The order of a checkpoint's steps, whatever order workers answer in (P1, P5, P6)."""

import asyncio
from pathlib import Path

from acker.frontier import Frontier, Note
from topology.runtime.checkpoints.coordinator import Coordinator


class Member:
    """A worker that writes down what it is asked for, and answers when the test says so."""

    def __init__(self, worker: int, asked: list[str]) -> None:
        self.worker, self._asked = worker, asked

    def ask_note(self, checkpoint: int) -> None:
        self._asked.append(f"{self.worker} notes {checkpoint}")

    def send_barrier(self, frontier: Frontier, *, alone: bool) -> None:
        self._asked.append(f"{self.worker} keeps {frontier.checkpoint}")

    def send_decided(self, checkpoint: int) -> None:
        self._asked.append(f"{self.worker} decided {checkpoint}")

    def send_given_up(self, checkpoint: int) -> None:
        self._asked.append(f"{self.worker} gives up {checkpoint}")

    def send_copy(self, checkpoint: int, folder: Path) -> None:
        self._asked.append(f"{self.worker} copies {checkpoint}")


class Stand:
    """Two workers. `asked` has what they were asked for since the last look."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.decision: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        members = [Member(0, self.asked), Member(1, self.asked)]
        self.coordinator = Coordinator(lambda: members, self._decide, first=0, every_s=60.0)

    async def _decide(self, checkpoint: int) -> None:
        self.asked.append(f"decision {checkpoint}")
        await self.decision

    async def look(self) -> list[str]:
        await asyncio.sleep(0.01)
        asked = [*self.asked]
        self.asked.clear()
        return asked


async def test_each_step_begins_when_all_have_answered_the_one_before_P1_P5_P6() -> None:
    stand = Stand()
    first = asyncio.ensure_future(stand.coordinator.take())
    second = asyncio.ensure_future(stand.coordinator.take())
    assert await stand.look() == ["0 notes 1", "1 notes 1"]
    for worker, follows in ((1, []), (0, ["0 keeps 1", "1 keeps 1"])):
        stand.coordinator.noted(worker, 1, Note((worker,), 0), False)
        assert await stand.look() == follows
    for worker, follows in ((1, []), (0, ["decision 1"])):
        stand.coordinator.prepared(worker, 1, 10, 0.0)
        assert await stand.look() == follows
    stand.decision.set_result(None)
    assert await stand.look() == ["0 decided 1", "1 decided 1"]
    for worker, follows in ((1, []), (0, ["0 notes 2", "1 notes 2"])):
        stand.coordinator.settled(worker, 1)
        assert await stand.look() == follows
    assert first.done()
    stand.coordinator.give_up("enough")
    assert await second is False


async def test_answers_of_a_checkpoint_that_was_given_up_count_for_no_other_P5() -> None:
    stand = Stand()
    first = asyncio.ensure_future(stand.coordinator.take())
    await stand.look()
    stand.coordinator.noted(0, 1, Note((0,), 0), False)
    stand.coordinator.give_up("worker 1 is dead")
    assert await first is False
    assert await stand.look() == ["0 gives up 1", "1 gives up 1"]
    second = asyncio.ensure_future(stand.coordinator.take())
    assert await stand.look() == ["0 notes 2", "1 notes 2"]
    stand.coordinator.noted(0, 1, Note((0,), 0), False)
    stand.coordinator.noted(1, 2, Note((1,), 0), False)
    assert await stand.look() == []
    stand.coordinator.give_up("enough")
    assert await second is False
