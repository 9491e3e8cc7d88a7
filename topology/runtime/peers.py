"""A worker's ends of its links: what waits to leave for each peer, and what to do with what arrives.

Out-boxes flush at the end of the loop's turn: a lone tuple leaves at once, a busy worker fills its frames by itself.
Must not know what carries a frame, nor how a tree is replayed.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from acker.progress import Progress
from acker.roots import worker_of
from topology.components import Tuple
from topology.runtime.executor import QUEUE_HIGH, Executor
from topology.runtime.failures import Failure
from topology.runtime.links import Carrier, Frame, Session

BEAT_S: Final = 0.5  # between frames of a link that has nothing to say


class RemoteQueue:
    """The queue of a task on another worker: tuples are put into the next frame. Its depth is what the peer told last.

    Stands in for an executor where a spout asks whether what it feeds is full.
    """

    def __init__(self, peer: "Peer", component: str, address: int) -> None:
        self.component = component
        self.depth = 0
        self.waiting_room: list[asyncio.Future[None]] = []
        self._peer = peer
        self._address = address

    def append(self, tup: Tuple[Any]) -> None:
        self._peer.tuples.append((self._address, tup))
        self._peer.leave_soon()

    def extend(self, tuples: Iterable[Tuple[Any]]) -> None:
        self._peer.tuples.extend((self._address, tup) for tup in tuples)
        self._peer.leave_soon()

    @property
    def full(self) -> bool:
        return self.depth > QUEUE_HIGH

    async def room(self) -> None:
        """Waits until the peer says that its queue has drained."""
        if self.full:
            future = asyncio.get_running_loop().create_future()
            self.waiting_room.append(future)
            await future

    def told(self, depth: int) -> None:
        self.depth = depth
        if not self.full:
            for future in self.waiting_room:
                if not future.done():
                    future.set_result(None)
            self.waiting_room.clear()


class Peer:
    """One other worker, in one session at a time."""

    def __init__(self, mine: int, theirs: int, carrier: Carrier) -> None:
        self.mine, self.theirs = mine, theirs
        self.tuples: list[tuple[int, Tuple[Any]]] = []
        self.acks: dict[int, int] = {}
        self.fails: list[tuple[int, Failure]] = []
        self.touches: set[int] = set()
        self.depths: dict[int, int] = {}
        self.progress: Progress | None = None
        self.queues: dict[int, RemoteQueue] = {}
        self._carrier = carrier
        self._loop = asyncio.get_running_loop()
        self._leaving = False
        self.repeated = self.foreign = 0  # frames that were dropped in the sessions before this one
        self.session = Session(theirs, mine, 0)
        self.restart(0)

    def restart(self, session: int) -> None:
        """Begins a session: frames are numbered anew, what waited for the old one is dropped (its trees fail)."""
        self.repeated += self.session.duplicates
        self.foreign += self.session.foreign
        self.session = Session(self.theirs, self.mine, session)
        self._number = 0
        self._clear()
        for queue in self.queues.values():
            queue.told(0)

    def ack(self, root: int, value: int) -> None:
        self.acks[root] = self.acks.get(root, 0) ^ value
        self.leave_soon()

    def fail(self, root: int, failure: Failure) -> None:
        self.fails.append((root, failure))
        self.leave_soon()

    def touch(self, root: int) -> None:
        self.touches.add(root)
        self.leave_soon()

    def tell_progress(self, progress: Progress) -> None:
        self.progress = progress
        self.leave_soon()

    def tell_depth(self, address: int, depth: int) -> None:
        self.depths[address] = depth
        self.leave_soon()

    def leave_soon(self) -> None:
        """Lets what waits leave at the end of this turn of the loop."""
        if not self._leaving:
            self._leaving = True
            self._loop.call_soon(self._leave)

    def _leave(self) -> None:
        self._leaving = False
        session = self.session.session
        frame = Frame(
            self.mine,
            self.theirs,
            session,
            self._number,
            self.tuples,
            self.acks,
            self.fails,
            self.touches,
            self.progress,
            self.depths,
        )
        self._number += 1
        self._clear()
        self._carrier.send(frame)

    def _clear(self) -> None:
        self.tuples, self.acks, self.fails, self.touches, self.depths, self.progress = [], {}, [], set(), {}, None

    @property
    def idle(self) -> bool:
        """Whether nothing waits to leave."""
        return not self._leaving


class Peers:
    """All peers of one worker, and the reading of their frames."""

    def __init__(self, home: Any, addresses: list[tuple[str, int]], lost: Callable[[int], None]) -> None:
        self.by_worker: dict[int, Peer] = {}
        self._home = home
        self._addresses = addresses
        self._lost = lost  # called with the worker whose session is lost
        self._loop = asyncio.get_running_loop()
        self._beaten = self._loop.time()

    def ack(self, root: int, value: int) -> None:
        """Sends an ack to a tree's home; to nobody where that worker is unknown."""
        peer = self.by_worker.get(worker_of(root))
        if peer is not None:
            peer.ack(root, value)

    def fail(self, root: int, failure: Failure) -> None:
        peer = self.by_worker.get(worker_of(root))
        if peer is not None:
            peer.fail(root, failure)

    def touch(self, root: int) -> None:
        peer = self.by_worker.get(worker_of(root))
        if peer is not None:
            peer.touch(root)

    def queue(self, worker: int, at: tuple[str, int]) -> RemoteQueue:
        """The queue of a task that runs on another worker."""
        peer = self.by_worker[worker]
        address = self._addresses.index(at)
        if address not in peer.queues:
            peer.queues[address] = RemoteQueue(peer, at[0], address)
        return peer.queues[address]

    def received(self, frame: Frame) -> None:
        """Reads a frame, and those that waited for it."""
        worker = frame.sender >> 12
        peer = self.by_worker.get(worker)
        if peer is None:
            return
        for ready in peer.session.accept(frame, self._loop.time()):
            self._read(peer, ready)
        if peer.session.lost:
            self._lost(worker)

    def _read(self, peer: Peer, frame: Frame) -> None:
        fed: dict[int, Executor] = {}
        for address, tup in frame.tuples:
            executor = fed.get(address)
            if executor is None:
                executor = fed[address] = self._home.executors[self._addresses[address]]
            executor.queue.append(tup)
        for address, executor in fed.items():
            executor.wake()
            if executor.full:
                self._tell_when_drained(peer, address, executor)
        done = [tree for root, value in frame.acks.items() if (tree := self._home.ledger.ack(root, value)) is not None]
        if done:
            self._home.completed(done)
        for root, failure in frame.fails:
            self._home.fail(root, failure)
        for root in frame.touches:
            self._home.touch(root)
        if frame.progress is not None:
            self._home.progressed(frame.progress)
        for address, depth in frame.depths.items():
            queue = peer.queues.get(address)
            if queue is not None:
                queue.told(depth)

    def _tell_when_drained(self, peer: Peer, address: int, executor: Executor) -> None:
        """Tells all peers that a queue is full, and later that it has drained: their spouts pause meanwhile."""
        if executor.told_full:
            return
        executor.told_full = True
        drained = self._loop.create_future()
        executor.waiting_room.append(drained)

        def tell(_: object = None) -> None:
            executor.told_full = executor.full
            for one in self.by_worker.values():
                one.tell_depth(address, len(executor.queue))

        tell()
        drained.add_done_callback(tell)

    def check(self, now: float) -> None:
        """Notices sessions that wait for a frame that will not come. Called several times a second.

        Sends a frame now and then, empty or not, so that a loss is noticed where nothing else would follow it.
        """
        beat = now - self._beaten >= BEAT_S
        if beat:
            self._beaten = now
        for worker, peer in list(self.by_worker.items()):
            if beat:
                peer.leave_soon()
            if peer.session.overdue(now):
                self._lost(worker)
