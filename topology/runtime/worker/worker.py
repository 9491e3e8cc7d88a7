"""One worker: the tasks of a plan that run in one event loop, and their ledger.

Builds, opens, runs, drains and closes; the order of each is written here and nowhere else. It is the `TreeHome` that
executors ack and fail to. It must not know signals, commands or how many workers there are.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from random import Random
from typing import Any, ClassVar

from acker.frontier import NUMBER_BITS, Decided, Note
from acker.ledger import Ledger
from acker.roots import RootSource, message_of, worker_of
from topology.config import Config
from topology.plan import Plan, seconds
from topology.runtime.checkpoints.log_commit import LogCommit
from topology.runtime.checkpoints.renamed_store import by_present_names
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.control.completion import WorkerStatus
from topology.runtime.current_task import HERE
from topology.runtime.dead_letters.dead_letters import DeadLetters
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.message_tree import MessageTree
from topology.runtime.hot.open_trees import OpenTrees
from topology.runtime.hot.pending import MESSAGES, Pending
from topology.runtime.hot.remote_acks import AckRoutes
from topology.runtime.links.peers import Peers, Wiring
from topology.runtime.plan_facts import remembers
from topology.runtime.poison.trials import Fallen, Trials
from topology.runtime.state.restore import restore
from topology.runtime.state.state_executor import StateExecutor
from topology.runtime.state.timer_retries import Fired
from topology.runtime.tasks.checked_outbox import CheckedOutbox
from topology.runtime.tasks.executor import Executor
from topology.runtime.tasks.marks import Markings
from topology.runtime.tasks.outbox import Outbox
from topology.runtime.tasks.spout_task import SpoutContext, SpoutTask
from topology.runtime.telemetry.failure_log import Reporter
from topology.runtime.telemetry.metrics import Snapshot
from topology.runtime.worker.asyncio_tasks import AsyncioTasks
from topology.runtime.worker.build import Building
from topology.runtime.worker.context import RunContext
from topology.runtime.worker.counters import counted, status
from topology.runtime.worker.housekeeping import Housekeeping
from topology.runtime.worker.inputs_end import InputsEnd
from topology.runtime.worker.open_components import OpenComponents
from topology.runtime.worker.outcome import WorkerOutcome
from topology.runtime.worker.recovery import Recovery, ReportCount
from topology.runtime.worker.shutdown import CLOSE_S, cut_off
from topology.runtime.worker.sink_horizon import check_memories
from topology.runtime.worker.subtrees import SubTree, SubTrees
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.store import Store, StoreBroken


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
        context: RunContext,
        random: Random,
        reporter: Reporter,
        wiring: Wiring,
        store: Store | None = None,
    ) -> None:
        self.plan = plan
        self.worker = worker
        self.clock = context.clock
        self.reporter = reporter
        self.decided = Decided()  # what all tasks know of what is done
        store = by_present_names(store, plan)
        self.checkpoints = checkpoints = WorkerCheckpoints(store, decided=self.decided, note_of=self._note)
        checkpoints.failed = lambda error: self.broke(error, "checkpoints")
        checkpoints.is_ready = False
        self._log = _log_of(checkpoints, plan.config.durability)
        self.ledger: Ledger[Pending | SubTree] = Ledger(
            plan.config.tree_timeout_s, context.clock.monotonic(), table=OpenTrees
        )
        self.roots = RootSource(worker, incarnation, context.renew)
        self.peers = Peers(self, plan, self.roots.owner, wiring)
        self.ack = self.ledger.ack  # alone, every tree's home is here
        if self.peers.by_worker:
            waiting = {number: peer.acks for number, peer in self.peers.by_worker.items()}
            self.ack = AckRoutes(worker, self.ledger, waiting).ack
        self.subtrees = SubTrees(self, self.decided, remembers=remembers(plan))
        self._outcome = WorkerOutcome(reporter)
        self._asyncio_tasks = AsyncioTasks(self._look_at_sources, self._failed)
        self._recovery: Recovery | None = None  # from the last death of another worker
        self.dead_letters = DeadLetters(self, random)  # before the tasks: a letter is gathered before its mark (E2)
        self.fired = Fired()
        self._build(context, random)
        self.markings = Markings(self.spout_tasks, self.ledger, self.dead_letters.letter_store.trees, checkpoints)
        self.trials = Trials(self.spout_tasks, checkpoints, window=plan.config.max_pending)
        self.dead_letters.begin()
        self.housekeeping = Housekeeping(self)

    def _build(self, context: RunContext, random: Random) -> None:
        """Make the tasks that the plan has put here, and what opens and ends them."""
        config = self.config
        building = Building(
            self.plan,
            self.worker,
            self,
            self.peers,
            topology_id=context.topology_id,
            decided=self.decided,
            log=self._log,
            keeps=self.checkpoints.store is not None,
            fired=self.fired,
            random=random,
            outbox_kind=CheckedOutbox if config.check_types else self.outbox_kind,
            spout_task=partial(
                SpoutTask,
                context=SpoutContext(
                    context.topology_id,
                    config,
                    self.roots,
                    context.key,
                    self.checkpoints,
                    goes_back=config.durability == "checkpoint" and len(self.plan.workers) > 1,  # one dies as a whole
                ),
            ),
        )
        self.executors, self.spout_tasks = building.executors, building.spout_tasks
        self.dead_letters.routes.update(building.letter_routes)
        self.with_state = [task for task in self.executors.values() if isinstance(task, StateExecutor)]
        for task in self.with_state:
            self.checkpoints.add_gathered(task)
        self._components = OpenComponents(self.plan, self.worker, context, self.decided, random)
        self._inputs_end = InputsEnd(
            self.spout_tasks,
            self.executors,
            self.with_state,
            self._outcome,
            self.reporter,
            limit_s=config.process_timeout_s,
        )

    # -- how it is

    @property
    def config(self) -> Config:
        return self.plan.config

    @property
    def owner(self) -> int:
        """The owner of its links. That of its roots may be renewed."""
        return self.peers.mine

    @property
    def broken(self) -> BaseException | None:
        """The error that has ended a source, or a task of the runtime; None if there was none."""
        return self._outcome.broken

    @property
    def can_drain(self) -> bool:
        """False once a task of the runtime has died: its inputs are lost."""
        return self._outcome.can_drain

    @property
    def kept(self) -> bool:
        """True if all that was done is durable, and nothing durable is in flight. Read after `close`."""
        return self._outcome.kept

    @property
    def stopping(self) -> asyncio.Event:
        """Set when the run must end: something is broken, or a message is dead with on_dead="stop"."""
        return self._outcome.stopping

    @property
    def sources_ended(self) -> asyncio.Event:
        """Set once all sources have ended, but for those that end last."""
        return self._inputs_end.sources_ended

    @property
    def flushed(self) -> dict[tuple[str, int], int]:
        """Bolt task → how many inputs it had executed when it was flushed last."""
        return self._inputs_end.flushed

    # -- the beginning

    async def open(self) -> None:
        """Open every component: readers before those they read, spouts last. Raises what the first one raises."""
        check_memories(self.plan.components.values(), self.config)
        replaces = self.peers.begun_in > 1  # a worker that has died in this run
        await restore(self.checkpoints, self.with_state, lives_on=replaces)
        self.checkpoints.is_ready = True
        for (name, index), executor in self.executors.items():
            await self._components.open(name, index, executor.bolt)
        for (name, index), spout_task in self.spout_tasks.items():
            resume = partial(spout_task.marking.resume, self.checkpoints.loaded)
            await self._components.open(name, index, spout_task.spout, resume)

    def start(self, *, killed: bool = False) -> None:
        """Start every task. Returns at once. `killed`: its predecessor has died by SIGKILL."""
        spawn = self._asyncio_tasks.spawn
        self.trials.begin(killed=killed)
        spawn(self.trials.run, "trials")
        for what, work in self.dead_letters.works():
            spawn(work, what)
        for (name, index), executor in self.executors.items():
            spawn(executor.run, f"{name}.{index}")
            every = self.plan.components[name].every
            if every is not None:
                spawn(partial(self._tick, executor, seconds(every)), f"{name}.{index} tick")
        for (name, index), spout_task in self.spout_tasks.items():
            spawn(spout_task.run, f"{name}.{index}", source=True)
        spawn(self.housekeeping.run, "clockwork")
        self._look_at_sources()

    def _look_at_sources(self) -> None:
        self._inputs_end.look_at_sources()

    def _failed(self, error: BaseException, name: str, source: bool) -> None:
        """End the run: a dead executor is a dead worker (A14), and a spout that raises ends the run."""
        self.broke(error, name, can_drain=source)

    def broke(self, error: BaseException, where: str, *, can_drain: bool = False) -> None:
        """End the run for an error that a source, or a part of the runtime, has raised."""
        self._outcome.broke(error, where, can_drain=can_drain)

    # -- what executors call

    def completed(self, trees: list[Any]) -> None:
        if self._recovery is not None:
            self.recovered(trees)
        if self.trials.on:
            self.trials.ended(trees)
        if self.dead_letters.letter_store.may_be_given_again:
            self.dead_letters.completed(trees)
        if len(self.spout_tasks) == 1 and not (self.subtrees.open or self.fired.open or self.dead_letters.under_way):
            trees[0].owner.completed(trees)
        else:
            for owner, alike in groupby(trees, attrgetter("owner")):
                owner.completed([*alike])

    def fail(self, root: int, failure: Failure) -> None:
        if worker_of(root) != self.worker:
            self.peers.fail(root, failure)
            return
        tree = self.ledger.fail(root)
        if tree is not None:
            tree.owner.failed_tree(tree, failure)

    def touch(self, root: int) -> None:
        (self.ledger if worker_of(root) == self.worker else self.peers).touch(root)

    def queued(self, root: int) -> None:
        """A tuple of this tree waits in a queue that moves. At the home itself that is found out at the hard cap."""
        (self.ledger.touch if worker_of(root) == self.worker else self.peers.queued)(root)

    def renew(self, root: int) -> None:
        """Renew the tree's time, the hard cap too: its holder has said that it is not forgotten (A21)."""
        (self.ledger.renew if worker_of(root) == self.worker else self.peers.queued)(root)

    def link(self, worker: int, owner: int, address: str) -> None:
        """Begin a session with another worker, as `Peers.join` does."""
        self.decided.begins(owner)
        self.peers.join(worker, owner, address)

    def begin_generation(
        self, generation: int, why: str, report: ReportCount, fallen: Fallen | None = None, *, gone: int | None = None
    ) -> int:
        """A worker is dead, or a frame is lost: nothing that is under way counts any more (P9). All open trees fail,
        and are replayed once there is a link to all who are needed. `gone` is the dead worker's owner. With durability
        by checkpoint, all is as in the last decided one.

        Return how many messages have failed; `report` is called once the first and once the last of them is done."""
        if gone is not None:
            self.decided.ends(gone)
            self.subtrees.life_ends(gone)
            self.peers.gone(gone)
        self.peers.begin_generation(generation)
        self.checkpoints.end()
        for executor in self.executors.values():
            executor.begin_generation()
        if gone is not None:
            for task in self.with_state:
                task.known.lives_end(gone, frozenset())
        trees = self.ledger.fail_all()
        messages = [tree for tree in trees if isinstance(tree, MESSAGES)]
        self._recovery = Recovery(messages, report) if messages else None
        self.trials.died(fallen, trees, Failure(Reason.PEER_LOST, "links", why))
        if self.config.durability == "checkpoint":
            self.decided.went_back()
            self.checkpoints.go_back()
            for spout_task in self.spout_tasks.values():
                spout_task.go_back()
            self.dead_letters.go_back()
        for executor in self.executors.values():
            executor.wake()
        return len(messages)

    def recovered(self, trees: Sequence[Any]) -> None:
        """These are acked, or dead."""
        if self._recovery is not None and self._recovery.done(trees):
            self._recovery = None

    def reported(self, failure: Failure) -> None:
        self.reporter.failed(failure)

    def bury(self, spout_task: SpoutTask, tree: Pending, failure: Failure, deaths: int = 0) -> None:
        """Bury a dead message; `died` is called once its letter is kept. `deaths` of workers are laid to it (E7)."""
        self.dead_letters.bury(spout_task, tree, failure, deaths)

    def died(self, spout_task: SpoutTask, tree: MessageTree, failure: Failure, letter: str = "") -> None:
        """Report a dead message. It can only be replayed by the name of its letter, if it has one."""
        self.recovered([tree])
        self.reporter.died(spout_task.component, tree.message, tree.attempts, failure, letter)
        if self.config.on_dead == "stop":
            self._outcome.stopping.set()

    async def _tick(self, executor: Executor, every_s: float) -> None:
        HERE.set(executor.place)
        while True:
            await asyncio.sleep(every_s)
            await executor.tick(self.clock.utc())

    def _note(self) -> Note:
        """Note which messages of this worker are done, at this moment."""
        owners, newest = self.roots.owners, message_of(self.roots.latest)
        if not remembers(self.plan):
            return Note(owners, owners[-1] << NUMBER_BITS)
        sub_roots, lost = (
            self.subtrees.note()
        )  # first: it gives up those whose inputs are done, which are in the ledger
        trees = [*self.ledger.trees(), *(tree for task in self.spout_tasks.values() for tree in task.later())]
        unfinished = {message_of(tree.root) for tree in trees}.union(*(tree.renamed for tree in trees if tree.renamed))
        unfinished.update(sub_roots, self.fired.not_done, self.dead_letters.unfinished())
        dropped = self.dead_letters.letter_store.dropped
        return Note(owners, newest, frozenset(unfinished), dropped, lost, catches_up(self))

    @property
    def caught_up(self) -> bool:
        """True if all that a killed run had in flight came again, as far as is known (B11)."""
        return self.markings.caught_up

    # -- the end

    def status(self) -> WorkerStatus:
        """Return how things are here, for the end of the run."""
        tasks = list(self.spout_tasks.values()), list(self.executors.values())
        peers = self.peers.by_worker.values()
        held = self._inputs_end.holds_untracked
        open_subtrees = len(self.subtrees.open) + self.fired.open
        return status(self.worker, *tasks, peers, held, open_subtrees, self.dead_letters, self.ledger, self.flushed)

    async def flush_component(self, name: str) -> None:
        """Tell this bolt's tasks here that all inputs have ended. With "", once each bolt was flushed: the tasks that
        have had inputs since, or that were not here then."""
        await self._inputs_end.flush(name)

    def drain(self) -> None:
        """Stops the spouts; what waits for a replay is replayed now."""
        for spout_task in self.spout_tasks.values():
            spout_task.drain()
        for task in self.with_state:
            task.drain()
        self.dead_letters.drain()

    async def dead(self, ask: DeadAsk) -> DeadAnswer:
        """Answers a question about the dead letters of this worker, once what it asks for is durable."""
        return await self.dead_letters.answer(ask)

    def summaries(self) -> dict[str, list[str]]:
        """Return the lines that the components have at the end, sources first. Called before `close`."""
        return self._components.summaries(self.reporter)

    async def stop(self) -> None:
        """End everything but the store, in the order that loses least: no task takes an input any more, what is under
        way fails and is waited for, sources close, then bolts in the order of the flow, each after the last of its
        calls (A5, F10). Sources that hear what is settled stay open until `close`. What ignores its cancellation for
        CLOSE_S is reported and left behind. Safe after a failed `open`. May be called twice. A last checkpoint may
        follow (E10)."""
        if self._asyncio_tasks.closing:
            return
        self._asyncio_tasks.closing = True
        for spout_task in self.spout_tasks.values():
            spout_task.close()
        self.dead_letters.close()
        self.trials.close()
        self._outcome.cut_off = await cut_off(self._asyncio_tasks.running, self.executors.values(), self.reporter)
        for spout_task in self.spout_tasks.values():
            await spout_task.reader.source.close()
        hear_more = [task.spout for task in self.spout_tasks.values() if task.callbacks.wants_settled]
        await self._components.close(self.reporter, CLOSE_S, later=hear_more)
        if self._log is not None:
            await self._log.close()

    async def close(self, *, kept: bool = False) -> None:
        """`stop`, and give back links and the store. `kept`: a checkpoint was decided since all of this had stopped."""
        await self.stop()
        await self._components.close(self.reporter, CLOSE_S)
        self.peers.close()
        try:
            await self.checkpoints.close(in_order=self.can_drain)
            self._outcome.kept = kept and not self.fired.open
        except StoreBroken as error:
            if not isinstance(self.broken, StoreBroken):
                self.broke(error, "checkpoints")
        self.reporter.remind()

    # -- what it tells

    @property
    def pending(self) -> int:
        """Messages under way, back-off included."""
        return sum(task.pending for task in self.spout_tasks.values())

    @property
    def aborted(self) -> int:
        """Messages that were not done at the end, and timers whose outputs could not be processed; at-most-once, where
        no message is followed, inputs. Read after `close`."""
        if self.config.guarantee == "at-least-once":
            return self.pending + sum(task.unread for task in self.spout_tasks.values()) + self.fired.given_up
        return self._outcome.cut_off + sum(len(task.queue) for task in self.executors.values())

    @property
    def later(self) -> int:
        """Messages that wait for their replay."""
        return sum(task.waiting for task in self.spout_tasks.values())

    def tasks_of(self, *names: str) -> list[Executor]:
        return [one for (name, _), one in self.executors.items() if name in names]

    def snapshot(self) -> Snapshot:
        """All counters of this worker at this moment, tasks of a component added up."""
        now = self.clock.monotonic()
        tasks = list(self.spout_tasks.values()), list(self.executors.values())
        return counted(
            self.plan, now, now - self.housekeeping.began_at, *tasks, self.ledger, self.peers, self.dead_letters
        )


def _log_of(checkpoints: WorkerCheckpoints, durability: str) -> LogCommit | None:
    """Return the log that outputs of bolts with state wait for; None if they wait for nothing."""
    if checkpoints.store is None or durability == "checkpoint":
        return None
    threads, room = checkpoints.threads, checkpoints.room_of_store
    log = LogCommit(checkpoints.store, threads, room, synced=durability == "disk")
    log.failed = checkpoints.failed
    checkpoints.before_gather = log.mark  # what is in the snapshot stands before its mark
    return log


def catches_up(worker: Worker) -> bool:
    """Return True if something that was done before the run went back may be still to come: from a source, or from a
    timer."""
    if worker.config.durability != "checkpoint":
        return False
    # each task is asked: its answer is about the time since it was asked last
    late = [task.timers.is_late() for task in worker.with_state if task.timers is not None]
    return any(late) or any(task.reader.may_reread for task in worker.spout_tasks.values())
