"""One worker: the tasks of a plan that run in one event loop, their ledger, and the clockwork around them.

Builds, opens, runs, drains and closes; the order of each is written here and nowhere else. It is the `Home` that
executors ack and fail to. It must not know signals, commands or how many workers there are.
"""

import asyncio
import copy
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, ClassVar, Final

from acker.ledger import Ledger
from acker.roots import RootSource, message_of
from topology.components import Clock, Notes, Task
from topology.errors import KedgeError, StartError
from topology.graph import Declared
from topology.plan import Plan, seconds
from topology.runtime.collecting import CollectingExecutor, TaskCollector
from topology.runtime.executor import Executor, ProcessExecutor
from topology.runtime.failures import Failure, Reason
from topology.runtime.histogram import Histogram
from topology.runtime.keyed import KeyedExecutor
from topology.runtime.metrics import BoltCounts, Snapshot, SpoutCounts
from topology.runtime.outbox import Outbox, outbox_of
from topology.runtime.reporting import Reporter
from topology.runtime.sourcing import Polling, polling
from topology.runtime.spouting import Pending, Spouting

TURN_S: Final = 0.1  # how often deadlines and time limits are looked at
FLOOR_S: Final = 0.2  # how often finished messages are announced to those who remember them
REMIND_S: Final = 60.0
SETTLE_S: Final = 0.002  # how often the end of a bounded run looks whether all is quiet
CLOSE_S: Final = 10.0  # how long one component's `close` may take

EXECUTORS: Final[dict[str, type[Executor]]] = {
    "process": ProcessExecutor,
    "state": KeyedExecutor,
    "execute": CollectingExecutor,
}


