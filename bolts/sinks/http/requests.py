"""The requests of one task: which is next, when, how many at once, and what becomes of one that fails.

Knows parcels, the loop and a receiver; must not know tuples, nor HTTP.
"""

import asyncio
import heapq
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Final, Protocol

from bolts.sinks.http.circuits import Circuits
from bolts.sinks.http.pace import Pace
from bolts.sinks.http.parcels import Gathering, HeldOutput, Parcel, key_of
from bolts.sinks.http.retries import DeliveryRefused, Retries
from topology.clients.errors import ServerAway
from topology.codes.runtime import SINK_STORE_AWAY

LOOK_S: Final = 1.0  # seconds between two looks at what is held …
EXPIRE_S: Final = 0.5  # … at least, if it is for those whose time is over
TOLD_S: Final = 1.0  # seconds; a longer outage is logged
AGAIN_S: Final = 30.0  # seconds between two log lines of one outage
CLOSING_S: Final = 4.0  # seconds that requests under way have at the end
NEW_PROBES: Final = 3  # requests in a row that are new while a receiver is away, before one that is repeated

log = logging.getLogger("kedge.bolts")


class Receiver(Protocol):
    """The other side, for one task. `where` names it, for people, without secrets."""

    where: str

    async def open(self) -> None:
        """Take the resources. Raises ServerAway, and ConfigurationError for what the user has to fix."""

    async def deliver(self, outputs: Sequence[HeldOutput], key: str) -> None:
        """Send these outputs by one request, and wait for the answer. May be called while others are under way.

        Raises DeliveryRefused if the receiver says no, and ServerAway if it cannot be asked now, or it is not known
        what it says: the same is then sent again.
        """

    async def close(self) -> None:
        """Give back what `open` took. Also called if `open` raised. Does not raise."""


class Holder(Protocol):
    """The sink of these requests. Its methods are quick."""

    @abstractmethod
    def delivered(self, output: HeldOutput) -> None:
        """Note that the receiver has said yes."""

    @abstractmethod
    def refused(self, output: HeldOutput, why: str) -> None:
        """Note that this output is not sent again."""

    @abstractmethod
    def look(self, now: float) -> bool:
        """Look at what is held; called when nothing can be sent. Return True to be called again in a second."""
        ...

    @abstractmethod
    def full_since(self) -> float | None:
        """Return the loop time since which an input waits for room; None: none does."""
        ...


