"""Watch a run on several processes: once per second, take its counters and explain why nothing is acked.

The monitor asks workers for facts only after nothing has been acked for a while. Must not know what is done about it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from topology.runtime.supervisor.fleet import Fleet
from topology.runtime.supervisor.metrics import WorkerMetrics
from topology.runtime.supervisor.queries import WorkerQueries
from topology.runtime.telemetry.metrics import Snapshot
from topology.runtime.telemetry.stall import LOOK_S, SILENT_S, RunFacts, StallWatch


class Looking:
    """Keep the last snapshot of the run and the reason for a stall.

    `snapshot` is the last one, or None before any worker has reported. `seconds` returns the age of the run. `starting`
    returns the companions that are not ready.
    """

    def __init__(
        self,
        fleet: Fleet,
        queries: WorkerQueries,
        figures: WorkerMetrics,
        seconds: Callable[[], float],
        starting: Callable[[], Sequence[str]],
    ) -> None:
        self.snapshot: Snapshot | None = None
        self._fleet = fleet
        self._queries = queries
        self._figures = figures
        self._seconds = seconds
        self._starting = starting
        self._stall = StallWatch()

    async def forever(self) -> None:
        """Take snapshots and look for a stall every LOOK_S, until cancelled."""
        loop = asyncio.get_running_loop()
        facts = RunFacts(0.0, (), ())
        while True:
            await asyncio.sleep(LOOK_S)
            snapshot = self._figures.all()
            if snapshot is None:
                continue
            self.snapshot = replace(snapshot, seconds=self._seconds())
            if self._fleet.started:
                if self._stall.silent_s > SILENT_S - 2 * LOOK_S:
                    facts = await self._queries.facts(self._figures.facts)
                    snapshot = self._figures.all() or snapshot  # the workers may have taken two seconds to answer
                starting = self._starting()
                self._stall.look(loop.time(), snapshot, lambda facts=facts: facts, starting)  # type: ignore[misc]

    def limit(self) -> str:
        """Return the workers that are away or blocked, and the bottleneck of the run."""
        now = self._figures.all()
        text = self._stall.text_with(now) if now is not None else self._stall.text
        return "; ".join(filter(None, [*self._fleet.ailing(), text]))
