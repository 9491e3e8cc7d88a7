"""What a topology comes to when nothing goes wrong: what a simulated run has to come to, too.

A message that ends dead may have had some of its effects, on ways beside the one that it has died on (A6). Which, hangs
on what befell it there first: none of them is owed, and each that it may have had may be there. Must not know faults.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final

from topology.components import Message
from topology.runtime.failures import Reason
from topology.runtime.run.report import Report
from topology.runtime.tasks.polling import Polling
from topology.runtime.worker.worker import Worker
from topology.testing.captured import Captured
from topology.testing.run_topology import run_topology
from topology.testing.virtual_time.worker import Watch
from topology.topology import Topology

DRAWS_MAX: Final = 20  # runs in peace that are looked at for an effect of a dead message that the first did not have

Name = tuple[str, Any]  # of a message: its spout, its id
Held = dict[str, dict[Any, Any]]  # of each Captured: key → record


class Peace:
    """The run of what `make` gives in which nothing goes wrong, always the same one. `ended` says how, `captured` what
    it has come to; `dead` are its dead messages, `timed_out` counts its trees that did, `trace` has all deliveries.
    Raises what the run raises."""

    def __init__(self, make: Callable[[], Topology], workers: int) -> None:
        self._make = make
        self._workers = workers
        topology, watch = make(), Watch()
        report = self._run(topology, 0, watch)
        self.ended = report.ended
        self.messages = report.snapshot.total("emitted")
        self.captured = _held(topology)
        self.dead = {(one.spout, one.id) for one in watch.dead}
        self.timed_out = timed_out(watch)
        self.trace = "".join(deliveries(topology))
        self._partial: list[Held] = []  # of each draw

    def partial_effects(self, name: str) -> Iterator[dict[Any, Any]]:
        """What this Captured has of dead messages alone: what it would not have without them. One run after the other,
        each with other draws and in another order; the first is the one that `captured` is of."""
        for draw in range(DRAWS_MAX if self.dead else 0):
            if draw == len(self._partial):
                self._partial.append(self._of_the_dead(draw))
            yield self._partial[draw][name]

    def _of_the_dead(self, draw: int) -> Held:
        every, without = self._make(), self._make()
        self._run(every, draw, Watch())
        self._run(without, draw, Watch(before=partial(_leave_out, self.dead)))
        there = _held(without)
        return {
            name: {key: one for key, one in held.items() if key not in there[name]}
            for name, held in _held(every).items()
        }

    def _run(self, topology: Topology, draw: int, watch: Watch) -> Report:
        """The first draw has asyncio's own order."""
        with quiet():
            return run_topology(topology, seed=draw or None, workers=self._workers, watch=watch)


class _Without:
    """A spout's messages, but for those of some ids."""

    def __init__(self, source: Polling, ids: Collection[Any]) -> None:
        self._source = source
        self._ids, self._stopped = ids, False
        self.epochs = source.epochs

    async def poll(self, limit: int) -> Sequence[Message[Any]]:
        while messages := await self._source.poll(limit):
            self.epochs = self._source.epochs
            if left := [one for one in messages if one.id not in self._ids]:
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
    for one in worker.spout_tasks.values():
        one.source = _Without(one.source, {id for spout, id in names if spout == one.component})


def captured_of(topology: Topology) -> dict[str, Captured[Any]]:
    """Its `Captured`, by component. Raises ValueError where there are none."""
    found = {one.name: one.prototype for one in topology.components if isinstance(one.prototype, Captured)}
    if not found:
        raise ValueError(
            "a topology is simulated by what its Captured have, and this one has none: put one in place of each sink"
        )
    return found


def _held(topology: Topology) -> Held:
    return {name: dict(one.distinct) for name, one in captured_of(topology).items()}


def deliveries(topology: Topology) -> Iterator[str]:
    """What its `Captured` got, and when, a line each."""
    for name, captured in captured_of(topology).items():
        for tup, at in zip(captured.tuples, captured.times, strict=True):
            yield f"{name} {at:.9f} {tup.origin:x} {tup.identity:x}\n"


def timed_out(watch: Watch) -> int:
    """How many trees did."""
    return sum(one.reason is Reason.TIMED_OUT for one in watch.failures)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Faults are told by the report, and not by the log as well."""
    logger = logging.getLogger("kedge")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
