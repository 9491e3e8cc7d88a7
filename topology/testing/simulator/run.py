"""One run of a topology under strikes: the workers of `crashing_run`, with stores on a simulated disk.

The run can be killed as a whole, with or without its machine's power. The caller starts the next run on the same disk.
After every turn of the loop the counters must balance. Must not know topologies, nor what a run's result should be.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from acker.roots import LAST_ATTEMPT, OWNER_SHIFT, attempt_of
from topology.components import Message
from topology.core.tuples import Tuple
from topology.errors import StartError
from topology.runtime.control.completion import settle
from topology.runtime.links.memory import MemoryNetwork
from topology.runtime.links.protocol import Frame
from topology.runtime.os_process.restarts import SILENT_S
from topology.runtime.run import startup
from topology.runtime.run.lifecycle import Takeover
from topology.runtime.run.startup import Terms
from topology.runtime.state.keyed_executor import SerialByKeyExecutor
from topology.runtime.tasks.spout_task import SpoutTask
from topology.runtime.worker.subtrees import SubTree
from topology.storage.dead_questions import DeadAsk
from topology.storage.directory.state_dir import StateDir
from topology.storage.store import Store, StoreBroken
from topology.storage.worker_store import WorkerStore
from topology.testing.simulator.fate import STATE_DIR, Fate
from topology.testing.simulator.faults import FaultyLinks, Hazard, Strike
from topology.testing.simulator.graph import is_joined_before
from topology.testing.simulator.remembered import remembered
from topology.testing.simulator.steps import Step, watch_decisions, watch_store, watch_worker
from topology.testing.virtual_time.crashing_run import CrashingRun
from topology.testing.virtual_time.mortal_worker import MortalWorker
from topology.testing.virtual_time.process import SimulatedProcess

LOOK_S: Final = 0.1  # seconds between two looks at what a run remembers when all is done
FORGETS_S: Final = 10.0  # seconds after which that is too much: announcements and commits take less than one
POLLED_MAX: Final = 16  # messages that a source gives at once
SYNC_S: Final = 0.02  # seconds that an operation of the disk takes at most


class Broken(AssertionError):
    """A promise is broken."""


class SimulatedNetwork(MemoryNetwork):
    """A network in which frames of a dead worker may arrive, like those of a zombie (A15), or be lost with it. `lives`
    has the lives of the workers, by owner."""

    def __init__(self, links: FaultyLinks, random: Random) -> None:
        super().__init__(links)
        self.lives: dict[int, SimulatedProcess] = {}
        self._random = random
        self._outside = copy_context()  # of no worker's life: what was sent is on its way

    def send(self, frame: Frame) -> bool:
        return self._outside.copy().run(super().send, frame)

    def _deliver(self, frame: Frame) -> None:
        if not self.lives[frame.sender].over or self._random.random() < 0.5:
            super()._deliver(frame)


class SimulatedWorker(MortalWorker):
    """A worker whose `done` notes when each tree was complete. `paths` counts trees with many inputs, and `refused` has
    stale tuples."""

    done: dict[int, float]
    paths: Counter[str]
    refused: list[Tuple[Any]]

    def start(self, *, killed: bool = False) -> None:
        for executor in self.executors.values():
            if isinstance(executor, SerialByKeyExecutor):
                executor.refuse = partial(self._refuses, executor.refuse)  # type: ignore[method-assign]
        super().start(killed=killed)

    def _refuses(self, refuse: Callable[[Tuple[Any]], None], tup: Tuple[Any]) -> None:
        self.refused.append(tup)
        refuse(tup)

    def completed(self, trees: list[Any]) -> None:
        for tree in trees:
            self.done.setdefault(tree.root, self.clock.monotonic())
            self.paths["sub-trees"] += isinstance(tree, SubTree)
        super().completed(trees)


class SimulatedRun(CrashingRun):
    """A `CrashingRun` whose workers' stores are on `fate`'s disk. `killed` is set once all of it is dead."""

    def __init__(
        self, *args: Any, fate: Fate, life: SimulatedProcess, source: Path | None = None, **settings: Any
    ) -> None:
        super().__init__(
            *args,
            crashes=(),
            faults=fate.links,
            state_dir=STATE_DIR,
            takeover=Takeover(Terms(source=source), report=lambda text: None),
            **settings,
        )
        self.killed = asyncio.Event()
        self._fate = fate
        fate.run = self
        self._network: SimulatedNetwork = SimulatedNetwork(fate.links, Random(fate.random.getrandbits(64)))
        self._control.order_s = fate.order_s
        self._control.late, self._control.twice = fate.orders_late, fate.answers_twice
        self._life = life  # of everything that belongs to no worker
        self._opens = partial(startup.opened, files=fate.files, secret=fate.random.randbytes)
        self._asking = 0  # replays by hand that are asked for, and not answered
        self._too_long: Mapping[str, int] = {}  # what is remembered too long after all is done
        self._doomed: list[tuple[MortalWorker, str]] = []  # workers that die next, and of what
        self._joined = {
            component.name for component in self.topology.components if is_joined_before(self.topology, component.name)
        }
        self._kept: dict[int, WorkerStore] = {}  # worker → its present store
        self._source = source  # the savepoint that it begins from
        self.has_begun = False  # True once it has taken over the state directory
        self._steps: set[Step] = set()  # of a checkpoint, that were done since the last turn of the loop

    # -- the state directory

    def _taken_over(self, closing: contextlib.ExitStack) -> StateDir:
        state = super()._taken_over(closing)
        self.has_begun = True
        if self._source is not None:
            self._fate.seen.update(self._fate.sinks.go_back(self._source.name))
        self._opens_store, self._stores = self._stores, self._store
        if self._decision_file is not None:
            watch_decisions(self._decision_file, self._steps.add)
        return state

    def _made(self, number: int, incarnation: int) -> MortalWorker:
        worker = super()._made(number, incarnation)
        self._network.lives[worker.owner] = worker.life
        watch_worker(worker.checkpoints, self._steps.add)
        self._fate.sinks.watch(worker.checkpoints, worker.life)
        for task in worker.spout_tasks.values():
            _poll_little(task, self._fate.poll_s)
        return worker

    async def _decide(self, checkpoint: int) -> None:
        self._steps.add(Step.PREPARED)
        await super()._decide(checkpoint)

    def _store(self, worker: int) -> Store | None:
        if (before := self._kept.get(worker)) is not None:
            self._fate.commits[worker] = before.commits
        store = self._opens_store(worker)
        assert isinstance(store, WorkerStore)
        watch_store(store, self._steps.add)
        self._kept[worker] = store
        if store.commits < (said := self._fate.commits.get(worker, 0)):
            raise Broken(f"{store.path.name} has {store.commits} commits, and {said} were said to be durable")
        if store.loaded.marks:
            self._fate.paths["resumed from marks"] += 1
        return store

    def _note_commits(self) -> None:
        """Note the commits of a run that is over."""
        self._fate.commits |= {worker: store.commits for worker, store in self._kept.items()}

    async def _finish(self) -> Any:
        try:
            return await super()._finish()
        finally:
            self._note_commits()

    # -- the end

    def _ends(self) -> Iterable[tuple[Awaitable[Any], str]]:
        (settled, ended), *others = super()._ends()
        if asyncio.iscoroutine(settled):
            settled.close()  # another one waits, below
        yield self._settled(), ended
        yield from others

    async def _settled(self) -> None:
        """Return once all is done and forgotten. If a worker dies meanwhile, its messages are read again first."""
        await settle(self._all_workers)
        await self._forgotten()
        if self._fate.is_last and self._fate.drops:
            self._fate.by_hand.clear()
            while self._asking:  # what is replayed now dies again, after all others were dropped
                await asyncio.sleep(LOOK_S)
                await settle(self._all_workers)
                await self._forgotten()
            answer = await self.dead(DeadAsk(0, "drop"))
            self._fate.dropped(self._loop.time(), answer)
            while "is away" in answer.problem:  # a worker is being replaced: its letters are still there
                await asyncio.sleep(LOOK_S)
                await settle(self._all_workers)
                answer = await self.dead(DeadAsk(0, "drop"))
                self._fate.dropped(self._loop.time(), answer)
            await settle(self._all_workers)
            await self._forgotten()

    async def _forgotten(self) -> None:
        since, deaths = self._loop.time(), len(self._dead)
        while left := self._remembered():
            await asyncio.sleep(LOOK_S)
            if self._fate.disk.full or deaths != len(self._dead):
                await settle(self._all_workers)
                since, deaths = self._loop.time(), len(self._dead)
            self._too_long = left if self._loop.time() - since > FORGETS_S else {}

    def _remembered(self) -> Counter[str]:
        found = remembered(self.workers, self._joined, by_count=self._durability != "disk")
        files = [self._kept[worker.worker]._store for worker in self.workers]
        found["commits that a loss of power takes back"] = sum(file._own.commits - file.commits for file in files)
        return +found

    @property
    def _durability(self) -> str:
        return self.topology.config.durability

    # -- faults

    def _crash_who_is_due(self) -> None:
        super()._crash_who_is_due()
        doomed, self._doomed = self._doomed, []
        for worker, why in doomed:
            if worker in self.workers:
                self._died(worker, why)
        self._balance()
        fate = self._fate
        if fate.strikes and self.acked() >= fate.strikes[0].after and (strike := self._take_strike()) is not None:
            self._strike(strike)
        self._steps.clear()
        if fate.between.drains and not self.draining and self.acked() >= fate.between.drains[0]:
            fate.between.drains.pop(0)
            self.drain_now()
        if fate.by_hand and self.complete and self.acked() >= fate.by_hand[0]:
            fate.by_hand.pop(0)
            self._spawn(self._replay_letters("letters replayed by hand while all went on"))
        if fate.between.keeps and self.complete and self.acked() >= fate.between.keeps[0]:
            fate.between.keeps.pop(0)
            self._spawn(_keep_checkpoint(self, fate, f"kept-{len(fate.between.keeps)}"))

    def drain_now(self) -> None:
        """Drain the run, unless it is over or drains already."""
        fate = self._fate
        if not (self._closing or self.draining or fate.healed):
            fate.tell(asyncio.get_running_loop().time(), Hazard.DRAIN.value)
            fate.hits[Hazard.DRAIN] += 1
            fate.between.again = True
            self.drain()

    async def _replay_letters(self, path: str) -> None:
        """Replay dead letters during the run, as `kedge dead replay` requests, in the workers that are present."""
        self._asking += 1
        try:
            answer = await self.dead(DeadAsk(0, "replay"))
        finally:
            self._asking -= 1
        self._fate.paths[path] += len(answer.names)
        self._fate.by_hand_done(self._loop.time(), answer)

    def acked(self) -> int:
        """Return how many messages are done, including those of earlier runs."""
        return self._fate.acked + sum(
            int(task.counters.acked) for worker in self.workers for task in worker.spout_tasks.values()
        )

    def _balance(self) -> None:
        if self._too_long:
            text = ", ".join(f"{count} {kind}" for kind, count in self._too_long.items())
            raise Broken(f"{FORGETS_S:g} s after all was done it remembers {text}")
        for worker in self.workers:
            for task in worker.spout_tasks.values():
                count = task.counters
                if count.emitted + count.reopened != count.acked + count.dead + task.pending:
                    counts = f"{count.emitted} emitted, {count.acked} acked, {count.dead} dead, {task.pending} pending"
                    counts += f", {count.reopened} reopened"
                    raise Broken(f"spout {task.component!r} does not add up: {counts}")
        refused, self._fate.refused[:] = [*self._fate.refused], []
        for tup in refused:
            _check_stale(tup, self.workers)

    def _take_strike(self) -> Strike | None:
        """Take the next strike if it hits now, or one that waits for nothing any more."""
        strikes = self._fate.strikes
        is_over = all(worker.sources_ended.is_set() for worker in self.workers)
        for strike in self._fate.hasty(self.acked(), is_over=is_over):
            aimed = [replace(strike, worker=worker.worker) for worker in self.workers]
            if strike.after <= self.acked() and (hits := [*filter(self._hits_now, aimed)]):
                strikes.remove(strike)
                return hits[0]
        return strikes.pop(0) if self._hits(strikes[0]) else None

    def _hits(self, strike: Strike) -> bool:
        """Return True if the strike would hit something now, and its step of a checkpoint has come."""
        waits = self._fate.waits_for_step(strike, self._loop.time()) and strike.step not in self._steps
        return not waits and self._hits_now(strike)

    def _hits_now(self, strike: Strike) -> bool:
        """Return True if the strike would hit something now: it waits for a worker that is away or has nothing to
        do."""
        if strike.hazard in (Hazard.DISK_FULL, Hazard.SYNC_FAILS):
            return True
        if strike.hazard in (Hazard.KILL_ALL, Hazard.POWER_LOSS):
            return any(worker.started and self._would_hit(worker) for worker in self.workers)
        worker = self._struck(strike)
        return worker is not None and worker.started and not worker.life.paused and self._would_hit(worker)

    def _struck(self, strike: Strike) -> MortalWorker | None:
        """Return the worker that the strike is for; there may be fewer workers than when it was drawn. None if it is
        away."""
        number = strike.worker % len(self._plan.workers)
        return next((worker for worker in self.workers if worker.worker == number), None)

    def _strike(self, strike: Strike) -> None:
        fate, now, hazard = self._fate, self._loop.time(), strike.hazard
        fate.tell(now, f"{strike}{f', as {strike.step.value}' if strike.step in self._steps else ''}")
        fate.hits[hazard] += 1
        if strike.step in self._steps:
            fate.paths[f"struck as {strike.step.value}"] += 1
        worker = self._struck(strike)
        if hazard in (Hazard.KILL_ALL, Hazard.POWER_LOSS):
            self._kill_all(power=hazard is Hazard.POWER_LOSS)
        elif hazard is Hazard.DISK_FULL:
            fate.disk.full = True
            self._loop.call_later(strike.seconds, setattr, fate.disk, "full", False)
        elif hazard is Hazard.SYNC_FAILS:
            fate.disk.failing_syncs += 1
        elif worker is not None and hazard is Hazard.CRASH:
            self._died(worker, "crashed")
        elif worker is not None:
            self._loop.pause(worker.life)
            if strike.seconds > SILENT_S:
                self._loop.call_later(SILENT_S, self._looked_at, worker, worker.life)
            self._loop.call_later(strike.seconds, self._loop.wake, worker.life)

    def _looked_at(self, worker: MortalWorker, life: SimulatedProcess) -> None:
        if life.paused and not life.over:
            self._doomed.append((worker, "was silent for too long"))

    def _kill_all(self, *, power: bool) -> None:
        self._fate.acked = self.acked()
        self._note_commits()
        self._fate.memory_lost = True
        self._fate.went_back |= self._durability == "checkpoint" or (power and self._durability == "process")
        for worker in [*self.workers]:
            self._loop.kill(worker.life)
            self._dead.append(worker)
        self._loop.kill(self._life)
        self._loop.between_turns = None
        self._closing = True
        self._fate.new_machine(power=power)
        self.killed.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._life.call(super()._spawn, work)  # a replacement that is awaited does not come to a run that was killed

    def let_go(self) -> None:
        """Release all of a run that was killed, as `MortalWorker.let_go` does."""
        for worker in self._dead:
            if vars(worker):
                worker.let_go()

    # -- effects

    def _died(self, worker: MortalWorker, why: str, *, killed: bool = True) -> None:
        fate = self._fate
        fate.tell(self._loop.time(), f"  worker {worker.worker} {why}")
        fate.paths["a worker died"] += 1
        if not self.complete:
            fate.paths["a worker died while another was away"] += 1
        fate.acked += sum(task.counters.acked for task in worker.spout_tasks.values())
        fate.memory_lost = True
        fate.went_back |= self._durability == "checkpoint"
        super()._died(worker, why, killed=killed)
        if fate.random.random() < 0.5:
            self._spawn(self._replay_letters("letters replayed by hand while a worker was away"))

    def _let_go(self, worker: MortalWorker, store: Store) -> None:
        self._fate.files.end_process(self._kept[worker.worker].path)

    def _stopped(self, worker: MortalWorker) -> None:
        """End a process whose store is broken alone; its successor reads what is there (F18)."""
        if isinstance(worker.broken, StoreBroken):
            self._fate.paths["a store broke"] += 1
            self._doomed.append((worker, "ended, as its store is broken"))
            if self._loop.between_turns is None:  # the run is ending, and no longer looks at the doomed
                self._coordinator.give_up("a worker's store is broken")
        else:
            super()._stopped(worker)

    def _session_lost(self, owner: int, why: str) -> None:
        """Replace the sender of a frame that was lost, as `Fleet._lost` does (A11); or that is so late that too many
        came before it."""
        early = why.startswith("too many frames")
        self._fate.paths["a session with too many early frames was lost" if early else "a session was lost"] += 1
        self._doomed.extend(
            (worker, "is replaced: a frame was lost") for worker in self.workers if worker.owner == owner
        )

    async def _come(self, number: int, after_s: float) -> None:
        try:
            await super()._come(number, after_s)
        except StartError as error:  # the state directory can't count a start: the disk is full
            self._failed = error
            self._over.set()


async def _keep_checkpoint(run: SimulatedRun, fate: Fate, name: str) -> None:
    """Keep a checkpoint of a run, as `kedge state checkpoint` requests."""
    loop = asyncio.get_running_loop()
    try:
        await run.save(name)
    except StartError:  # a worker has died, the disk is full, or the run is ending
        fate.paths["a checkpoint could not be kept"] += 1
        fate.sinks.give_up(name)
        return
    fate.paths["checkpoints kept"] += 1
    fate.sinks.keep(name)
    fate.tell(loop.time(), f"a checkpoint is kept as {name}")
    if (soon := fate.between.after_kept()) is not None:
        loop.call_later(soon, run.drain_now)


def takes(random: Random) -> Callable[[], float]:
    """Return a function that returns how long the disk takes for an operation."""
    return partial(random.uniform, 0, SYNC_S)


def _check_stale(tup: Tuple[Any], workers: Iterable[MortalWorker]) -> None:
    """Check that no tree waits for a rejected tuple (D5). A tree may wait for it if it belongs to several trees, or
    to inputs that are stale themselves."""
    if not tup.others and attempt_of(tup.root) != LAST_ATTEMPT:
        home = next((worker for worker in workers if worker.owner == tup.root >> OWNER_SHIFT), None)
        if home is not None and tup.root in home.ledger:
            raise Broken(f"{tup.record} was refused as stale, and its tree waits for it")


def _poll_little(task: SpoutTask, every_s: float) -> None:
    """Have the task read a few messages at a time: then messages are done one after the other, and a strike hits."""
    poll = task.reader.poll

    async def poll_little(room: int) -> Sequence[Message[Any]]:
        await asyncio.sleep(every_s)
        return await poll(min(room, POLLED_MAX))

    task.reader.poll = poll_little  # type: ignore[method-assign]