class Worker:
    """The tasks of `plan` on one worker. Make it in a running loop; `open`, `start`, `settle` or `drain`, `close`."""

    outbox_kind: ClassVar[type[Outbox]] = Outbox  # the test kit has one that checks every record

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
    ) -> None:
        self.plan = plan
        self.worker = worker
        self.clock = clock
        self.config = plan.config
        self.reporter = reporter
        self.ledger: Ledger[Pending] = Ledger(plan.config.tree_timeout_s, clock.monotonic())
        self.ack = self.ledger.ack  # every tree's home is here
        self.executors: dict[tuple[str, int], Executor] = {}
        self.spoutings: dict[tuple[str, int], Spouting] = {}
        self.broken: BaseException | None = None  # what ended a task of the runtime, or a spout
        self.stopping = asyncio.Event()  # set by on_dead="stop", and by whatever is broken
        self._sources_ended = asyncio.Event()
        self._roots = RootSource(worker, incarnation, renew)
        self._topology_id = topology_id
        self._random = random
        self._notes = notes
        self._key = key
        self._sources: list[Polling] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opened: list[tuple[str, Any]] = []
        self._begun = clock.monotonic()
        self._flushed: dict[tuple[str, int], int] = {}  # bolt task → inputs executed when it was flushed last
        self._build()

    # -- building

    def _build(self) -> None:
        mine = [at for at, worker in self.plan.placement.items() if worker == self.worker]
        for name, task in reversed(mine):  # readers first: their queues must be there
            declared = self.plan.components[name]
            component = prototype_copy(declared)
            random = Random(self._random.getrandbits(64))
            outbox = outbox_of(
                self.plan, name, self.worker, lambda *at: self.executors[at].queue, random, self.outbox_kind
            )
            if declared.kind == "bolt":
                self.executors[name, task] = EXECUTORS[declared.shape](
                    name,
                    task,
                    component,
                    outbox,
                    self,
                    concurrency=declared.concurrency,
                    time_limit_s=self.config.process_timeout_s,
                    random=random,
                    waits=declared.waits,
                )
            else:
                self.spoutings[name, task] = self._spouting(name, task, component, outbox, random)
        for (name, _), executor in self.executors.items():
            executor.downstream = self._readers(name)
        for (name, _), spouting in self.spoutings.items():
            spouting.downstream = self._readers(name)
            spouting.below = self._of(*self.plan.below(name))

    def _readers(self, name: str) -> list[Executor]:
        return self._of(*(reader.subscriber for reader in self.plan.readers(name)))

    def _spouting(self, name: str, task: int, spout: Any, outbox: Outbox, random: Random) -> Spouting:
        source = polling(spout)
        self._sources.append(source)
        return Spouting(
            name,
            task,
            spout,
            source,
            outbox,
            self,
            topology_id=self._topology_id,
            config=self.config,
            roots=self._roots,
            key=self._key,
            random=random,
        )

    async def open(self) -> None:
        """Opens every component, readers before those they read, spouts last. Raises what the first one raises."""
        everyone = [(at, one.bolt) for at, one in self.executors.items()]
        everyone += [(at, one.spout) for at, one in self.spoutings.items()]
        for (name, index), component in everyone:
            declared = self.plan.components[name]
            random = Random(self._random.getrandbits(64))
            task = Task(self.plan.topology, name, index, declared.tasks, self.clock, random, self._notes)
            self._opened.append((name, component))
            try:
                opened = component.open(task) if declared.kind == "bolt" else component.open(task, {})
                if inspect.isawaitable(opened):
                    await opened
            except KedgeError:
                raise
            except Exception as error:
                raise StartError(f"{name!r} could not be opened: {type(error).__name__}: {error}") from error

    def start(self) -> None:
        """Starts every task. Returns at once."""
        for (name, index), executor in self.executors.items():
            self._spawn(executor.run(), f"{name}.{index}")
            every = self.plan.components[name].every
            if every is not None:
                self._spawn(self._tick(executor, seconds(every)), f"{name}.{index} tick")
        for (name, index), spouting in self.spoutings.items():
            self._spawn(spouting.run(), f"{name}.{index}")
        self._spawn(self._clockwork(), "clockwork")

    def _spawn(self, coroutine: Any, name: str) -> None:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """A dead executor is a dead worker (A14), and a spout that raises ends the run: neither is passed over."""
        self._tasks.discard(task)
        if all(one.ended for one in self.spoutings.values()):
            self._sources_ended.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken = self.broken or error
            self.reporter.failed(Failure(Reason.RAISED, task.get_name(), f"{type(error).__name__}: {error}", error))
            self.stopping.set()

    # -- what executors call

    def completed(self, trees: list[Pending]) -> None:
        spouting = trees[0].spouting
        if len(self.spoutings) == 1:
            spouting.completed(trees)
        else:
            for tree in trees:
                tree.spouting.completed([tree])

    def fail(self, root: int, failure: Failure) -> None:
        tree = self.ledger.fail(root)
        if tree is not None:
            tree.spouting.failed_tree(tree, failure)

    def touch(self, root: int) -> None:
        self.ledger.touch(root)

    def reported(self, failure: Failure) -> None:
        self.reporter.failed(failure)

    def died(self, spouting: Spouting, tree: Pending, failure: Failure) -> None:
        """A message is dead: nobody will replay it."""
        message = tree.message
        self.reporter.died(spouting.component, message.id, message.record, tree.own + tree.others, failure)
        if self.config.on_dead == "stop":
            self.stopping.set()

    # -- clockwork

    async def _clockwork(self) -> None:
        """Deadlines, time limits, touches, floors, reminders: all on the loop's clock."""
        touch_every = self.config.tree_timeout_s / 3
        last = touched = announced = reminded = self.clock.monotonic()
        while True:
            await asyncio.sleep(TURN_S)
            now = self.clock.monotonic()
            if any(spouting.paused_by is not None for spouting in self.spoutings.values()):
                self.ledger.shift(now - last)
            for tree in self.ledger.advance(now):
                tree.spouting.failed_tree(tree, Failure(Reason.TIMED_OUT, tree.spouting.component))
            last = now
            for executor in self.executors.values():
                executor.check_time_limits(now)
            if now - touched >= touch_every:
                touched = now
                for executor in self.executors.values():
                    executor.touch_waiting()
            if now - announced >= FLOOR_S:
                announced = now
                self._announce_floor()
            if now - reminded >= REMIND_S:
                reminded = now
                self.reporter.remind()

    async def _tick(self, executor: Executor, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await executor.tick(self.clock.utc())

    def _announce_floor(self) -> None:
        """Tells those who remember inputs below which message all are done."""
        keyed = [one for one in self.executors.values() if isinstance(one, KeyedExecutor)]
        if keyed:
            roots = [tree.root for tree in self.ledger.trees()]
            roots += [root for one in self.spoutings.values() if (root := one.oldest_later()) is not None]
            floor = message_of(min(roots)) if roots else message_of(self._roots.latest) + 1
            for executor in keyed:
                executor.forget_below(floor)

    # -- the end

    async def settle(self) -> None:
        """Waits for the end of a bounded run: sources ended, every message done, bolts flushed, queues empty."""
        await self._sources_ended.wait()
        for name, declared in self.plan.components.items():
            if declared.kind == "bolt":
                above = self._of(name, *(at for at in self.plan.components if name in self.plan.below(at)))
                await _until(partial(self._quiet, above))
                await self._flush(self._of(name))
        while not self._done():
            await asyncio.sleep(SETTLE_S)
            if self._quiet(list(self.executors.values())):
                fed = [one for at, one in self.executors.items() if one.executed > self._flushed[at]]
                await self._flush(fed)  # a replay came after their flush

    def _quiet(self, executors: list[Executor]) -> bool:
        return not self._later() and all(one.quiet for one in executors)

    def _done(self) -> bool:
        return not self.pending and all(one.quiet and not one.held() for one in self.executors.values())

    async def _flush(self, executors: list[Executor]) -> None:
        for executor in executors:
            self._flushed[executor.component, executor.task] = executor.executed
            flush = getattr(executor.bolt, "flush", None)
            if flush is None:
                continue
            try:
                result = flush(TaskCollector(executor, None))
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                text = f"flush: {type(error).__name__}: {error}"
                self.reporter.failed(Failure(Reason.RAISED, executor.component, text, error))
            executor.wake_downstream()

    async def drain(self) -> None:
        """Stops the spouts and waits until what is under way is done. The caller limits the time."""
        for spouting in self.spoutings.values():
            spouting.drain()
        await _until(self._done)

    async def close(self) -> None:
        """Ends everything, in the order that loses least: spouts stop, inputs under way fail, sources close, then bolts
        in the order of the flow, so that each can still hand over what it holds. Safe after a failed `open`."""
        for spouting in self.spoutings.values():
            spouting.draining = True
            spouting.close()
        for executor in self.executors.values():
            executor.cut_off()
        for source in self._sources:
            await source.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for name, component in sorted(self._opened, key=lambda one: list(self.plan.components).index(one[0])):
            try:
                async with asyncio.timeout(CLOSE_S):
                    closed = component.close()
                    if inspect.isawaitable(closed):
                        await closed
            except Exception as error:
                text = f"close: {type(error).__name__}: {error}"
                self.reporter.failed(Failure(Reason.RAISED, name, text, error))
        self._opened.clear()
        self.reporter.remind()

    # -- what it tells

    @property
    def pending(self) -> int:
        """Messages under way, back-off included."""
        return sum(one.pending for one in self.spoutings.values())

    def _later(self) -> int:
        return sum(one.waiting for one in self.spoutings.values())

    def _of(self, *names: str) -> list[Executor]:
        return [one for (name, _), one in self.executors.items() if name in names]

    def snapshot(self) -> Snapshot:
        """All counters at this moment, tasks of a component added up."""
        latency = Histogram()
        for spouting in self.spoutings.values():
            latency.merge(spouting.latency)
        names = self.plan.components
        return Snapshot(
            self.plan.topology,
            self.clock.monotonic() - self._begun,
            1,
            {name: _spout_counts(self._spouts(name)) for name in names if names[name].kind == "spout"},
            {name: _bolt_counts(self._of(name)) for name in names if names[name].kind == "bolt"},
            latency,
        )

    def _spouts(self, name: str) -> Iterator[Spouting]:
        return (one for (at, _), one in self.spoutings.items() if at == name)


async def _until(condition: Callable[[], bool]) -> None:
    """Waits for what is made true by many; only at the end of a run, where looking often costs nothing."""
    while not condition():  # noqa: ASYNC110  # an event would have to be set by every ack
        await asyncio.sleep(SETTLE_S)


def _spout_counts(tasks: Iterator[Spouting]) -> SpoutCounts:
    rows = [(one.emitted, one.acked, one.failed, one.replayed, one.dead, one.pending) for one in tasks]
    return SpoutCounts(*map(sum, zip(*rows, strict=True)))


def _bolt_counts(tasks: list[Executor]) -> BoltCounts:
    return BoltCounts(
        sum(one.executed for one in tasks),
        sum(one.outbox.emitted for one in tasks),
        sum(one.failed for one in tasks),
        sum(len(one.queue) for one in tasks),
        sum(len(one.held()) for one in tasks),
        sum(one.busy_s for one in tasks),
    )


def prototype_copy(declared: Declared) -> Any:
    """A task's own copy of what was given to the topology. Raises StartError naming what can't be copied."""
    try:
        return copy.deepcopy(declared.prototype)
    except Exception as error:
        culprit = ""
        for name, value in vars(declared.prototype).items():
            try:
                copy.deepcopy(value)
            except Exception:
                culprit = f" its attribute {name!r} ({type(value).__name__}) can't be;"
                break
        raise StartError(
            f"{declared.name!r} can't be copied for each task:{culprit} take resources in `open`, "
            f"not in the constructor ({type(error).__name__}: {error})"
        ) from error
