"""The part that all sinks share that ask a receiver: held inputs, acks, back-pressure, counts, messages.

Each record is acked by itself when its receiver has said yes, so a slow or failing one holds up no other (a
`PublishingSink` acks a batch as a whole). Knows tuples and the loop; must not know HTTP, nor what a receiver is.
"""

import asyncio
import logging
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal, Never

from bolts.sinks.http.pace import Pace
from bolts.sinks.http.parcels import Gathering, HeldOutput
from bolts.sinks.http.requests import Receiver, Requests
from bolts.sinks.http.retries import Retries
from bolts.sinks.publishing.recent import RecentKeys
from bolts.sinks.values import BadValue
from topology.clients.errors import ServerAway, not_yet
from topology.codes.runtime import SINK_WRITER_DIED
from topology.components import Bolt, Collector, Task
from topology.core.tuples import Tuple
from topology.errors import Reject, TupleStateError
from topology.records import Record

HELD_MAX: Final = 1_000  # outputs that a task holds; above that `execute` waits
REFUSED_MAX: Final = 5_000  # refused outputs whose reason is remembered until their replay comes
# seconds between two touches of what is held; must be less than 20 tree_timeout_s, at which a held input fails
TOUCH_S: Final = 5.0
SLOW_S: Final = 5.0  # seconds that an input waits for room before the sink says why

log = logging.getLogger("kedge.bolts")


