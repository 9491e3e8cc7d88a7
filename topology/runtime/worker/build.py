"""Builds the tasks of one worker, as the plan says: each with its own copy of the component, its outbox, and who reads
it. Must not know how they are opened, run or closed."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from acker.frontier import Decided
from topology.graph import Declared
from topology.plan import Plan
from topology.runtime.checkpoints.log_commit import LogCommit
from topology.runtime.current_task import TaskPlace
from topology.runtime.dead_letters.deliveries import LetterRoute
from topology.runtime.links.peer import RemoteQueue
from topology.runtime.links.peers import Peers
from topology.runtime.plan_facts import begins_sub_trees, remembers_itself
from topology.runtime.prototypes import prototype_copy
from topology.runtime.state.due_times import DueTimes
from topology.runtime.state.rebuilt import RebuiltStateExecutor
from topology.runtime.state.state_executor import StateExecutor
from topology.runtime.state.timer_outputs import TimerOutputs
from topology.runtime.state.timer_retries import Fired, TimerRetries
from topology.runtime.state.timers import TaskTimers
from topology.runtime.state.value import StateCodec
from topology.runtime.tasks.batch_executor import BatchExecutor, takes_many
from topology.runtime.tasks.blocking_executor import BlockingExecutor
from topology.runtime.tasks.collector import CollectingExecutor
from topology.runtime.tasks.executor import Executor, ExecutorSettings, ProcessExecutor
from topology.runtime.tasks.interfaces import DownstreamTask
from topology.runtime.tasks.many_executor import ManyExecutor
from topology.runtime.tasks.outbox import Outbox, TupleQueue, dead_outbox_of, outbox_of
from topology.runtime.tasks.polling import polling
from topology.runtime.tasks.retry_policy import GivingUp
from topology.runtime.tasks.spout_task import SpoutTask
from topology.signatures import state_type, takes_many_records


class Building:
    """`executors` and `spout_tasks` are the tasks of worker `worker`, which is the `home` that they ack to.
    `spout_task` makes one of (component, task, spout, source, outbox, home)."""

    def __init__(
        self,
        plan: Plan,
        worker: int,
        home: Any,
        peers: Peers,
        *,
        topology_id: str,
        decided: Decided,
        log: LogCommit | None,
        keeps: bool,
        fired: Fired,
        random: Random,
        outbox_kind: type[Outbox],
        spout_task: Callable[..., SpoutTask],
    ) -> None:
        self.executors: dict[tuple[str, int], Executor] = {}
        self.spout_tasks: dict[tuple[str, int], SpoutTask] = {}
        self.letter_routes: dict[str, LetterRoute] = {}  # spout here whose dead letters are read → how they leave
        self._plan = plan
        self._worker = worker
        self._peers = peers
        self._home, self._decided, self._fired = home, decided, fired
        self._log, self._keeps = log, keeps
        self._topology_id = topology_id
        mine = [at for at, number in plan.placement.items() if number == worker]
        for name, task in reversed(mine):  # readers first: their queues must be there
            declared = plan.components[name]
            component: Any = prototype_copy(declared)
            seed = Random(random.getrandbits(64))
            outbox = outbox_of(plan, name, worker, self._queue, seed, outbox_kind, topology_id)
            if declared.kind == "bolt":
                self.executors[name, task] = self._executor(declared, task, component, outbox, seed)
            else:
                source = polling(component)
                self.spout_tasks[name, task] = spout_task(
                    *(name, task, component, source, outbox, home),
                    random=seed,
                    tasks=declared.tasks,
                    known_as=declared.known_as,
                )
        for (name, _), executor in self.executors.items():
            executor.downstream = self._readers(name)
        for (name, _), one in self.spout_tasks.items():
            one.downstream = self._readers(name)
            one.below = self._everywhere(plan.below(name))
            if plan.dead_readers(name):
                self.letter_routes[name] = self._letter_route(name, random, outbox_kind)

    def _executor(self, declared: Declared, task: int, bolt: Any, outbox: Outbox, random: Random) -> Executor:
        """Return the executor of one task of a bolt. Durable state takes a store; without one it is in memory."""
        config = self._plan.config
        settings = ExecutorSettings(
            place=TaskPlace(self._worker, declared.name, task),
            random=random,
            concurrency=declared.concurrency,
            time_limit_s=config.process_timeout_s,
            waits=declared.waits,
            decided=self._decided,
        )
        timed = hasattr(bolt, "on_timer")
        lasts = declared.shape == "journal" or bolt.recovery == "checkpoint"
        asks = remembers_itself(declared) or begins_sub_trees(self._plan, declared.name)
        if declared.shape == "execute" and not asks:
            settings = replace(settings, decided=None)  # no task from here on remembers inputs: stale ones do no harm
        args = bolt, outbox, self._home, settings
        execute = BatchExecutor if takes_many(bolt) else CollectingExecutor
        kinds: dict[str, type[Executor]] = {"process": ProcessExecutor, "execute": execute}
        if declared.prototype.blocking:
            kinds["process"] = BlockingExecutor
        elif takes_many_records(bolt):
            kinds["process"] = ManyExecutor
        if declared.shape in kinds:
            return kinds[declared.shape](*args)
        codec = StateCodec(declared.name, state_type(bolt), timed=timed) if declared.shape == "state" else None
        rebuilt = declared.shape == "state" and not timed and bolt.recovery == "replay"
        kind = RebuiltStateExecutor if rebuilt else StateExecutor
        lasts = lasts and self._keeps
        committing = kind(
            *args,
            codec=codec,
            known_as=declared.known_as,
            lasts=lasts,
            tasks=declared.tasks,
            most=config.max_remembered_bytes,
            log=self._log,
            by_count=declared.by_count and lasts and config.durability != "disk",
        )
        if timed:
            committing.timers = timers = self._timers(committing, declared, random)
            assert codec is not None, "on_timer is a part of what has state"
            codec.due = timers.due_times.due
        return committing

    def _timers(self, executor: StateExecutor, declared: Declared, random: Random) -> TaskTimers:
        place, home = executor.place, self._home
        retries = TimerRetries(declared.name, self._fired, GivingUp(self._plan.config), Random(random.getrandbits(64)))
        outputs = TimerOutputs(
            place,
            executor.outbox,
            self._fired,
            retries,
            ledger=home.ledger,
            roots=home.roots,
            report=home.reported,
            records_of=executor.records_of,
            wake=executor.wake_downstream,
        )
        return TaskTimers(
            executor.bolt,
            place,
            DueTimes(place.task, declared.known_as, lambda: home.clock.utc()),
            outputs,
            retries,
            topology_id=self._topology_id,
            known_as=declared.known_as,
            fields=max(len(read.key_fields) for read in self._plan.subscriptions if read.subscriber == declared.name),
            put=executor.put,
        )

    def _queue(self, component: str, task: int) -> TupleQueue:
        return self._task(component, task).queue

    def _task(self, component: str, task: int) -> Executor | RemoteQueue:
        worker = self._plan.placement[component, task]
        if worker == self._worker:
            return self.executors[component, task]
        return self._peers.queue(worker, (component, task))

    def _readers(self, name: str) -> list[DownstreamTask]:
        return [*self._everywhere({reader.subscriber for reader in self._plan.readers(name)})]

    def _letter_route(self, spout: str, random: Random, kind: type[Outbox]) -> LetterRoute:
        readers = self._everywhere({reader.subscriber for reader in self._plan.dead_readers(spout)})
        outbox = dead_outbox_of(self._plan, spout, self._worker, self._queue, Random(random.getrandbits(64)), kind)
        return LetterRoute(outbox, readers, self._everywhere(self._plan.below(spout, dead=True)))

    def _everywhere(self, names: set[str]) -> list[Executor | RemoteQueue]:
        """All tasks of these components, those of this worker first."""
        placement = self._plan.placement
        places = sorted(
            (place for place in placement if place[0] in names), key=lambda at: placement[at] != self._worker
        )
        return [self._task(*place) for place in places]
