"""A coordinator of checkpoints over members that answer when a test says so."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from acker.frontier import Frontier, Note
from topology.runtime.checkpoints.coordinator import Coordinator
from topology.testing import run_virtual

NOTE, KEEP, SETTLE = "note", "barrier", "decided"


class Puppet:
    """A member that answers nothing by itself. `told` has what it was told, and `log` what all were."""

    def __init__(self, worker: int, log: list[tuple[str, int]]) -> None:
        self.worker, self.log = worker, log
        self.told: list[str] = []
        self.frontiers: list[Frontier] = []
        self.alone: list[bool] = []

    def _tell(self, what: str) -> None:
        self.told.append(what)
        self.log.append((what, self.worker))

    def ask_note(self, checkpoint: int) -> None:
        self._tell(f"note {checkpoint}")

    def send_barrier(self, frontier: Frontier, *, alone: bool) -> None:
        self.frontiers.append(frontier)
        self.alone.append(alone)
        self._tell(f"barrier {frontier.checkpoint}")

    def send_decided(self, checkpoint: int) -> None:
        self._tell(f"decided {checkpoint}")

    def send_given_up(self, checkpoint: int) -> None:
        self._tell(f"given up {checkpoint}")

    def send_copy(self, checkpoint: int, folder: Path) -> None:
        self._tell(f"copy {checkpoint}")


class Stage:
    """A coordinator over puppets. `answers`: they answer everything at once. `log`: all that happened, in order."""

    def __init__(self, workers: int = 2, *, answers: bool = False, first: int = 6, every_s: float = 1.0) -> None:
        self.log: list[tuple[str, int]] = []
        self.members: list[Any] | None = [Puppet(worker, self.log) for worker in range(workers)]
        self.decided: list[int] = []
        self.fails: list[BaseException] = []  # what the next decisions raise
        self.size = 100
        self.quiet = False  # whether those that answer everything have nothing new
        self.coordinator = Coordinator(lambda: self.members, self._decide, first=first, every_s=every_s)
        if answers:
            for member in self.puppets:
                self.obliging(member)

    @property
    def puppets(self) -> list[Puppet]:
        assert self.members is not None
        return self.members

    def obliging(self, one: Puppet) -> None:
        """Have it answer each step."""
        coordinator, ask, barrier, decided = self.coordinator, one.ask_note, one.send_barrier, one.send_decided

        def noted(checkpoint: int) -> None:
            ask(checkpoint)
            coordinator.noted(one.worker, checkpoint, note(one.worker), self.quiet)

        def kept(frontier: Frontier, *, alone: bool) -> None:
            barrier(frontier, alone=alone)
            coordinator.prepared(one.worker, frontier.checkpoint, self.size, 0.1)

        def settled(checkpoint: int) -> None:
            decided(checkpoint)
            coordinator.settled(one.worker, checkpoint)

        one.ask_note, one.send_barrier, one.send_decided = noted, kept, settled  # type: ignore[method-assign]

    async def _decide(self, checkpoint: int) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise self.fails.pop()
        self.decided.append(checkpoint)
        self.log.append(("durable", checkpoint))

    def answer(self, step: str, *workers: int, checkpoint: int = 7) -> None:
        for worker in workers:
            if step == NOTE:
                self.coordinator.noted(worker, checkpoint, note(worker), False)
            elif step == KEEP:
                self.coordinator.prepared(worker, checkpoint, self.size, 0.1)
            else:
                self.coordinator.settled(worker, checkpoint)


def note(worker: int) -> Note:
    return Note((worker << 12 | 1,), (worker << 12 | 1) << 32 | 5)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def story(told: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test on a virtual loop."""

    def run() -> None:
        run_virtual(told(), seed=None)

    run.__name__ = told.__name__
    return run


def begun(stage: Stage) -> "asyncio.Task[bool]":
    return asyncio.ensure_future(stage.coordinator.take())
