"""The cost of failing every tree everywhere, as each death of a worker does: how long a worker's loop is blocked.

All workers are in one event loop, so that no other work runs while one of them is measured, but their frames pass
through the codec of real links. All spouts have `max_pending` trees open, in queues that do not move. For each survivor
in turn: the time in which its link closes and all trees fail, and the longest turn of the loop after it, in which all
are replayed. The turn includes more than a worker's own would: other workers read the frames that this one sends.
"""

import asyncio
import time
from dataclasses import replace
from typing import Any, Final

from benchmarks.embedded import Login, Logins
from topology import Bolt, Config, Topology
from topology.runtime.asyncio_tools import settle_heap
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.links.codec import WireCodec
from topology.runtime.worker.worker import Worker

TREES: Final = 2_000  # open trees per spout task
TASKS: Final = 4  # bolt tasks in each worker, so that no queue reaches the length at which spouts pause
FOR_EVER_S: Final = 1e6
TURNS: Final = 20  # turns of the loop that are observed after all replays have left
PATIENCE_S: Final = 30.0  # until all trees are open, and until all have been replayed: each takes well under a second


class Stuck(Bolt):
    """Never finishes its first input; the other inputs stay in its queue."""

    async def process(self, login: Login) -> None:
        await asyncio.Event().wait()


def full(workers: int) -> Topology:
    config = Config(max_pending=TREES, tree_timeout_s=FOR_EVER_S, process_timeout_s=FOR_EVER_S)
    topology = Topology("full", config)
    logins = topology.spout("logins", Logins(), tasks=workers)
    topology.bolt("stuck", Stuck(), logins.shuffle(), tasks=TASKS * workers)
    return topology


def wired(plan: Any, **settings: Any) -> Worker:
    """Return a worker whose frames have bytes for bodies."""
    return Worker(plan, **{**settings, "wiring": replace(settings["wiring"], codec=WireCodec(plan))})


async def blocked_ms(workers: int) -> dict[str, float]:
    """Return the milliseconds of the slowest survivor: `fail`, `replay`, and their sum."""
    settle_heap()  # as workers do
    run = EmbeddedRun(full(workers), workers=workers, worker_kind=wired)
    finished = asyncio.ensure_future(run.finish())
    gives_up_at = time.monotonic() + PATIENCE_S
    while len(run.workers) < workers or any(worker.pending < TREES for worker in run.workers):
        if time.monotonic() > gives_up_at:
            pending = [worker.pending for worker in run.workers]
            raise RuntimeError(f"trees open after {PATIENCE_S:g} s: {pending}, not {TREES} each; {run.in_flight()}")
        await asyncio.sleep(0.01)
        if finished.done():
            raise RuntimeError(f"the run has ended: {finished.result()}")
    await asyncio.sleep(0.2)  # frames in flight between them arrive
    *survivors, dead = run.workers
    found = []
    for worker in survivors:
        run._coordinator.give_up("a worker was killed")  # as a run does: the worker answers no question from before
        found.append(await _blocked_ms(worker, dead.owner))
    run.abort()
    await finished
    return max(found, key=lambda one: one["value"])


async def _blocked_ms(worker: Worker, dead: int) -> dict[str, float]:
    started_at = time.perf_counter()
    failed = worker.begin_generation(2, "was killed", lambda left: None, gone=dead)
    fail = time.perf_counter() - started_at
    if failed != TREES:
        raise RuntimeError(f"{failed} trees were open, not {TREES}")
    longest, left = 0.0, TURNS
    gives_up_at = time.monotonic() + PATIENCE_S
    while left:
        replayed = worker.snapshot().total("replayed")
        if replayed >= TREES:
            left -= 1
        elif time.monotonic() > gives_up_at:
            raise RuntimeError(f"{replayed} of {TREES} trees were replayed after {PATIENCE_S:g} s")
        started_at = time.perf_counter()
        await asyncio.sleep(0)
        longest = max(longest, time.perf_counter() - started_at)
    return {"value": 1000 * (fail + longest), "fail": 1000 * fail, "replay": 1000 * longest}
