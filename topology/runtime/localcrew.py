"""Workers that share one event loop, as the end of a run sees them (`ending.Crew`)."""

from collections.abc import Sequence

from topology.plan import Plan
from topology.runtime.control import DeadAnswer, DeadAsk
from topology.runtime.ending import Status
from topology.runtime.worker import Worker


class LocalCrew:
    """Nothing here waits for anybody but the sources, and bolts that flush."""

    def __init__(self, plan: Plan, workers: Sequence[Worker]) -> None:
        self.plan = plan
        self._workers = workers

    async def sources_ended(self) -> None:
        for worker in self._workers:
            await worker.sources_ended.wait()

    async def probe(self) -> list[Status]:
        return [worker.status() for worker in self._workers]

    async def flush(self, component: str) -> None:
        for worker in self._workers:
            await worker.flush_component(component)

    async def dead(self, ask: DeadAsk) -> list[DeadAnswer]:
        return [await worker.dead(ask) for worker in self._workers]

    def drain(self) -> None:
        for worker in self._workers:
            worker.drain()
