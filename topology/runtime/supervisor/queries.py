"""Questions to all worker processes of a run, and their answers. The end of a run sees the workers as
`completion.Workers`.

Waits for workers that are away, and asks again if one dies meanwhile. Must not know how a worker is replaced.
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

LOOK_ANSWER_S: Final = 1.0  # how long workers may take to report what holds them up; a blocked worker does not answer

AWAY_S: Final = 10.0  # how long a question about dead letters waits for workers that are away
DEAD_ANSWER_S: Final = 60.0  # how long it then waits for their answers

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
    """Ask all workers. Pass each answer to `answered`, and each worker that died to `left`."""

    def __init__(self, plan: Plan, fleet: Fleet) -> None:
        self.plan = plan
        self._fleet = fleet
        self._number = 0
        self._open: dict[int, _Question] = {}

    def answered(self, handle: WorkerHandle, answer: Answer) -> None:
        """Take an answer. An answer to a question that is no longer open is dropped."""
        question = self._open.get(answer.number)
        if question is not None and handle.worker in question.missing:
            question.answers[handle.worker] = answer
            question.settle(handle.worker)

    def left(self, worker: int) -> None:
        """Stop waiting for this worker: its process is gone."""
        for question in self._open.values():
            question.settle(worker)

    # -- questions at the end of a run

    async def sources_ended(self) -> None:
        fleet = self._fleet
        await fleet.until(lambda: all(handle.sources_ended for handle in fleet.handles.values()) and fleet.complete)

    async def probe(self) -> Statuses:
        """Return the status of all workers. Waits for workers that are away, and for sources that a replacement
        re-reads."""
        fleet = self._fleet
        while True:
            await fleet.until(lambda: fleet.complete)
            if not fleet.draining:
                await self.sources_ended()
            answers = await self._ask(fleet.handles.values(), Probe)
            if len(answers) == len(self.plan.workers):
                return [
                    _how.decode(answer.status) for _, answer in sorted(answers.items()) if isinstance(answer, Status)
                ]

    async def flush(self, component: str) -> None:
        """Flush a component in all workers. Does not wait for a worker that dies meanwhile: its replacement has no
        inputs."""
        await self._fleet.until(lambda: self._fleet.complete)
        await self._ask(self._fleet.handles.values(), lambda number: Flush(number, component))

    def drain(self) -> None:
        self._fleet.draining = True
        for handle in self._running():
            handle.say(Drain())

    # -- questions of a command

    async def dead(self, ask: DeadAsk) -> list[DeadAnswer]:
        """Return what all workers answer about dead letters, and a problem for each worker that is away or does not
        answer."""
        try:
            async with asyncio.timeout(AWAY_S):
                await self._fleet.until(lambda: self._fleet.complete)
        except TimeoutError:
            pass  # workers that are present can answer
        handles = self._fleet.handles.values()
        answers = await self._ask(handles, lambda number: msgspec.structs.replace(ask, number=number), DEAD_ANSWER_S)
        silent = [worker for worker in self.plan.workers if worker not in answers]
        problems = [f"worker {worker} is away or busy, and did not answer" for worker in silent]
        answered = [answer for _, answer in sorted(answers.items()) if isinstance(answer, DeadAnswer)]
        return [*answered, *(DeadAnswer(ask.number, problem=problem) for problem in problems)]

    # -- questions of a stall report

    async def facts(self, last: Callable[[int], RunFacts]) -> RunFacts:
        """Return what holds the run up. `last` returns the last facts of a worker that does not answer within
        LOOK_ANSWER_S.

        Waits up to twice that time: once to find the oldest message of all workers, and once to ask all of them where
        it is.
        """
        looked = await self._looked(0)
        oldest = max(looked.values(), key=lambda seen: seen.oldest_s, default=None)
        root = oldest.oldest_root if oldest is not None else 0
        asked = looked
        if root and len(self.plan.workers) > 1:
            asked = await self._looked(root)
            looked = {worker: replace(seen, oldest_in=()) for worker, seen in looked.items()} | asked
        facts = together([looked[worker] if worker in looked else last(worker) for worker in self.plan.workers])
        complete = len(asked) == len(self.plan.workers)
        # the oldest message is done by now, or is at a worker that did not answer
        if facts.oldest_root != root or not (facts.oldest_in or complete):
            facts = replace(facts, oldest_s=0.0, oldest_in=(), oldest_root=0)
        return facts

    async def _looked(self, root: int) -> dict[int, RunFacts]:
        answers = await self._ask(self._running(), lambda number: Look(number, root), LOOK_ANSWER_S)
        return {worker: answer.facts for worker, answer in answers.items() if isinstance(answer, Looked)}

    def _running(self) -> list[WorkerHandle]:
        return [handle for handle in self._fleet.handles.values() if handle.state is WorkerState.RUNNING]

    async def _ask(
        self, handles: Iterable[WorkerHandle], question: Callable[[int], Order], timeout_s: float | None = None
    ) -> dict[int, Answer]:
        """Return the answers by worker. A worker that dies or takes too long has none."""
        asked = [handle for handle in handles if handle.state is WorkerState.RUNNING]
        if not asked:
            return {}
        self._number += 1
        done = asyncio.get_running_loop().create_future()
        asking = self._open[self._number] = _Question({handle.worker for handle in asked}, {}, done)
        order = question(self._number)
        try:
            for handle in asked:
                handle.say(order)
            await asyncio.wait({done}, timeout=timeout_s)
        finally:
            self._open = {number: other for number, other in self._open.items() if other is not asking}
            done.cancel()
        return asking.answers
