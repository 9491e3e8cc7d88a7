"""Builds the tasks of one worker, as the plan says: each with its own copy of the component, its outbox, and who reads
it. Must not know how they are opened, run or closed."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from topology.plan import Plan
from topology.runtime.collecting import CollectingExecutor
from topology.runtime.copying import prototype_copy
from topology.runtime.errands import Way
from topology.runtime.executor import Executor, ProcessExecutor
from topology.runtime.here import Place
from topology.runtime.keyed import KeyedExecutor
from topology.runtime.linking import Peers
from topology.runtime.neighbours import Home, Reader
from topology.runtime.outbox import Outbox, Queue, dead_outbox_of, outbox_of
from topology.runtime.peers import RemoteQueue
from topology.runtime.sourcing import polling
from topology.runtime.spouting import Spouting

EXECUTORS: Final[dict[str, type[Executor]]] = {
    "process": ProcessExecutor,
    "state": KeyedExecutor,
    "execute": CollectingExecutor,
}


class Building:
    """`executors` and `spoutings` are the tasks of worker `worker`, which is the `home` that they ack to. `spouting`
    makes one of (component, task, spout, source, outbox, home)."""

    def __init__(
        self,
        plan: Plan,
        worker: int,
        home: Home,
        peers: Peers,
        *,
        random: Random,
        outbox_kind: type[Outbox],
        spouting: Callable[..., Spouting],
    ) -> None:
        self.executors: dict[tuple[str, int], Executor] = {}
        self.spoutings: dict[tuple[str, int], Spouting] = {}
        self.dead_ways: dict[str, Way] = {}  # of the spouts here whose dead letters are read, how these leave
        self._plan = plan
        self._worker = worker
        self._peers = peers
        mine = [at for at, number in plan.placement.items() if number == worker]
        for name, task in reversed(mine):  # readers first: their queues must be there
            declared = plan.components[name]
            component: Any = prototype_copy(declared)
            seed = Random(random.getrandbits(64))
            outbox = outbox_of(plan, name, worker, self._queue, seed, outbox_kind)
            if declared.kind == "bolt":
                self.executors[name, task] = EXECUTORS[declared.shape](
                    name,
                    task,
                    component,
                    outbox,
                    home,
                    concurrency=declared.concurrency,
                    time_limit_s=plan.config.process_timeout_s,
                    random=seed,
                    waits=declared.waits,
                    place=Place(worker, name, task),
                )
            else:
                source = polling(component)
                self.spoutings[name, task] = spouting(
                    name, task, component, source, outbox, home, random=seed, tasks=declared.tasks
                )
        for (name, _), executor in self.executors.items():
            executor.downstream = self._readers(name)
        for (name, _), one in self.spoutings.items():
            one.downstream = self._readers(name)
            one.below = self._everywhere(plan.below(name))
            if plan.dead_readers(name):
                self.dead_ways[name] = self._dead_way(name, random, outbox_kind)

    def _queue(self, component: str, task: int) -> Queue:
        return self._task(component, task).queue

    def _task(self, component: str, task: int) -> Executor | RemoteQueue:
        worker = self._plan.placement[component, task]
        if worker == self._worker:
            return self.executors[component, task]
        return self._peers.queue(worker, (component, task))

    def _readers(self, name: str) -> list[Reader]:
        return [*self._everywhere({reader.subscriber for reader in self._plan.readers(name)})]

    def _dead_way(self, spout: str, random: Random, kind: type[Outbox]) -> Way:
        readers = self._everywhere({reader.subscriber for reader in self._plan.dead_readers(spout)})
        outbox = dead_outbox_of(self._plan, spout, self._worker, self._queue, Random(random.getrandbits(64)), kind)
        return Way(outbox, readers, self._everywhere(self._plan.below(spout, dead=True)))

    def _everywhere(self, names: set[str]) -> list[Executor | RemoteQueue]:
        """All tasks of these components, those of this worker first."""
        at = [one for one in self._plan.placement if one[0] in names]
        return [self._task(*one) for one in sorted(at, key=lambda one: self._plan.placement[one] != self._worker)]
