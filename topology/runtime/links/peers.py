"""All links of one worker: join and leave peers, take hellos, and pass on what arrives.

A peer's frames act on the worker through `LinkHost`. Must not know what carries a frame, nor how a tree is replayed.
"""

import asyncio
import logging
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from acker.ledger import Ledger
from acker.roots import worker_of, worker_of_owner
from topology.core.tuples import Tuple
from topology.plan import Plan
from topology.runtime.failures import Failure
from topology.runtime.links.peer import Peer, RemoteQueue
from topology.runtime.links.protocol import (
    FRAME_VERSION,
    Carrier,
    Codec,
    Content,
    Dropped,
    Failed,
    Frame,
    FrameError,
    Greeting,
    Kind,
)
from topology.runtime.tasks.executor import Executor, drive
from topology.version import version

BEAT_S: Final = 0.5  # seconds between frames of a link that has nothing to send
SILENT_S: Final = 3 * BEAT_S  # seconds without any frame of a peer

logger = logging.getLogger("kedge")


class Cuts(Protocol):
    """The checkpoints of the worker, as far as its links see them."""

    @property
    def gathered(self) -> int:
        """The newest checkpoint that this worker has gathered. Everything that leaves carries it."""
        ...

    def saw(self, checkpoint: int) -> None:
        """A sender has gathered a newer checkpoint. Gather it before anything is read that came with it."""


class LinkHost(Protocol):
    """The worker, as far as its links see it."""

    ledger: Ledger[Any]
    executors: dict[tuple[str, int], Executor]

    @property
    def checkpoints(self) -> Cuts: ...
    def completed(self, trees: list[Any]) -> None: ...
    def fail(self, root: int, failure: Failure) -> None: ...
    def reported(self, failure: Failure) -> None: ...
    def touch(self, root: int) -> None: ...


@dataclass(frozen=True)
class Wiring:
    """The parts of a worker's links, and callbacks for errors.

    run         Number of this run, known to all of its workers.
    lost        Called with the owner whose frame never arrived, and a sentence.
    refused     Called with the owner of an invalid hello, and a sentence.
    generation  The generation of the run that the worker begins in.
    """

    run: int
    carrier: Carrier
    codec: Codec
    lost: Callable[[int, str], None]
    refused: Callable[[int, str], None]
    generation: int = 1


def greeting_of(plan: Plan) -> Greeting:
    """Return what the workers of a plan must agree on."""
    program = f"Kedge {version()}, Python {platform.python_version()}"
    return Greeting(FRAME_VERSION, plan.fingerprint, program)


