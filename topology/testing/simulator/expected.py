"""The result of a topology without faults: a simulated run must have the same result.

A message that ends dead may have had some of its effects, on branches beside the one on which it died (A6). They depend
on what happened there first. So none of these effects is required, and each that it can have is allowed: a run in which
dead messages die last has all of them. Must not know faults.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

from topology.components import Message
from topology.graph import Graph
from topology.runtime.failures import Reason
from topology.runtime.run.report import Report
from topology.runtime.tasks.polling import Polling
from topology.runtime.worker.worker import Worker
from topology.testing.captured import Captured
from topology.testing.run_topology import run_topology
from topology.testing.simulator.patience import Name, Patience
from topology.testing.virtual_time.loop import LIMIT_S
from topology.testing.virtual_time.worker import Watch
from topology.topology import Topology

# runs without faults that are searched for a record that dead messages brought about, if records are compared
DRAWS_MAX: Final = 20
LONG_S: Final = 36_000.0  # seconds of virtual time that a run may take in which dead messages die last


class CapturedRows(NamedTuple):
    """The content of a Captured: of each (origin, identity) what is compared of it."""

    by_pair: dict[Any, Any]

    @classmethod
    def of(cls, captured: Captured[Any]) -> "CapturedRows":
        return cls(dict(captured.by_pair))


Held = dict[str, CapturedRows]  # of each Captured


class Peace:
    """The run of what `make` returns without faults; always the same one. Raises what the run raises.

    `ended` says how it ended, and `rows` is its result. `dead` are its dead messages, `timed_out` counts its trees
    that timed out, and `trace` has all deliveries.
    """

    def __init__(self, make: Callable[[], Topology], workers: int) -> None:
        self._make = make
        self._workers = workers
        topology, watch = make(), Watch()
        report = self._run(topology, 0, watch)
        self.ended = report.ended
        self.messages = report.snapshot.total("emitted")
        self.rows = _held(topology)
        self._died = {(message.spout, message.id): message.failure.component for message in watch.dead}
        self.dead = {*self._died}
        self.timed_out = timed_out(watch)
        self.trace = "".join(deliveries(topology))

    def owed(self, name: str) -> CapturedRows:
        """Return the rows that this Captured must have: those that it has without the dead messages."""
        return self._without_dead[name] if self.dead else self.rows[name]

    def allowed(self, name: str, *, by_record: bool) -> Iterator[CapturedRows]:
        """Yield rows that this Captured may have because of dead messages.

        The first are all that dead messages can have under their identities: those of a run in which they die last.
        Compared by record, the effect of some of these on the records of others may be neither that of all nor that of
        none. So some other runs follow, each with other random draws and another order.
        """
        if self.dead:
            yield self._dying_last[name]
            for draw in range(1, DRAWS_MAX) if by_record else ():
                yield self._again(draw, Watch())[name]

    @cached_property
    def _without_dead(self) -> Held:
        return self._again(0, Watch(before=partial(_leave_out, self.dead)))

    @cached_property
    def _dying_last(self) -> Held:
        return self._again(0, Watch(before=Patience(self._died).join))

    def _again(self, draw: int, watch: Watch) -> Held:
        topology = self._make()
        self._run(topology, draw, watch, LONG_S)
        return _held(topology)

    def _run(self, topology: Topology, draw: int, watch: Watch, limit_s: float = LIMIT_S) -> Report:
        """Run a topology. The first draw has asyncio's own order."""
        with quiet():
            return run_topology(topology, seed=draw or None, workers=self._workers, watch=watch, limit_s=limit_s)


class _Without:
    """A spout's messages, without those of some ids: `settled` gets these at once, as a source may wait for it."""

    def __init__(self, source: Polling, ids: Collection[Any], settled: Callable[[list[Any]], None]) -> None:
        self._source, self._settled = source, settled
        self._ids, self._stopped = ids, False
        self.epochs = source.epochs

    async def poll(self, limit: int) -> Sequence[Message[Any]]:
        while messages := await self._source.poll(limit):
            self.epochs = self._source.epochs
            if out := [message.id for message in messages if message.id in self._ids]:
                self._settled(out)
            if left := [message for message in messages if message.id not in self._ids]:
                return left
            if self._stopped and not self._source.ahead:
                break
        return ()

    @property
    def ahead(self) -> int:
        return self._source.ahead

    def stop(self) -> None:
        self._stopped = True
        self._source.stop()

    async def late(self) -> bool:
        return await self._source.late()

    async def close(self) -> None:
        await self._source.close()


def _leave_out(names: Collection[Name], worker: Worker) -> None:
    for task in worker.spout_tasks.values():
        ids = {id for spout, id in names if spout == task.component}
        settled = task.callbacks.settled if task.callbacks.wants_settled else lambda ids: None
        task.reader.source = _Without(task.reader.source, ids, settled)


def captured_of(topology: Topology | Graph) -> dict[str, Captured[Any]]:
    """Return its `Captured`, by component. Raises ValueError if there are none."""
    found = {
        component.name: component.prototype
        for component in topology.components
        if isinstance(component.prototype, Captured)
    }
    if not found:
        raise ValueError(
            "`simulate` compares what Captured sinks hold, and this topology has none: use one in place of each sink"
        )
    return found


def _held(topology: Topology) -> Held:
    return {name: CapturedRows.of(captured) for name, captured in captured_of(topology).items()}


def deliveries(topology: Topology) -> Iterator[str]:
    """Yield one line for each delivery to its `Captured`, with its time."""
    for name, captured in captured_of(topology).items():
        for tup, at in zip(captured.tuples, captured.times, strict=True):
            yield f"{name} {at:.9f} {tup.origin:x} {tup.identity:x}\n"


def timed_out(watch: Watch) -> int:
    """Return how many trees timed out."""
    return sum(failure.reason is Reason.TIMED_OUT for failure in watch.failures)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the log: the report has the faults."""
    logger = logging.getLogger("kedge")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
