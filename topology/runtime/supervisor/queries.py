"""All worker processes of a run, as its end sees them (`ending.Crew`): questions to all of them, and their answers.

Waits for workers that are away, and asks anew where one has died meanwhile. Must not know how a worker is replaced.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from topology.plan import Plan
from topology.runtime.control.completion import Statuses
from topology.runtime.control.completion import WorkerStatus as How
from topology.runtime.control.messages import Done, Drain, Flush, Look, Looked, Order, Probe, Status
from topology.runtime.supervisor.fleet import Fleet
from topology.runtime.supervisor.worker_handle import WorkerHandle, WorkerState
from topology.runtime.telemetry.stall import RunFacts, together
from topology.storage.dead_questions import DeadAnswer, DeadAsk

LOOK_ANSWER_S: Final = 1.0  # how long workers may take to say what holds them up; a blocked one does not

AWAY_S: Final = 10.0  # how long a question about dead letters waits for workers that are away,
DEAD_ANSWER_S: Final = 60.0  # and then for the answers

Answer = Status | Looked | Done | DeadAnswer

_how: Final = msgspec.msgpack.Decoder(How)


@dataclass
class _Question:
    missing: set[int]
    answers: dict[int, Answer]
    done: asyncio.Future[None]

    def settle(self, worker: int) -> None:
        self.missing.discard(worker)
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class WorkerQueries:
    """Give it all answers, and tell it who has died: `answered` and `left`."""

    def __init__(self, plan: Plan, fleet: Fleet) -> None:
        self.plan = plan
        self._fleet = fleet
        self._number = 0
        self._open: dict[int, _Question] = {}

    def answered(self, handle: WorkerHandle, answer: Answer) -> None:
        """An answer has come; one to a question that nobody asks any more is dropped."""
        question = self._open.get(answer.number)
        if question is not None and handle.worker in question.missing:
            question.answers[handle.worker] = answer
            question.settle(handle.worker)

    def left(self, worker: int) -> None:
        """This worker's process is gone, and answers nothing."""
        for question in self._open.values():
            question.settle(worker)

    # -- what the end of a run asks

    async def sources_ended(self) -> None:
        fleet = self._fleet
        await fleet.until(lambda: all(one.sources_ended for one in fleet.handles.values()) and fleet.complete)

    async def probe(self) -> Statuses:
        """How all workers are. Waits for those that are away, and for sources that a replacement reads again."""
        fleet = self._fleet
        while True:
            await fleet.until(lambda: fleet.complete)
            if not fleet.draining:
                await self.sources_ended()
            answers = await self._ask(fleet.handles.values(), Probe)
            if len(answers) == len(self.plan.workers):
                return [_how.decode(one.status) for _, one in sorted(answers.items()) if isinstance(one, Status)]

    async def flush(self, component: str) -> None:
        """Who dies meanwhile is not waited for: its replacement begins without inputs."""
        await self._fleet.until(lambda: self._fleet.complete)
        await self._ask(self._fleet.handles.values(), lambda number: Flush(number, component))

    def drain(self) -> None:
        self._fleet.draining = True
        for handle in self._running():
            handle.say(Drain())

    # -- what a command asks

    async def dead(self, ask: DeadAsk) -> list[DeadAnswer]:
        """What all workers say of their dead letters; a problem for each that is away, or does not answer."""
        try:
            async with asyncio.timeout(AWAY_S):
                await self._fleet.until(lambda: self._fleet.complete)
        except TimeoutError:
            pass  # who is there can answer
        handles = self._fleet.handles.values()
        answers = await self._ask(handles, lambda number: msgspec.structs.replace(ask, number=number), DEAD_ANSWER_S)
        silent = [worker for worker in self.plan.workers if worker not in answers]
        problems = [f"worker {worker} is away or busy, and has not answered" for worker in silent]
        said = [one for _, one in sorted(answers.items()) if isinstance(one, DeadAnswer)]
        return [*said, *(DeadAnswer(ask.number, problem=problem) for problem in problems)]

    # -- what a stall line asks

    async def facts(self, last: Callable[[int], RunFacts]) -> RunFacts:
        """What holds the run up. `last` tells it of a worker that does not answer within LOOK_ANSWER_S, which may pass
        twice: the oldest message is any worker's, and then all are asked who has it."""
        said = await self._looked(0)
        oldest = max(said.values(), key=lambda one: one.oldest_s, default=None)
        root = oldest.oldest_root if oldest is not None else 0
        asked = said
        if root and len(self.plan.workers) > 1:
            asked = await self._looked(root)
            said = {worker: replace(one, oldest_in=()) for worker, one in said.items()} | asked
        facts = together([said[worker] if worker in said else last(worker) for worker in self.plan.workers])
        everybody = len(asked) == len(self.plan.workers)
        if facts.oldest_root != root or not (facts.oldest_in or everybody):  # it is done by now, or who knows where
            facts = replace(facts, oldest_s=0.0, oldest_in=(), oldest_root=0)
        return facts

    async def _looked(self, root: int) -> dict[int, RunFacts]:
        answers = await self._ask(self._running(), lambda number: Look(number, root), LOOK_ANSWER_S)
        return {worker: one.facts for worker, one in answers.items() if isinstance(one, Looked)}

    def _running(self) -> list[WorkerHandle]:
        return [one for one in self._fleet.handles.values() if one.state is WorkerState.RUNNING]

    async def _ask(
        self, handles: Iterable[WorkerHandle], question: Callable[[int], Order], timeout_s: float | None = None
    ) -> dict[int, Answer]:
        """The answers by worker; of those that die, or take too long, there is none."""
        asked = [one for one in handles if one.state is WorkerState.RUNNING]
        if not asked:
            return {}
        self._number += 1
        done = asyncio.get_running_loop().create_future()
        one = self._open[self._number] = _Question({handle.worker for handle in asked}, {}, done)
        order = question(self._number)
        try:
            for handle in asked:
                handle.say(order)
            await asyncio.wait({done}, timeout=timeout_s)
        finally:
            self._open = {number: other for number, other in self._open.items() if other is not one}
            done.cancel()
        return one.answers