class Requests:
    """Sends what it is given until `close`. Create it in a running loop."""

    def __init__(
        self,
        component: str,
        random: Random,
        *,
        receiver: Receiver,
        gathering: Gathering,
        holder: Holder,
        concurrency: int,
        retries: Retries,
        pace: Pace | None,
    ) -> None:
        self.circuits = Circuits(random)
        self.crowded = False  # more was due than the limit allows
        self._component, self._receiver, self._gathering, self._holder = component, receiver, gathering, holder
        self._concurrency, self._retries, self._pace = concurrency, retries, pace
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        self._changed = asyncio.Event()  # something may be sent, or is over
        self._again_now: deque[Parcel] = deque()  # parcels that are due for another attempt
        self._again_later: list[tuple[float, int, Parcel]] = []  # a heap: (due, number, parcel)
        self._numbers = count()
        # request → whether it is repeated, or asks one of several receivers that is away: half of the places are theirs
        self._under_way: dict[asyncio.Task[None], bool] = {}
        self._new_in_a_row = 0  # new requests since the last repeated one
        self._logged_at = self._expired_at = float("-inf")
        self.sender = self._loop.create_task(self._send(), name=f"{component}: sender")

    def add(self, output: HeldOutput) -> None:
        """Take an output, to be sent."""
        output.alone_then = self.circuits.alone_s(output.origin)
        self._gathering.add(output, output.taken_at)
        self._changed.set()

    def hurry(self) -> None:
        """Let nothing wait for more."""
        self._gathering.hurry()
        self._changed.set()

    async def close(self) -> None:
        """Begin no more requests, and let those under way end, for some seconds."""
        self._ending.set()
        self._changed.set()
        await asyncio.wait((self.sender,))
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=CLOSING_S)
        for task in (left := [*self._under_way]):
            task.cancel()
        if left:
            await asyncio.wait(left)

    def why_away(self) -> str:
        """Return the reason why nothing is sent to a receiver that is away, that of the longest if several are; or "".
        Logs a long outage."""
        origin, circuit = next(iter(self.circuits.away.items()), ("", None))
        if circuit is None:
            return ""
        now = self._loop.time()
        text = f"its receiver is away ({circuit.why}), retry {circuit.failures}"
        if (others := len(self.circuits.away) - 1) > 0:
            text += f"; {others:,} more {'is' if others == 1 else 'are'} away"
        if now - circuit.opened_at >= TOLD_S and now - self._logged_at >= AGAIN_S:
            self._logged_at, circuit.logged = now, True
            log.warning(
                "%s: %s, for %.0f s so far; its %s wait (%s)",
                *(self._component, text, now - circuit.opened_at, "records" if origin else "inputs", SINK_STORE_AWAY),
            )
        return text

    # -- which is next

    async def _send(self) -> None:
        """Begin requests until `close`. Runs as a background task."""
        while not self._ending.is_set():
            self._changed.clear()
            now = self._loop.time()
            parcel, at = self._next(now)
            if parcel is not None:
                self._begin(parcel, now)
                continue
            if self.circuits.away and now - self._expired_at >= EXPIRE_S:
                self._expired_at = now
                self._expire(now)
            look_at = now + LOOK_S if self._holder.look(now) else None
            try:
                async with asyncio.timeout_at(min((each for each in (at, look_at) if each is not None), default=None)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _next(self, now: float) -> tuple[Parcel | None, float | None]:
        """Return the parcel to send now, or None and the loop time at which to look again."""
        circuits, has_room = self.circuits, sum(self._under_way.values()) < max(1, self._concurrency // 2)

        def lets(origin: str) -> bool:
            return circuits.lets(origin, now) and (has_room or not origin or origin not in circuits.away)

        while self._again_later and self._again_later[0][0] <= now:
            self._again_now.append(heapq.heappop(self._again_later)[2])
        later = self._again_later[0][0] if self._again_later else None
        due_at = self._gathering.due_at(lets)
        is_new = due_at is not None and due_at <= now
        again = next((parcel for parcel in self._again_now if lets(parcel.origin)), None)
        if again is None and not is_new:
            return None, min((at for at in (later, due_at, circuits.next_at(now)) if at is not None), default=None)
        if len(self._under_way) >= self._concurrency:
            return None, None
        if self._pace is not None and (free_at := self._pace.free_at()) > now:
            self.crowded = True
            return None, free_at
        new_ones = NEW_PROBES if again is not None and again.origin in circuits.away else 1  # before a repeated one
        if again is not None and (not is_new or (has_room and self._new_in_a_row >= new_ones)):
            self._again_now.remove(again)
            self._new_in_a_row = 0
            return again, None
        if is_new and (parcel := self._gathering.take(now, self.crowded, lets)) is not None:
            self._new_in_a_row, self.crowded = self._new_in_a_row + 1, False
            return parcel, None
        return None, later

    def _begin(self, parcel: Parcel, now: float) -> None:
        if self._pace is not None:
            self._pace.note(now)
        is_again = parcel.tries > 0 or (parcel.origin != "" and parcel.origin in self.circuits.away)
        self.circuits.begins(parcel)
        task = self._loop.create_task(self._attempt(parcel), name=f"{self._component}: request")
        self._under_way[task] = is_again
        task.add_done_callback(self._ended)

    async def _attempt(self, parcel: Parcel) -> None:
        before = self.circuits.of(parcel.origin).delivered
        try:
            await self._receiver.deliver(parcel.outputs, key_of(parcel.outputs))
        except DeliveryRefused as error:
            self._answered(parcel)
            self._refused(parcel, str(error))
        except ServerAway as error:
            self._failed(parcel, error, before)
        else:
            self._answered(parcel)
            for output in parcel.outputs:
                self._holder.delivered(output)
            self._over(parcel)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._under_way[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: a request failed by a bug", self._component, exc_info=error)
            self.sender.cancel(str(error))
        self._changed.set()

    # -- what becomes of a parcel

    def _answered(self, parcel: Parcel) -> None:
        now = self._loop.time()
        circuit = self.circuits.answered(parcel, now)
        if circuit is None:
            return
        if circuit.logged:
            which = f" ({circuit.why})" if parcel.origin else ""
            log.warning("%s: its receiver is back%s, after %.0f s", self._component, which, now - circuit.opened_at)
        self._holder.look(now)

    def _refused(self, parcel: Parcel, why: str) -> None:
        if len(parcel.outputs) > 1:  # which of them it is, each half will say
            self._again_now.append(parcel.divided())
            return
        self._holder.refused(parcel.outputs[0], why)
        self._over(parcel)

    def _failed(self, parcel: Parcel, error: ServerAway, before: int) -> None:
        now, for_s = self._loop.time(), self._retries.for_s
        own = self.circuits.failed(parcel, error, before, now, self._holder.full_since())
        if own and for_s is not None and parcel.alone_s >= for_s:
            lasted_s = now - parcel.first_failed_at
            self._refused(parcel, f"{error}; it has failed for {lasted_s:.0f} s, and others are delivered")
        else:
            self._repeat(parcel.let_pass(), now)
        self._holder.look(now)

    def _repeat(self, parcel: Parcel, now: float) -> None:
        """Send a parcel when it is due."""
        if parcel.due_at > now:
            heapq.heappush(self._again_later, (parcel.due_at, next(self._numbers), parcel))
        else:
            self._again_now.append(parcel)

    def _expire(self, now: float) -> None:
        """Give up what is held for too long and not under way."""

        def is_over(output: HeldOutput) -> bool:
            return bool(self._why_over(output, now))

        for output in self._gathering.expired(is_over):
            self._holder.refused(output, self._why_over(output, now))
        waiting = [*self._again_now, *(entry[2] for entry in self._again_later)]
        if not any(is_over(part.outputs[0]) for parcel in waiting for part in (parcel, *parcel.rest)):
            return
        self._again_now.clear()
        self._again_later.clear()
        for parcel in waiting:
            left = []
            for part in (parcel, *parcel.rest):
                if why := self._why_over(part.outputs[0], now):
                    for output in part.outputs:
                        self._holder.refused(output, why)
                else:
                    left.append(part)
            if left:
                left[0].rest = left[1:]
                self._repeat(left[0], now)
            else:
                self._gathering.finished(parcel)

    def _why_over(self, output: HeldOutput, now: float) -> str:
        """Return why an output is given up whose receiver is away; "": it is not."""
        circuit = self.circuits.away.get(output.origin)
        if circuit is None:
            return ""
        outage_s, for_s = self._retries.outage_s, self._retries.for_s
        if outage_s is not None and output.taken_at <= now - outage_s:
            return f"{circuit.why}; not delivered within {outage_s:g} s"
        alone_s = circuit.alone_s - output.alone_then
        if for_s is not None and alone_s > 0 and alone_s >= for_s:
            return f"{circuit.why}; its receiver has been away for {alone_s:.0f} s, and others are delivered"
        return ""

    def _over(self, parcel: Parcel) -> None:
        """Send the next part of a parcel, or let its groups send again."""
        if (part := parcel.next_part()) is not None:
            self._repeat(part, self._loop.time())
        else:
            self._gathering.finished(parcel)
