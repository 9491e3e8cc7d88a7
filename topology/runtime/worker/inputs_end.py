"""The end of a worker's inputs: when its sources have ended, and which bolts have been told so by `flush`.

Must not know how many workers there are, nor when a bolt's turn to be flushed comes.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from topology.runtime.state.state_executor import StateExecutor
from topology.runtime.tasks.collector import TaskCollector
from topology.runtime.tasks.executor import Executor
from topology.runtime.tasks.spout_task import SpoutTask
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.worker.outcome import WorkerOutcome
from topology.runtime.worker.user_calls import called


class InputsEnd:
    """`sources_ended` is set once all sources have ended, but for those that end last. `flushed`: bolt task → how many
    inputs it had executed when it was flushed last."""

    def __init__(
        self,
        spout_tasks: Mapping[tuple[str, int], SpoutTask],
        executors: Mapping[tuple[str, int], Executor],
        with_state: Sequence[StateExecutor],
        outcome: WorkerOutcome,
        reporter: Reporter,
        *,
        limit_s: float,
    ) -> None:
        self.sources_ended = asyncio.Event()
        self.flushed: dict[tuple[str, int], int] = {}
        self._spout_tasks, self._executors, self._with_state = spout_tasks, executors, with_state
        self._outcome, self._reporter, self._limit_s = outcome, reporter, limit_s

    def look_at_sources(self) -> None:
        """Set `sources_ended` if they have."""
        if all(task.ended or task.ends_last for task in self._spout_tasks.values()):
            self.sources_ended.set()

    @property
    def holds_untracked(self) -> bool:
        """True if a bolt holds a tuple for which there is no deadline, or timers that only a flush makes fire."""
        held = any(not tup.roots for executor in self._executors.values() for tup in executor.held())
        return held or any(executor.untold for executor in self._with_state)

    async def flush(self, name: str) -> None:
        """Tell this bolt's tasks here that all inputs have ended. With "", once each bolt was flushed: the tasks that
        have had inputs since, or that were not here then."""
        if name:
            tasks = [executor for (component, _), executor in self._executors.items() if component == name]
        else:
            tasks = [task for at, task in self._executors.items() if task.inputs > self.flushed.get(at, 0)]
            tasks += [task for task in self._with_state if task.untold and task not in tasks]
        for executor in tasks:
            self.flushed[executor.component, executor.task] = executor.inputs
            executor.inputs_ended()
            flush = getattr(executor.bolt, "flush", None)
            if flush is None:
                continue
            await called(self._reporter, executor.place, partial(flush, TaskCollector(executor, None)), self._limit_s)
            executor.wake_downstream()
            if (error := getattr(executor.bolt, "broken", None)) is not None and self._outcome.broken is None:
                self._outcome.broke(error, executor.component, can_drain=False)
                await asyncio.sleep(0)  # who waits for `stopping` has its turn before this counts as flushed