class DeliveringSink(Bolt):
    """A sink that asks a receiver. A subclass provides the receiver, and what becomes of a record.

    `stored`, `duplicates`, `divergent` and `refusals` count outputs since `open`: delivered ones, replays that this
    task has delivered before, known identities with another content, and failed ones.

    An output that the receiver refuses fails. Its replay, a moment later, is rejected with the same reason, without
    another request; so its message becomes a dead letter.
    """

    drops_replays: bool = False  # the command reports this at the end of a run
    dedup: ClassVar[Literal["shared", "task"]] = "shared"
    remembers_s: float | None = None
    durability: ClassVar[str] = "the receiver's answer"

    def __init__(self, *, concurrency: int, retries: Retries, rate: tuple[float, float] | None) -> None:
        """`rate`: requests, in seconds."""
        self.concurrency, self.retries, self._rate = concurrency, retries, rate
        self.stored = self.duplicates = self.divergent = self.refusals = 0
        self._receiver: Receiver | None = None
        self._requests: Requests | None = None

    @abstractmethod
    def _make_receiver(self, task: Task) -> Receiver:
        """Return the receiver, not yet open."""

    @abstractmethod
    def _make_gathering(self) -> Gathering:
        """Return an empty gathering."""

    @abstractmethod
    def _output(self, tup: Tuple[Record]) -> HeldOutput:
        """Return what is sent for a tuple. Raises BadValue if there is nothing that can be."""

    async def open(self, task: Task) -> None:
        """Open the receiver. Raises ConfigurationError for what the user has to fix, and NotYet if it is away."""
        self._component = task.component
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._held: dict[str, HeldOutput] = {}  # key → what waits for its answer, oldest first
        self._recent = RecentKeys()
        self._reasons: OrderedDict[str, str] = OrderedDict()  # key of a refused output → why, until its replay comes
        self._waits_since: float | None = None  # an input waits for room
        self._touched_at = self._loop.time()
        self._trouble = ""
        self._receiver = self._make_receiver(task)
        try:
            await self._receiver.open()
        except ServerAway as error:
            await self.close()
            raise not_yet(f"{type(self).__name__}: {error}") from None
        self._requests = Requests(
            task.component,
            task.random,
            receiver=self._receiver,
            gathering=self._make_gathering(),
            holder=self,
            concurrency=self.concurrency,
            retries=self.retries,
            pace=None if self._rate is None else Pace.of_rate(*self._rate),
        )
        self._requests.sender.add_done_callback(self._sender_ended)

    def execute(self, tup: Tuple[Record], out: Collector[Never]) -> Awaitable[None] | None:
        """Take a tuple, to be acked when it is delivered. If the sink is full, return an awaitable for room.

        Raises Reject for a record of which no request can be made, or whose request was refused before.
        """
        self._check()
        try:
            output = self._output(tup)
        except BadValue as error:
            raise Reject(str(error)) from error
        if (why := self._reasons.pop(output.key, None)) is not None:
            raise Reject(why)
        output.tuples.append((tup, out))
        if output.key not in self._held and output.key not in self._recent and len(self._held) >= HELD_MAX:
            return self._take_later(output)
        self._take(output)
        return None

    def flush(self, out: Collector[Never]) -> None:
        """Let no group wait for more: the inputs have ended. The run stays open until the last one is delivered."""
        self._check().hurry()

    async def close(self) -> None:
        """Let the requests under way end, for some seconds; fail what is not delivered; close the receiver."""
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            return
        self._room.set()
        if self._requests is not None:
            await self._requests.close()
        for output in [*self._held.values()]:
            self._fail(output, "the sink was closed before this was delivered")
        await receiver.close()

    def summary(self) -> Iterable[str]:
        """Yield the number of outputs, and where they went."""
        if self._receiver is not None:
            failed = f", {self.refusals:,} failed" if self.refusals else ""
            yield f"{self.stored:,} delivered to {self._receiver.where}, {self.duplicates:,} known already{failed}"

    # -- taking

    def _check(self) -> Requests:
        requests = self._requests
        if requests is None or self._receiver is None:
            raise RuntimeError(f"{type(self).__name__} is not open")
        if requests.sender.done():
            error = None if requests.sender.cancelled() else requests.sender.exception()
            raise RuntimeError(f"{type(self).__name__}'s sender has ended") from error
        return requests

    def _take(self, output: HeldOutput) -> None:
        if output.key in self._recent:
            self.duplicates += 1
            self._finish(output, lambda tup, out: out.ack(tup))
        elif (known := self._held.get(output.key)) is not None:
            known.tuples += output.tuples
        else:
            output.taken_at = self._loop.time()
            self._held[output.key] = output
            self._check().add(output)

    async def _take_later(self, output: HeldOutput) -> None:
        while len(self._held) >= HELD_MAX:
            self._waits_since = self._waits_since or self._loop.time()
            self._room.clear()
            await self._room.wait()
            self._check()
        self._waits_since = None
        self._take(output)

    # -- answers, as `Holder` has them

    def delivered(self, output: HeldOutput) -> None:
        """Ack an output."""
        if self._recent.add(output.key):
            self.divergent += 1
            log.warning(
                "%s: %s has the identity of a delivered record and another content; both are delivered. A bolt before "
                "this sink is not deterministic",
                *(self._component, output.key),
            )
        self.stored += 1
        self.duplicates += len(output.tuples) - 1
        self._trouble = ""
        self._finish(output, lambda tup, out: out.ack(tup))

    def refused(self, output: HeldOutput, why: str) -> None:
        """Fail an output, so that its replay is rejected."""
        self._reasons[output.key] = why
        if len(self._reasons) > REFUSED_MAX:
            self._reasons.popitem(last=False)
        self._fail(output, why)

    def look(self, now: float) -> bool:
        """Say what is waited for, and that what is held is still wanted. Return True if something is held."""
        requests, text = self._requests, ""
        if requests is not None:
            text = requests.why_away()
            if not text and self._waits_since is not None and now - self._waits_since >= SLOW_S:
                text = f"its receiver is slower than its input, and {len(self._held):,} records wait"
                if self._rate is not None and requests.crowded:
                    text = f"it sends {self._rate[0]:g} requests in {self._rate[1]:g} s at most, and "
                    text += f"{len(self._held):,} records wait"
        self.away = text
        if now - self._touched_at >= TOUCH_S:
            self._touched_at = now
            for output in self._held.values():
                if now - output.taken_at < TOUCH_S:
                    break  # the others are newer
                for tup, out in output.tuples:
                    with suppress(TupleStateError):
                        out.touch(tup)
        return bool(self._held)

    def full_since(self) -> float | None:
        """Return the loop time since which an input waits for room; None: none does."""
        return self._waits_since

    def _finish(self, output: HeldOutput, act: Callable[[Tuple[Any], Collector[Any]], None]) -> None:
        """Ack or fail all tuples of an output."""
        self._held.pop(output.key, None)
        for tup, out in output.tuples:
            try:
                act(tup, out)
            except TupleStateError:
                log.debug("%s: a %s was finished already", self._component, type(output.record).__name__)
        self._room.set()

    def _fail(self, output: HeldOutput, why: str) -> None:
        self.refusals += len(output.tuples)
        if why != self._trouble:  # when a problem begins or changes, not at each record
            self._trouble = why
            log.warning("%s: a record (%s) failed: %s", self._component, type(output.record).__name__, why)
        self._finish(output, lambda tup, out: out.fail(tup, why))

    def _sender_ended(self, sender: "asyncio.Task[None]") -> None:
        """Wake those that wait for room, so that they see the end of the sender."""
        if self._receiver is not None:
            error = None if sender.cancelled() else sender.exception()
            log.error("%s: its sender ended: %r (%s)", self._component, error, SINK_WRITER_DIED, exc_info=error)
            self._room.set()
