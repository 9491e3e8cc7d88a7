"""The components of one worker that are open: opens each with its Task, sums them up, closes them in the flow's order.

Must not know executors, trees or how a run ends.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from random import Random
from typing import Any

from acker.frontier import Decided
from topology.components import Task
from topology.plan import Plan
from topology.runtime.current_task import TaskPlace
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.worker.context import RunContext
from topology.runtime.worker.user_calls import called, opened, summaries


class OpenComponents:
    """`random` gives each component a generator of its own."""

    def __init__(self, plan: Plan, worker: int, context: RunContext, decided: Decided, random: Random) -> None:
        self._plan, self._worker, self._context = plan, worker, context
        self._decided, self._random = decided, random
        self._opened: list[tuple[TaskPlace, Any]] = []

    async def open(
        self, name: str, index: int, component: Any, resume: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        """Open one task's copy of a component. `resume` returns the positions of a spout. Raises what `open` raises."""
        declared = self._plan.components[name]
        random = Random(self._random.getrandbits(64))
        context = self._context
        where = self._plan.topology, name, index, declared.tasks
        task = Task(*where, context.clock, random, context.notes, declared.known_as, self._decided, context.folder)
        place = TaskPlace(self._worker, name, index)
        self._opened.append((place, component))
        call = partial(component.open, task) if resume is None else partial(component.open, task, resume())
        await opened(place, call, context.clock, self._plan.config.start_timeout_s)
        await asyncio.sleep(0)  # a run that is ended opens no more of them, though none of them waits

    def summaries(self, reporter: Reporter) -> dict[str, list[str]]:
        """Return the lines that the components have at the end, sources first. Called before `close`."""
        return summaries(reporter, self._in_order())

    async def close(self, reporter: Reporter, limit_s: float, *, later: Collection[Any] = ()) -> None:
        """Close each component that is open, but for those in `later`. Each may take `limit_s`. Errors are reported."""
        closing = [placed for placed in self._in_order() if not any(placed[1] is component for component in later)]
        self._opened = [placed for placed in self._opened if placed not in closing]
        for place, component in closing:
            await called(reporter, place, component.close, limit_s)

    def _in_order(self) -> list[tuple[TaskPlace, Any]]:
        order = list(self._plan.components)
        return sorted(self._opened, key=lambda placed: order.index(placed[0].component))
