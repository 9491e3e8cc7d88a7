"""The time that a checkpoint holds the loop: the turns in which a worker notes, gathers and forgets.

A run in one process whose bolt has a million keys, set by as many inputs, and then changes CHANGED of them between two
checkpoints. The time is that of what a checkpoint does in one turn of the loop; the bytes are made in a thread, which
takes the interpreter from the loop for half a millisecond at a time. Must not know a benchmark's bars.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from topology import Bolt, Config, Message, Record, Spout, State, Topology
from topology.runtime.asyncio_tools import settle_heap
from topology.runtime.embedded.checkpoints import LocalMember
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run.report import Report

KEYS: Final = 1_000_000
CHANGED: Final = 10_000  # of them, before each checkpoint that is measured
TURNS: Final = 20  # such checkpoints
EVERY_S: Final = 1.0  # seconds between two checkpoints: more than the changes take
PAUSE_S: Final = 2.0  # for which a checkpoint is waited for, at most
SETTLE_S: Final = 2.0  # after all keys are there
SHORTEST_S: Final = 1.0  # with less time for it, fewer keys are there, and FEW such checkpoints
FEW: Final = 3


class User(Record):
    name: int


class Counted(Record):
    name: int


class Bursts(Spout):
    """All keys once; then CHANGED of them, `turns` times, each time just after a checkpoint has those of before.

    Of the class, as tasks are copies: `begun_at`, when the first turn began; `noted_at`, when the last decided
    checkpoint was asked for.
    """

    begun_at: ClassVar[float] = 0.0
    noted_at: ClassVar[float] = 0.0

    def __init__(self, keys: int, turns: int) -> None:
        self.keys = keys
        self.end = keys + CHANGED * turns
        self.next = 0

    async def poll(self, limit: int) -> Sequence[Message[User]]:
        if self.next == self.keys:
            await asyncio.sleep(SETTLE_S)
            Bursts.begun_at = time.perf_counter()
        elif self.next > self.keys and (self.next - self.keys) % CHANGED == 0:
            await self._kept()
        if self.next == self.end:
            return []
        first = self.next
        turn = self.keys if first < self.keys else first + CHANGED - (first - self.keys) % CHANGED
        self.next = min(first + limit, turn)
        return [Message(User(number % self.keys), number) for number in range(first, self.next)]

    async def _kept(self) -> None:
        """Wait until a checkpoint is decided that was asked for after this call; for PAUSE_S at most."""
        now = time.perf_counter()
        while self.noted_at < now and time.perf_counter() < now + PAUSE_S:  # noqa: ASYNC110 – set by the checkpoints
            await asyncio.sleep(0.002)


class Count(Bolt):
    def process(self, user: User, state: State[int]) -> Iterator[Counted]:
        state.set(state.get(0) + 1)
        yield Counted(user.name)


class Null(Bolt):
    def process(self, counted: Counted) -> None:
        return None


class _Turns:
    """The time that each call took, with the calls that it made. A call within another is part of it."""

    def __init__(self) -> None:
        self.took: list[tuple[float, float]] = []  # when it began, and milliseconds
        self._is_within = False
        self._asked_at = 0.0

    def timed(self, name: str) -> None:
        """Time this call of the checkpoints from now on."""
        call: Callable[..., Any] = getattr(LocalMember, name)

        def wrapped(*args: Any, **settings: Any) -> Any:
            if self._is_within:
                return call(*args, **settings)
            self._is_within, started_at = True, time.perf_counter()
            try:
                return call(*args, **settings)
            finally:
                self.took.append((started_at, (time.perf_counter() - started_at) * 1_000))
                self._is_within = False
                if name == "ask_note":
                    self._asked_at = started_at
                elif name == "send_decided":
                    Bursts.noted_at = self._asked_at

        setattr(LocalMember, name, wrapped)


def held_ms(seconds: float) -> dict[str, float]:
    """Return `value`: the longest hold by a checkpoint, in milliseconds; `p50` of as many of the longest as
    there were checkpoints; `keys`.

    With less than SHORTEST_S there are fewer keys. Raises RuntimeError if the run fails.
    """
    keys, count = (KEYS, TURNS) if seconds >= SHORTEST_S else (2 * CHANGED, FEW)
    topology = Topology("held", Config(durability="checkpoint", checkpoint_s=EVERY_S, max_pending=CHANGED))
    users = topology.spout("users", Bursts(keys, count))
    topology.bolt("behind", Null(), topology.bolt("count", Count(), users.fields("name")).shuffle())
    turns = _Turns()
    for name in ("ask_note", "send_barrier", "send_decided"):  # a note of one worker is followed by the barrier at once
        turns.timed(name)
    with tempfile.TemporaryDirectory() as folder:
        settle_heap()  # as `kedge run` does
        report = asyncio.run(_run(topology, Path(folder)))
    if report.exit_status:
        raise RuntimeError(f"the run has {report.ended}: {report.error}")
    took = [held for at, held in turns.took if at >= Bursts.begun_at]
    longest = sorted(took, reverse=True)[:count]
    return {"value": longest[0], "p50": longest[len(longest) // 2], "keys": keys}


async def _run(topology: Topology, state_dir: Path) -> Report:
    return await EmbeddedRun(topology, state_dir=state_dir).finish()
