"""Memory: the cost of a pending tree beyond its record, its message id and its queued tuple.

Two runs of one topology, each in a process of its own: 100,000 messages are emitted and then wait in the queues of 128
tasks whose `process` never returns. In one run trees are tracked, in the other they are not. In both, the spout makes
and makes records and ids before that, and tuples lie in the queues. So a tree costs the difference in resident growth,
the allocator's waste included: what is kept for a replay, the ledger's entry, the numbers in both, and the `Message`
around record and id.
"""

import asyncio
import gc
from collections.abc import Sequence
from typing import Literal

from topology import Bolt, Config, Message, Record, Spout, Topology
from topology.runtime.embedded.run import EmbeddedRun

TREES = 100_000
TASKS = 128  # so many that no queue reaches the length at which the spout would pause
FOR_EVER_S = 1e6


class Login(Record):
    address: str
    at: float
    user: str


class Prepared(Spout):
    """Emits TREES messages, then waits. Makes all that it keeps in `open`."""

    def __init__(self) -> None:
        self.logins: list[Login] = []
        self.ids: list[int] = []
        self.next = 0

    def open(self, task: object, positions: object) -> None:
        self.logins = [Login(f"10.0.{n >> 8}.{n & 255}", float(n), "root") for n in range(TREES)]
        self.ids = list(range(1_000_000, 1_000_000 + TREES))

    async def poll(self, limit: int) -> Sequence[Message[Login]]:
        if self.next == TREES:
            await asyncio.Event().wait()
        end = min(self.next + limit, TREES)
        taken = slice(self.next, end)
        self.next = end
        return [Message(login, number) for login, number in zip(self.logins[taken], self.ids[taken], strict=True)]


class Stuck(Bolt):
    """Never finishes its first input; the other inputs stay in its queue."""

    async def process(self, login: Login) -> None:
        await asyncio.Event().wait()


def stuck_topology(guarantee: Literal["at-least-once", "at-most-once"]) -> Topology:
    config = Config(guarantee=guarantee, max_pending=TREES, tree_timeout_s=FOR_EVER_S, process_timeout_s=FOR_EVER_S)
    topology = Topology("pending", config)
    logins = topology.spout("logins", Prepared())
    topology.bolt("stuck", Stuck(), logins.shuffle(), tasks=TASKS)
    return topology


async def grown_bytes(guarantee: Literal["at-least-once", "at-most-once"]) -> int:
    """Return the growth of this process's resident memory while TREES messages are emitted and queued."""
    run = EmbeddedRun(stuck_topology(guarantee))
    finished = asyncio.ensure_future(run.finish())
    await _emitted(run, 1)
    before = _resident()
    await _emitted(run, TREES)
    grown = _resident() - before
    run.abort()
    await finished
    return grown


async def _emitted(run: EmbeddedRun, count: int) -> None:
    """Wait until `count` messages have been emitted; a turn of the loop may emit 128."""
    while (snapshot := run.snapshot()) is None or snapshot.total("emitted") < count:  # noqa: ASYNC110 – polls a counter
        await asyncio.sleep(0)


def _resident() -> int:
    gc.collect()
    import psutil  # type: ignore[import-untyped]  # it has no stubs; not all environments have it

    return int(psutil.Process().memory_info().rss)
