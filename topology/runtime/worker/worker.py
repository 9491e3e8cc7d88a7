"""One worker: the tasks of a plan that run in one event loop, and their ledger.

Builds, opens, runs, drains and closes; the order of each is written here and nowhere else. It is the `Home` that
executors ack and fail to. It must not know signals, commands or how many workers there are.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from acker.ledger import Ledger
from acker.progress import Progress
from acker.roots import WORKER_SHIFT, RootSource, worker_of
from topology.codes.runtime import RUNTIME_FAILED, SPOUT_RAISED, WORKER_STATE_BROKEN
from topology.components import Clock, Notes, Task, no_folder
from topology.errors import WorkerError
from topology.plan import Plan, seconds
from topology.runtime.asyncio_tools import shielded_task
from topology.runtime.commits.group_commit import GroupCommit
from topology.runtime.commits.renamed_store import by_present_names
from topology.runtime.control.completion import WorkerStatus
from topology.runtime.current_task import HERE, TaskPlace
from topology.runtime.dead_letters.dead_letters import DeadLetters
from topology.runtime.failures import Failure, Reason
from topology.runtime.links.peers import Peers, Wiring
from topology.runtime.plan_facts import floors_of, remembers
from topology.runtime.poison.trials import Fallen, Trials
from topology.runtime.state.committed import CommittedStateExecutor
from topology.runtime.state.garbage import Garbage, restore
from topology.runtime.state.timers import Fired
from topology.runtime.tasks.checked_outbox import CheckedOutbox
from topology.runtime.tasks.collector import TaskCollector
from topology.runtime.tasks.executor import Executor
from topology.runtime.tasks.marks import Markings
from topology.runtime.tasks.outbox import Outbox
from topology.runtime.tasks.pending import Pending
from topology.runtime.tasks.spout_task import SpoutTask
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.telemetry.metrics import Snapshot
from topology.runtime.worker.build import Building
from topology.runtime.worker.counters import counted, status
from topology.runtime.worker.housekeeping import Housekeeping
from topology.runtime.worker.recovery import Recovery, Told
from topology.runtime.worker.shutdown import CLOSE_S, cut_off, settled
from topology.runtime.worker.sink_horizon import check_memories
from topology.runtime.worker.subtrees import SubTree, SubTrees
from topology.runtime.worker.user_calls import called, opened, summaries
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.store import Store, StoreBroken
from topology.user_frames import described

logger = logging.getLogger("kedge")


class Worker:
    """The tasks of `plan` on one worker. Make it in a running loop; `open`, `start`, perhaps `drain`, `close`."""

    outbox_kind: ClassVar[type[Outbox]] = Outbox  # the test kit has one that checks every record
    executors: dict[tuple[str, int], Executor]
    spout_tasks: dict[tuple[str, int], SpoutTask]

    def __init__(
        self,
        plan: Plan,
        *,
        worker: int,
        incarnation: int,
        renew: Callable[[], int],
        topology_id: str,
        clock: Clock,
        random: Random,
        notes: Notes,
        key: bytes,
        reporter: Reporter,
        wiring: Wiring,
        store: Store | None = None,
        folder: Callable[[], Path] = no_folder,
    ) -> None:
        self.plan = plan
        self.worker = worker
        self.clock = clock
        self.config = plan.config
        self.reporter = reporter
        self.group_commit = GroupCommit(by_present_names(store, plan), lasting=plan.config.durability == "disk")
        self.ledger: Ledger[Pending | SubTree] = Ledger(plan.config.tree_timeout_s, clock.monotonic())
        self.broken: BaseException | None = None  # what ended a spout, or a task of the runtime
        self.can_drain = True  # False once a task of the runtime has died: what it had is lost
        self.kept = False  # whether all that was done is, and nothing that was kept is under way, once it has closed
        self.stopping = asyncio.Event()  # set by on_dead="stop", and by whatever is broken
        self.sources_ended = asyncio.Event()  # all of them, but for those that end last
        self.roots = RootSource(worker, incarnation, renew)
        self.owner = self.roots.owner  # that of its links; its roots' may be renewed
        self.floors = floors_of(plan)  # what all homes have announced
        self.floors.begins(worker, self.owner, new=True)
        self.peers = Peers(self, plan, self.owner, wiring)
        self.ack = self._ack if self.peers.by_worker else self.ledger.ack  # alone, every tree's home is here
        self.subtrees = SubTrees(self, self.floors, remembers=remembers(plan))
        self._random = random
        self._notes, self._folder = notes, folder
        self._tasks: set[asyncio.Task[Any]] = set()
        self._spout_tasks: set[asyncio.Task[Any]] = set()
        self._opened: list[tuple[TaskPlace, Any]] = []
        self._closing = False
        self._in_hand = 0  # inputs that `close` has cut off, or found held
        self._recovery: Recovery | None = None  # from the last death of another worker
        self._begun = clock.monotonic()
        self.flushed: dict[tuple[str, int], int] = {}  # bolt task → inputs executed when it was flushed last
        self.dead_letters = DeadLetters(self, random)  # before the tasks: a letter is gathered before its mark (E2)
        self.fired = Fired()
        self.forgetting = Garbage(self.floors, self.group_commit)  # before the tasks: what it files again they gather
        self._build(topology_id, key)
        self.markings = Markings(self, self.group_commit)
        self.trials = Trials(self.spout_tasks, self.group_commit, window=plan.config.max_pending)
        self.dead_letters.begin()
        self.housekeeping = Housekeeping(self)

    def _build(self, topology_id: str, key: bytes) -> None:
        """Makes the tasks that the plan has put here."""
        building = Building(
            self.plan,
            self.worker,
            self,
            self.peers,
            topology_id=topology_id,
            floors=self.floors,
            group_commit=self.group_commit,
            fired=self.fired,
            random=self._random,
            outbox_kind=CheckedOutbox if self.config.check_types else self.outbox_kind,
            spout_task=partial(
                SpoutTask,
                topology_id=topology_id,
                config=self.config,
                roots=self.roots,
                key=key,
                group_commit=self.group_commit,
            ),
        )
        self.executors, self.spout_tasks, self.dead_ways = building.executors, building.spout_tasks, building.dead_ways
        self.forgetting.of([one for one in self.executors.values() if isinstance(one, CommittedStateExecutor)])

    # -- the beginning

    async def open(self) -> None:
        """Opens every component, readers before those they read, spouts last. Raises what the first one raises."""
        check_memories(self.plan.components.values(), self.config)
        await restore(self.group_commit, self.forgetting.executors)
        everyone = [(at, one.bolt) for at, one in self.executors.items()]
        everyone += [(at, one.spout) for at, one in self.spout_tasks.items()]
        for (name, index), component in everyone:
            declared = self.plan.components[name]
            random = Random(self._random.getrandbits(64))
            where = self.plan.topology, name, index, declared.tasks
            task = Task(*where, self.clock, random, self._notes, declared.known_as, self.floors, self._folder)
            place = TaskPlace(self.worker, name, index)
            self._opened.append((place, component))
            call = partial(component.open, task)
            if declared.kind == "spout":
                call = partial(
                    component.open, task, self.spout_tasks[name, index].marking.resume(self.group_commit.loaded)
                )
            await opened(place, call, self.clock, self.config.start_timeout_s)
            await asyncio.sleep(0)  # a run that is told to end opens no more of them, though none of them waits

    def start(self, *, killed: bool = False) -> None:
        """Starts every task. Returns at once. `killed`: how its predecessor ended, where that has died."""
        self.trials.begin(killed=killed)
        self._spawn(self.trials.run, "trials")
        self._spawn(self.group_commit.run, "keeper")
        for what, work in self.dead_letters.works():
            self._spawn(work, what)
        for (name, index), executor in self.executors.items():
            self._spawn(executor.run, f"{name}.{index}")
            every = self.plan.components[name].every
            if every is not None:
                self._spawn(partial(self._tick, executor, seconds(every)), f"{name}.{index} tick")
        for (name, index), spout_task in self.spout_tasks.items():
            self._spout_tasks.add(self._spawn(spout_task.run, f"{name}.{index}"))
        self._spawn(self.housekeeping.run, "clockwork")
        self._look_at_sources()

    def _spawn(self, work: Callable[[], Awaitable[Any]], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(shielded_task(work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[BaseException | None]) -> None:
        """A dead executor is a dead worker (A14), and a spout that raises ends the run: neither is passed over."""
        self._tasks.discard(task)
        self._look_at_sources()
        error = None if task.cancelled() else task.result()
        if task.cancelled() and not self._closing:
            error = RuntimeError(f"{task.get_name()} was cancelled by something that it ran")
        if error is not None:
            self.broke(error, task.get_name(), can_drain=task in self._spout_tasks)

    def _look_at_sources(self) -> None:
        if all(one.ended or one.ends_last for one in self.spout_tasks.values()):
            self.sources_ended.set()

    def broke(self, error: BaseException, where: str, *, can_drain: bool = False) -> None:
        """Ends the run for what a source, or a part of the runtime, has raised."""
        self.broken = self.broken or error
        self.can_drain = self.can_drain and can_drain
        own = error.code if isinstance(error, WorkerError) else None
        kind = own or (
            WORKER_STATE_BROKEN if isinstance(error, StoreBroken) else SPOUT_RAISED if can_drain else RUNTIME_FAILED
        )
        self.reporter.broke(Failure(Reason.RAISED, where, described(error), error, kind=kind))
        self.stopping.set()

    # -- what executors call

    def _ack(self, root: int, value: int) -> Pending | SubTree | None:
        worker = root >> WORKER_SHIFT
        if worker == self.worker:
            return self.ledger.ack(root, value)
        self.peers.ack(worker, root, value)
        return None

    def completed(self, trees: list[Any]) -> None:
        if self._recovery is not None:
            self.recovered(trees)
        if self.trials.on:
            self.trials.ended(trees)
        if len(self.spout_tasks) == 1 and not (self.subtrees.open or self.fired.open or self.dead_letters.under_way):
            trees[0].spout_task.completed(trees)
        else:
            for spout_task, alike in groupby(trees, attrgetter("spouting")):
                spout_task.completed([*alike])

    def fail(self, root: int, failure: Failure) -> None:
        if worker_of(root) != self.worker:
            self.peers.fail(root, failure)
            return
        tree = self.ledger.fail(root)
        if tree is not None:
            tree.spout_task.failed_tree(tree, failure)

    def touch(self, root: int) -> None:
        (self.ledger if worker_of(root) == self.worker else self.peers).touch(root)

    def queued(self, root: int) -> None:
        """A tuple of this tree waits in a queue that moves. At the home itself that is found out at the hard cap."""
        (self.ledger.touch if worker_of(root) == self.worker else self.peers.queued)(root)

    def renew(self, root: int) -> None:
        """The tree has its time anew, the hard cap too: its holder has said that it is not forgotten (A21)."""
        (self.ledger.renew if worker_of(root) == self.worker else self.peers.queued)(root)

    def fail_all(self, failure: Failure) -> list[Pending]:
        """Fails every open tree of this home: somebody who took part in them is gone (A11). Returns the messages."""
        trees = self.ledger.fail_all()
        for tree in trees:
            tree.spout_task.failed_tree(tree, failure)
        return [tree for tree in trees if isinstance(tree, Pending)]

    def fail_for(self, why: str, told: Told, fallen: Fallen | None = None) -> int:
        """Another worker is dead, and everybody has closed the link to it (`peers.gone`), so that replays wait for its
        successor (A14): all open trees fail. Returns how many; `told` is called once the first and once the last of
        them is done."""
        trees = self.ledger.fail_all()
        messages = [tree for tree in trees if isinstance(tree, Pending)]
        self._recovery = Recovery(messages, told) if messages else None
        self.trials.died(fallen, trees, Failure(Reason.PEER_LOST, "links", why))
        return len(messages)

    def recovered(self, trees: Sequence[Any]) -> None:
        """These are acked, or dead."""
        if self._recovery is not None and self._recovery.done(trees):
            self._recovery = None

    def reported(self, failure: Failure) -> None:
        self.reporter.failed(failure)

    def bury(self, spout_task: SpoutTask, tree: Pending, failure: Failure, deaths: int = 0) -> None:
        """A message is dead, as `died` is told once its letter is kept; `deaths` of workers are laid to it (E7)."""
        self.dead_letters.bury(spout_task, tree, failure, deaths)

    def died(self, spout_task: SpoutTask, tree: Pending, failure: Failure, letter: str = "") -> None:
        """A message is dead: nobody will replay it, unless by the name of its letter, where it has one."""
        self.recovered([tree])
        self.reporter.died(spout_task.component, tree.message, tree.attempts, failure, letter)
        if self.config.on_dead == "stop":
            self.stopping.set()

    async def _tick(self, executor: Executor, every_s: float) -> None:
        HERE.set(executor.place)
        while True:
            await asyncio.sleep(every_s)
            await executor.tick(self.clock.utc())

    def progressed(self, progress: Progress) -> None:
        """Lets whoever remembers inputs forget those of a home's messages that are done, bit by bit; a tuple of theirs
        that still comes is stale, and refused (D4, D5)."""
        self.floors.announce(progress)

    # -- the end

    def status(self) -> WorkerStatus:
        """How things are here, for the end of the run."""
        tasks = list(self.spout_tasks.values()), list(self.executors.values())
        peers = self.peers.by_worker.values()
        held = self.holds_untracked or any(one.untold for one in self.forgetting.executors)
        begun = len(self.subtrees.open) + self.fired.open
        return status(self.worker, *tasks, peers, held, begun, self.dead_letters, self.flushed)

    @property
    def holds_untracked(self) -> bool:
        """Whether a bolt has kept a tuple for which there is no deadline."""
        return any(not tup.roots for one in self.executors.values() for tup in one.held())

    async def flush_component(self, name: str) -> None:
        """Tells this bolt's tasks here that all inputs have ended; with "", once all were told, those that have had
        inputs since, or were not here then."""
        again = [one for at, one in self.executors.items() if one.inputs > self.flushed.get(at, 0)]
        again += [one for one in self.forgetting.executors if one.untold and one not in again]
        for executor in self.tasks_of(name) if name else again:
            self.flushed[executor.component, executor.task] = executor.inputs
            executor.inputs_ended()
            flush = getattr(executor.bolt, "flush", None)
            if flush is not None:
                call = partial(flush, TaskCollector(executor, None))
                await called(self.reporter, executor.place, call, self.config.process_timeout_s)
                executor.wake_downstream()
                if (error := getattr(executor.bolt, "broken", None)) is not None and self.broken is None:
                    self.broke(error, executor.component)
                    await asyncio.sleep(0)  # who waits for `stopping` has its turn before anybody calls this flushed

    def drain(self) -> None:
        """Stops the spouts; what waits for a replay is replayed now."""
        for spout_task in self.spout_tasks.values():
            spout_task.drain()
        for executor in self.forgetting.executors:
            executor.drain()
        self.dead_letters.drain()

    async def dead(self, ask: DeadAsk) -> DeadAnswer:
        """Answers a question about the dead letters of this worker, once what it asks for is durable."""
        return await self.dead_letters.answer(ask)

    def summaries(self) -> dict[str, list[str]]:
        """What the components say at the end, sources first. Called before `close`."""
        return summaries(self.reporter, self._in_order())

    async def close(self) -> None:
        """Ends everything, in the order that loses least: no task takes an input any more, what is under way fails and
        is waited for, sources close, then bolts in the order of the flow, each after the last of its calls (A5, F10).
        What ignores its cancellation for CLOSE_S is told of and left behind. Safe after a failed `open`."""
        self._closing = True
        for spout_task in self.spout_tasks.values():
            spout_task.close()
        self.dead_letters.close()
        self.trials.close()
        self._in_hand = await cut_off(self._tasks, self.executors.values(), self.reporter)
        for spout_task in self.spout_tasks.values():
            await spout_task.source.close()
        for place, component in self._in_order():
            await called(self.reporter, place, component.close, CLOSE_S)
        self._opened.clear()
        self.peers.close()
        self.housekeeping.stop()
        self.forgetting.ends()
        try:
            self.kept = await settled(self.group_commit, in_order=self.can_drain) and not self.fired.open
        except StoreBroken as error:
            if not isinstance(self.broken, StoreBroken):
                self.broke(error, "keeper")
        self.reporter.remind()

    def _in_order(self) -> list[tuple[TaskPlace, Any]]:
        """The components that were opened, in the order of the flow."""
        order = list(self.plan.components)
        return sorted(self._opened, key=lambda one: order.index(one[0].component))

    # -- what it tells

    @property
    def pending(self) -> int:
        """Messages under way, back-off included."""
        return sum(one.pending for one in self.spout_tasks.values())

    @property
    def aborted(self) -> int:
        """What was not done at the end: messages, and timers whose outputs nobody could process; at-most-once, where no
        message is followed, inputs. Read after `close`."""
        if self.config.guarantee == "at-least-once":
            return self.pending + sum(one.unread for one in self.spout_tasks.values()) + self.fired.given_up
        return self._in_hand + sum(len(one.queue) for one in self.executors.values())

    @property
    def later(self) -> int:
        """Messages that wait for their replay."""
        return sum(one.waiting for one in self.spout_tasks.values())

    def tasks_of(self, *names: str) -> list[Executor]:
        return [one for (name, _), one in self.executors.items() if name in names]

    def snapshot(self) -> Snapshot:
        """All counters of this worker at this moment, tasks of a component added up."""
        now = self.clock.monotonic()
        tasks = list(self.spout_tasks.values()), list(self.executors.values())
        return counted(self.plan, now, now - self._begun, *tasks, self.ledger, self.peers, self.dead_letters)
