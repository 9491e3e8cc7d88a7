"""A worker's ends of its links: what waits to leave for each peer, and the sessions in which it leaves.

Tuples leave with the slice that has emitted them, so a lone one at once, and a busy worker fills its frames by itself.
Acks are in no hurry: they ride with the next tuples, or leave a moment later. While a peer is away, what is for it
waits, and the spouts that feed it pause. A new generation drops everything that waits. Must not know what carries a
frame, nor what its content does here.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from topology.core.tuples import Tuple
from topology.runtime.failures import Failure
from topology.runtime.hot.remote_acks import WaitingAcks
from topology.runtime.links.protocol import Carrier, Codec, Content, Failed, Frame, Greeting, Kind, Session
from topology.runtime.queue_limits import QUEUE_HIGH
from topology.runtime.waiting_room import WaitingRoom

HELLO_S: Final = 0.02  # between two hellos, until one is welcomed
ACK_WAIT_S: Final = 0.001  # for tuples that acks may ride with
TUPLES_MAX: Final = 4_096  # of one queue that become bytes at once, while the carrier takes them
ACKS_MAX: Final = 512  # that wait so; more leave at once: the spouts of that peer may be waiting for them


class RemoteQueue:
    """The queue of a task on another worker: tuples wait in `queue` for the next frame. Its depth is what the peer told
    last. Stands in for an executor where a task looks after those that it feeds, or a spout asks whether one is full.
    """

    def __init__(self, peer: "Peer", component: str, address: int) -> None:
        self.component = component
        self.address = address
        self.depth = 0
        self.queue: list[Tuple[Any]] = []  # always this list: outboxes have its `append`
        self.waiting_room = WaitingRoom()
        self._peer = peer

    def wake(self) -> None:
        """Lets what waits leave at the end of this turn of the loop."""
        self._peer.send_soon()

    def handed(self) -> None:
        """A slice has put something into it: that leaves now, with the acks of the same slice."""
        self._peer.send_now()

    @property
    def full(self) -> bool:
        """True if the spouts that feed it should pause: it is long, or its worker is away."""
        return self.depth + len(self.queue) > QUEUE_HIGH or not self._peer.welcomed

    async def room(self) -> None:
        """Waits until it is not full any more."""
        if self.full:
            await self.waiting_room.future()

    def set_depth(self, depth: int) -> None:
        """Takes note of what the peer says of its queue."""
        self.depth = depth
        self.let_in()

    def let_in(self) -> None:
        """Wakes who waits for room, if there is some."""
        if self.waiting_room.futures and not self.full:
            self.waiting_room.let_in()


class Notices:
    """News that wait to leave for a peer, beside tuples and acks: of trees and of queues."""

    __slots__ = ("depths", "fails", "queued", "touches")

    def __init__(self) -> None:
        self.fails: list[tuple[int, Failure]] = []
        self.touches: set[int] = set()
        self.queued: set[int] = set()
        self.depths: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.fails or self.touches or self.queued or self.depths)


class Peer:
    """One other worker: away, or joined under an owner, and then in one session per direction at a time. Both have the
    number of the generation."""

    _notices: Notices

    def __init__(
        self,
        worker: int,
        mine: int,
        *,
        run: int,
        greeting: Greeting,
        carrier: Carrier,
        codec: Codec,
        failed: Callable[[Failed], None],
        gathered: Callable[[], int],
        generation: int,
    ) -> None:
        self.worker = worker
        self.owner: int | None = None  # theirs; None while it is away
        self.newest = -1  # the last owner that it was joined under
        self.welcomed = False  # whether content may leave
        self.receiving: Session[tuple[Content, Failed]] | None = None
        self.generation = generation  # the number of the session in which content leaves
        self.sent = 0  # frames of it, so the number of the next one
        self.queues: dict[int, RemoteQueue] = {}
        self.heard_at = 0.0  # loop time of the last frame of it that was read
        self.repeated = self.foreign = 0  # frames that were dropped in the sessions before this one
        self._mine, self._run, self._greeting = mine, run, greeting
        self._carrier, self._codec = carrier, codec
        self._failed = failed  # called with the trees of tuples that no frame can carry
        self._gathered = gathered  # returns the newest checkpoint that this worker has gathered
        self._loop = asyncio.get_running_loop()
        self.acks = WaitingAcks(self._acks_came, ACKS_MAX)
        self._sending = False
        self._timer: asyncio.TimerHandle | None = None  # of acks that wait for a ride
        self._greeter: asyncio.TimerHandle | None = None
        self._unsent: deque[Frame] = deque()  # numbered already; there was no room for them
        self._clear()

    # -- sessions

    def join(self, owner: int) -> None:
        """Begins a session with this owner; what waits leaves once it is welcomed. At most once per owner and
        generation."""
        self.owner = self.newest = owner
        self.acks.open = True
        self.sent = 0
        self.greet()

    def part(self) -> None:
        """The peer is gone: sessions with it are over, and what waited for it is dropped (its trees fail)."""
        self.owner = None
        self.acks.open = False
        self._end_sessions()

    def begin_generation(self, generation: int) -> None:
        """Ends all sessions, drops what waits, and begins a session of this generation if the peer is there."""
        self._end_sessions()
        self.generation = generation
        self.sent = 0
        self.greet()

    def _end_sessions(self) -> None:
        self.welcomed = False
        self._end_receiving()
        self._clear()
        for queue in self.queues.values():
            queue.depth = 0
        for timer in (self._timer, self._greeter):
            if timer is not None:
                timer.cancel()
        self._timer = self._greeter = None

    def greet(self) -> None:
        """Says hello, again and again until it is welcomed."""
        if self._greeter is not None:
            self._greeter.cancel()
            self._greeter = None
        if self.owner is not None and not self.welcomed:
            self._carrier.send(self._frame(Kind.HELLO, 0, self._greeting))
            self._greeter = self._loop.call_later(HELLO_S, self.greet)

    def greeted(self, frame: Frame) -> None:
        """Takes a hello of this generation that agrees with us, for the first time or again."""
        if self.receiving is None:
            self.receiving = Session(frame.sender, self._mine, frame.session)
        self._carrier.send(self._frame(Kind.WELCOME, 0, self._greeting))

    def welcome(self) -> bool:
        """Lets content of this generation leave; False if it was welcomed before."""
        if self.welcomed:
            return False
        self.welcomed = True
        for queue in self.queues.values():
            queue.let_in()
        self.send_now()
        return True

    def _end_receiving(self) -> None:
        if self.receiving is not None:
            self.repeated += self.receiving.duplicates
            self.foreign += self.receiving.foreign
        self.receiving = None

    # -- what waits to leave

    def _acks_came(self) -> None:
        """Lets acks leave soon: the first one, or many."""
        if len(self.acks) > ACKS_MAX:
            self.send_soon()
        elif self._timer is None and not self._sending:
            self._timer = self._loop.call_later(ACK_WAIT_S, self.send_now)

    def fail(self, root: int, failure: Failure) -> None:
        self._notices.fails.append((root, failure))
        self.send_soon()

    def touch(self, root: int) -> None:
        self._notices.touches.add(root)
        self.send_soon()

    def tell_queued(self, root: int) -> None:
        self._notices.queued.add(root)
        self.send_soon()

    def tell_depth(self, address: int, depth: int) -> None:
        self._notices.depths[address] = depth
        self.send_soon()

    def send_soon(self) -> None:
        """Lets what waits leave at the end of this turn of the loop."""
        if not self._sending:
            self._sending = True
            self._loop.call_soon(self._due)

    def _due(self) -> None:
        self._sending = False
        if self._waits():
            self.send_now()

    def send_now(self) -> None:
        """Sends what waits, be it nothing; when there is no room, or no welcome yet, it goes on waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self.welcomed and not self._unsent:
            self._send_some()
            if not any(queue.queue for queue in self.queues.values()):
                return

    def _send_some(self) -> None:
        """Makes frames of what waits, of so many tuples at once that a long backlog is not encoded in vain."""
        queues = [queue for queue in self.queues.values() if queue.queue]
        batches = [(queue.address, queue.queue[:TUPLES_MAX]) for queue in queues]
        news = self._notices
        gathered = self._gathered()
        content = Content(batches, self.acks.take(), news.fails, news.touches, news.depths, gathered, news.queued)
        for queue in queues:
            del queue.queue[:TUPLES_MAX]
        self._notices = Notices()
        bodies, failed = self._codec.encode(content)
        for body in bodies:
            frame = self._frame(Kind.CONTENT, self.sent, body)
            self.sent += 1
            if self._unsent or not self._carrier.send(frame):
                self._unsent.append(frame)
        for queue in queues:
            queue.let_in()
        if failed:
            self._failed(failed)

    def writable(self) -> None:
        """There is room again: sends what there was none for."""
        if not self.welcomed:
            self.greet()
            return
        while self._unsent:
            if not self._carrier.send(self._unsent[0]):
                return
            self._unsent.popleft()
        if self._waits():
            self.send_now()

    def _frame(self, kind: Kind, number: int, body: Any) -> Frame:
        assert self.owner is not None, "frames are for a peer that is there"
        return Frame(kind, self._run, self._mine, self.owner, self.generation, number, body)

    def _clear(self) -> None:
        for queue in self.queues.values():
            queue.queue.clear()
        self._unsent.clear()
        self.acks.take()
        self._notices = Notices()

    @property
    def idle(self) -> bool:
        """True if nothing waits to leave, and it could."""
        return self.welcomed and not self._unsent and not self._sending and not self._waits()

    def _waits(self) -> bool:
        return bool(self.acks or self._notices) or any(queue.queue for queue in self.queues.values())

    def held_up(self) -> list[Tuple[Any]]:
        """The tuples that wait because the peer is away, or takes no more at the moment."""
        if self.welcomed and not self._unsent:
            return []
        return [tup for queue in self.queues.values() for tup in queue.queue]