class Peers:
    """All peers of one worker. `malformed` and `foreign` count the frames that were dropped before they were read.

    All sessions are of `generation`. A frame of another one has no effect, so what was sent before a death can't meet
    what was sent after it. Two workers hear of a death one after the other: the first one's hello is repeated until the
    other one is there too, and content leaves only then.
    """

    def __init__(
        self,
        home: LinkHost,
        plan: Plan,
        mine: int,
        wiring: Wiring,
    ) -> None:
        self.malformed = self.foreign = 0
        self.generation = self.begun_in = wiring.generation
        self.on_linked: Callable[[], None] = lambda: None  # called when all joined peers have welcomed this worker
        self._home = home
        self.mine = mine
        self._addresses = list(plan.placement)
        self._run = wiring.run
        self._greeting = greeting = greeting_of(plan)
        self._carrier = wiring.carrier
        self._codec = wiring.codec
        self._lost = wiring.lost
        self._refused = wiring.refused
        self._refusals: set[tuple[int, int]] = set()
        self._reported_full: set[Executor] = set()  # those whose queues peers know to be full
        self._loop = asyncio.get_running_loop()
        self._beat_at = self._loop.time()
        self._closed = False
        self.by_worker = {
            worker: Peer(
                worker,
                mine,
                run=wiring.run,
                greeting=greeting,
                carrier=wiring.carrier,
                codec=wiring.codec,
                failed=self._fail_all,
                gathered=lambda: home.checkpoints.gathered,
                generation=wiring.generation,
            )
            for worker in plan.workers
            if worker != worker_of_owner(mine)
        }

    # -- peers

    def join(self, worker: int, owner: int, address: str) -> None:
        """Begin a session with a worker, at most once per owner and generation. What is for it leaves once it has
        welcomed this worker. If it was joined under another owner, that session ends first."""
        peer = self.by_worker[worker]
        if peer.owner is not None:
            self._leave(peer.owner)
        self._carrier.connect(worker, address)
        peer.join(owner)

    def gone(self, owner: int) -> None:
        """Close the link to a dead owner. Does nothing if the link was closed before."""
        self._leave(owner)

    def begin_generation(self, number: int) -> None:
        """End all sessions, and begin one of this generation with each joined peer. Everything that waits for a peer is
        dropped, for a peer that is away too. Call it once no slice is under way: what is emitted later is of the new
        generation. Raises ValueError for a number that is not newer."""
        if number <= self.generation:
            raise ValueError(f"generation {number} can't follow generation {self.generation}")
        self.generation = number
        self._reported_full.clear()
        for peer in self.by_worker.values():
            peer.begin_generation(number)

    def _leave(self, owner: int) -> None:
        for worker, peer in self.by_worker.items():
            if peer.owner == owner:
                self._carrier.disconnect(worker)
                peer.part()

    @property
    def linked(self) -> bool:
        """Return True if all joined peers have welcomed this worker."""
        return all(peer.welcomed for peer in self.by_worker.values() if peer.owner is not None)

    def writable(self, worker: int) -> None:
        """Handle new room in the carrier for frames to this worker."""
        self.by_worker[worker].writable()

    # -- outgoing

    def fail(self, root: int, failure: Failure) -> None:
        peer = self.by_worker.get(worker_of(root))
        if peer is not None and peer.owner is not None:
            peer.fail(root, failure)

    def touch(self, root: int) -> None:
        peer = self.by_worker.get(worker_of(root))
        if peer is not None and peer.owner is not None:
            peer.touch(root)

    def queued(self, root: int) -> None:
        peer = self.by_worker.get(worker_of(root))
        if peer is not None and peer.owner is not None:
            peer.tell_queued(root)

    def queue(self, worker: int, at: tuple[str, int]) -> RemoteQueue:
        """Return the queue of a task that runs on another worker."""
        peer = self.by_worker[worker]
        address = self._addresses.index(at)
        if address not in peer.queues:
            peer.queues[address] = RemoteQueue(peer, at[0], address)
        return peer.queues[address]

    def touch_waiting(self) -> None:
        """Touch the trees of tuples that wait for a peer that is away or takes no more: they are not lost either
        (A9)."""
        for tup in self.held_up():
            for root in tup.roots:
                self._home.touch(root)

    def held_up(self) -> list[Tuple[Any]]:
        """Return the tuples that wait for a peer that is away or takes no more."""
        return [tup for peer in self.by_worker.values() for tup in peer.held_up()]

    def silent(self, now: float) -> bool:
        """Return True if a peer has sent nothing for so long that its loop must be stalled. That time counts for no
        deadline, because tuples may be in its queues (A9)."""
        return any(
            now - peer.heard_at > SILENT_S for peer in self.by_worker.values() if peer.welcomed and peer.receiving
        )

    def check(self, now: float, stood_still_s: float) -> None:
        """Find sessions that wait for a frame that will not come. Call it several times per second.

        `stood_still_s` is for how long this worker's own loop did not turn before, which says nothing about others
        (A10). Sends a frame now and then, empty or not, so that a loss is noticed even if nothing else would follow it.
        """
        beat = now - self._beat_at >= BEAT_S
        if beat:
            self._beat_at = now
        for peer in self.by_worker.values():
            if peer.welcomed and beat:
                peer.send_now()
            peer.heard_at = min(peer.heard_at + stood_still_s, now)
            session = peer.receiving
            if session is None or session.lost:
                continue
            session.shift(stood_still_s, now)
            if session.overdue(now):
                self._lost(session.sender, f"a frame from worker {peer.worker} never came")
        if self.by_worker:
            self.tell_full()  # not only peers fill queues

    def dropped(self) -> Dropped:
        """Return what was rejected so far, here and by the carrier."""
        carried = self._carrier.dropped()
        return carried._replace(malformed=carried.malformed + self.malformed, foreign=carried.foreign + self.foreign)

    def close(self) -> None:
        """Close all links; nothing leaves any more."""
        self._closed = True
        for peer in self.by_worker.values():
            if peer.owner is not None:
                self._leave(peer.owner)

    # -- incoming

    def received(self, frame: Frame) -> None:
        """Reads a frame, and those that waited for it. Drops, and counts, what is not for this session (A15)."""
        peer = self.by_worker.get(worker_of_owner(frame.sender))
        known = peer is not None and frame.sender == peer.owner and frame.receiver == self.mine
        if peer is None or not known or frame.run != self._run or frame.session != self.generation:
            self.foreign += not self._is_usual(frame)
        elif frame.kind == Kind.HELLO:
            self._greeted(peer, frame)
        elif frame.kind == Kind.WELCOME:
            if peer.welcome() and self.linked:
                self.on_linked()
        else:
            self._content(peer, frame)

    def _is_usual(self, frame: Frame) -> bool:
        """Return whether a healthy run drops such a frame, too. Examples: the hello of a peer that is not joined yet or
        is a generation ahead, and says hello again; or frames that a peer sent before it heard that this worker left
        all others."""
        peer = self.by_worker.get(worker_of_owner(frame.sender))
        if peer is None or (frame.run, frame.receiver) != (self._run, self.mine):
            return False
        if self._closed:
            return frame.sender == peer.newest
        is_ahead = frame.sender == peer.newest and frame.session > self.generation
        return frame.kind == Kind.HELLO and (is_ahead or frame.sender > peer.newest)

    def _greeted(self, peer: Peer, frame: Frame) -> None:
        theirs: Greeting = frame.body
        if (theirs.version, theirs.plan) != (self._greeting.version, self._greeting.plan):
            if (frame.sender, frame.session) not in self._refusals and len(self._refusals) < 1_000:
                self._refusals.add((frame.sender, frame.session))
                self._refused(
                    frame.sender,
                    f"worker {peer.worker} speaks frames of version {theirs.version} for plan {theirs.plan:.8} "
                    f"({theirs.program}); here it is version {self._greeting.version} for plan "
                    f"{self._greeting.plan:.8} ({self._greeting.program})",
                )
            return
        before = peer.receiving
        peer.greeted(frame)
        peer.heard_at = self._loop.time()
        if peer.receiving is not before:
            for address, at in enumerate(self._addresses):
                executor = self._home.executors.get(at)
                if executor in self._reported_full:
                    peer.tell_depth(address, executor.waiting)

    def _content(self, peer: Peer, frame: Frame) -> None:
        session = peer.receiving
        if session is None:
            self.foreign += 1
            return
        if not session.takes(frame):
            return
        try:
            content = self._codec.decode(frame.body)
        except FrameError as error:  # its number stays open: the gap is noticed, and the messages are replayed
            self.malformed += 1
            if self.malformed == 1:
                logger.warning("a malformed frame from worker %d is dropped: %s", peer.worker, error)
            return
        peer.heard_at = now = self._loop.time()
        size = frame.body.nbytes if isinstance(frame.body, memoryview) else 0
        for ready, failed in session.accept(frame.number, content, now, size):
            self._read(peer, ready)
            if failed:
                self._fail_all(failed)
        if session.lost:
            self._lost(session.sender, f"too many frames came from worker {peer.worker} before one that is missing")

    def _read(self, peer: Peer, content: Content) -> None:
        checkpoints = self._home.checkpoints
        if content.checkpoint > checkpoints.gathered:  # its cause may be behind a cut that is still ahead here
            checkpoints.saw(content.checkpoint)
        fed: list[Executor] = []
        for address, tuples in content.batches:
            executor = self._home.executors[self._addresses[address]]
            executor.queue.extend(tuples)
            fed.append(executor)
        if content.acks:
            done = content.acks.settle(self._home.ledger)
            if done:
                self._home.completed(done)
        for root, failure in content.fails:
            self._home.fail(root, failure)
        for root in content.touches:
            self._home.touch(root)
        for root in content.queued:
            self._home.ledger.renew(root)
        for address, depth in content.depths.items():
            queue = peer.queues.get(address)
            if queue is not None:
                queue.set_depth(depth)
        if fed:
            drive(fed)
            self.tell_full()

    def _fail_all(self, failed: Failed) -> None:
        for root, failure in failed:
            self._home.reported(failure)
            if root:  # otherwise it belonged to no tree
                self._home.fail(root, failure)

    def tell_full(self) -> None:
        """Report newly full queues to all peers, for any reason of fullness, and later that they have drained.
        Meanwhile spouts pause that feed them, directly or through other bolts."""
        for executor in self._home.executors.values():
            if executor not in self._reported_full and executor.full:
                self._reported_full.add(executor)
                self._tell_depth(executor)
                self._wait_until_drained(executor)

    def _wait_until_drained(self, executor: Executor) -> None:
        drained = executor.waiting_room.future()
        drained.add_done_callback(lambda _: self._drained(executor))

    def _drained(self, executor: Executor) -> None:
        if executor.full:  # full again, since it was seen to have drained
            self._wait_until_drained(executor)
        else:
            self._reported_full.discard(executor)
            self._tell_depth(executor)

    def _tell_depth(self, executor: Executor) -> None:
        address = self._addresses.index((executor.component, executor.task))
        for peer in self.by_worker.values():
            if peer.owner is not None:
                peer.tell_depth(address, executor.waiting)
