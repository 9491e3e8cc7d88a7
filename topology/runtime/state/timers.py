"""Timers of one task: they are a part of the state, and each fires once, after a crash too; overdue ones at once (B10).

A timer that is due comes to the task as an input would, with an identity made of component, key, name and due time, and
takes its turn with the inputs of its key. What it puts out is kept in the commit that takes it out of the state, then
leaves as a tree of this worker's own ledger, again and again until that is done, also after a crash. Only then it is
forgotten, and only once that is durable its trees count as done (D17). Must not know how state is kept.
"""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, Protocol

from acker.identity import timer_pair
from acker.ledger import Ledger, Tree
from acker.roots import RootSource, message_of
from topology.codes.runtime import TIMER_FAILED
from topology.components import Clock, Source, Tuple
from topology.keys import values_of
from topology.records import Record
from topology.runtime.current_task import TaskPlace, entered
from topology.runtime.failures import DEAD_AT_ONCE, OWN, Failure, Reason
from topology.runtime.state.dedup import Pair, RememberedInput
from topology.runtime.state.value import StateValue, due_of
from topology.runtime.tasks.outbox import Outbox, Staged
from topology.runtime.tasks.pending import BACKOFF_FIRST_S, BACKOFF_MAX_S, HURRIED_MAX_S
from topology.runtime.tasks.retry_policy import GivingUp
from topology.storage.rescale.fired_timers import HaveFired, have_fired, marks_of
from topology.storage.values import Mark
from topology.user_frames import described

logger = logging.getLogger("kedge")

LOOK_S: Final = 1.0  # at most this long until the wall clock is looked at again: it may step
AT_ONCE: Final = 512  # timers that are put into the queue at a time,
END_S: Final = 0.002  # and how long after that the next, at the end
MOVED_MIN: Final = 64  # timers that were moved, or taken away, before anybody tidies up after them


class Due(Record):
    """A timer that is due, as an input of its task."""

    key: bytes
    name: str
    due: int  # microseconds since 1970, UTC


class TimerTree(Tree):
    """One attempt at what a timer has put out."""

    pair: Pair
    spout_task: (
        Any  # the Timers that have begun it; named as a message's, as the ledger's owner tells either of its end
    )
    begun: float  # loop time
    renamed: tuple[int, ...] = ()  # as of messages; each attempt is a tree of its own


class TimerHost(Protocol):
    """The worker, as far as it is seen from here."""

    @property
    def ledger(self) -> Ledger[Any]: ...
    @property
    def roots(self) -> RootSource: ...
    @property
    def clock(self) -> Clock: ...
    def reported(self, failure: Failure) -> None: ...


class Fired:
    """What timers have put out in one worker, and is not over. `not_done`: the messages of its trees, which must not be
    announced as done while they can begin again; `open` counts what is under way or waits for another attempt, and
    `given_up` what this run does not try any more, be it on_timer itself: it is kept, and the next one does."""

    def __init__(self) -> None:
        self.trees: dict[Pair, list[int]] = {}  # of a timer → the messages of all of its attempts
        self.open = self.given_up = 0

    @property
    def not_done(self) -> Iterable[int]:
        return (message for messages in self.trees.values() for message in messages)


class TaskTimers:
    """Of one task. `put` takes tuples for the task's queue, `forgets` is told of what nobody needs any more, `wake` has
    the readers look at what was sent."""

    def __init__(
        self,
        bolt: Any,
        place: TaskPlace,
        home: TimerHost,
        fired: Fired,
        outbox: Outbox,
        *,
        topology_id: str,
        known_as: str,
        giving_up: GivingUp,
        fields: int,
        random: Random,
        put: Callable[[Sequence[Tuple[Any]]], None],
        records_of: Callable[[RememberedInput], Sequence[Record]],
        forgets: Callable[[Pair], None],
        wake: Callable[[], None],
    ) -> None:
        self.component = place.component
        self._bolt, self._place, self._home, self._fired, self._outbox = bolt, place, home, fired, outbox
        self._topology_id, self._known_as, self._fields = topology_id, known_as, fields
        self._random, self._put, self._records_of = random, put, records_of
        self._forgets, self._wake = forgets, wake
        self._source = Source(place.component, "timer", 0, lambda record: record.key)
        self._set: dict[tuple[bytes, str], int] = {}  # those that the state has and that are in no queue
        self._heap: list[tuple[int, bytes, str]] = []  # some of them were moved, or taken away, since
        self._handle: asyncio.TimerHandle | None = None
        self._waiting: dict[Pair, asyncio.TimerHandle] = {}  # that will be sent again
        self._entries: dict[Pair, RememberedInput] = {}
        self._giving_up = giving_up
        self._failing: dict[Pair, float] = {}  # since when
        self._own: dict[Pair, int] = {}  # of its attempts, those that have failed for what it has put out
        self._attempts: dict[Pair, int] = {}  # at sending what they have put out, that have failed
        self._failures: dict[Due, int] = {}  # of on_timer itself
        self._past = 0  # when the last one was due that was set for a time that was past,
        self._latest = 0  # and the latest of those that have fired, in any life,
        self._stepped_back = 0  # and how many were set for a time before that, by a clock that had not come there
        self._kept = self._sent = HaveFired()  # what the store has of these two, and the commit under way
        self._out: set[Due] = set()  # in the queue, or waiting for another try
        self._later: set[Due] = set()  # those of them that come again after a while
        self._ending: deque[tuple[int, bytes, str]] = deque()  # that fire since all inputs have ended
        self._ended_at: float | None = None  # loop time: all inputs have
        self._closed = self._draining = False
        self._most_s = BACKOFF_MAX_S
        self._loop = asyncio.get_running_loop()

    # -- what was due

    def resume(self, marks: Iterable[Mark]) -> None:
        """Takes up what earlier lives have left, of any task: the clock may have been stepped back since (B15)."""
        self._kept = self._sent = fired = have_fired(marks, self._known_as)
        self._latest, self._stepped_back = fired

    def gather(self) -> list[Mark]:
        """What the next commit has of them, with the state; nothing, where nothing has fired since the last one."""
        self._sent = HaveFired(self._latest, self._stepped_back)
        return marks_of(self._known_as, self._place.task, self._sent) if self._sent != self._kept else []

    def kept(self) -> None:
        """It is kept."""
        self._kept = self._sent

    # -- what is due

    def due(self, at: int, before: int | None) -> int:
        """When a timer that is set for `at` is due, whose key has it for `before`. One that is past is due now, each at
        another microsecond: it may have fired for its time, and what it puts out again must not pass for that. So is
        one that only a clock that was stepped back takes for a time to come."""
        now = max(self._now(), self._past)
        if at > now:
            self._stepped_back += at <= self._latest
            return at if at > self._latest else at + self._stepped_back
        if before is not None and before <= now:
            return before  # it is due, and moves no more, or inputs that set it again and again would hold it up
        self._past = now + (now in (self._past, self._latest))
        return self._past

    def set(self, key: bytes, timers: Mapping[str, int], gone: Iterable[str] = ()) -> None:
        """The key has these timers now, and none of those names any more."""
        for name in gone:
            self._set.pop((key, name), None)
        for name, due in timers.items():
            if self._set.get((key, name)) != due and Due(key, name, due) not in self._out:
                self._set[key, name] = due
                heapq.heappush(self._heap, (due, key, name))
        if len(self._heap) > MOVED_MIN + 2 * len(self._set):
            self._heap = [(due, key, name) for (key, name), due in self._set.items()]
            heapq.heapify(self._heap)
        self._arm()

    def later(self, record: Due, reason: Reason) -> None:
        """This one has failed: it comes again after a while. Where the run waits for it, as all inputs have ended, that
        is as often as a message does, or one poison timer would keep it from its end."""
        times = self._failures[record] = self._failures.get(record, 0) + 1
        self._out.add(record)
        failure, ended_s = Failure(reason, self.component), self._ended_s()
        if ended_s is not None and (
            reason in DEAD_AT_ONCE or self._giving_up.spent(failure, times, 0, 0.0, ended_s=ended_s)
        ):
            self._told_given_up("a timer", times)
            return
        self._later.add(record)
        self._loop.call_later(self._back_off_s(times), self._again, record)

    def over(self, record: Due) -> None:
        """What it has done is a part of the state by now, or it was not due any more."""
        self._failures.pop(record, None)
        self._out.discard(record)

    def fire_all(self) -> None:
        """All that the state has now are due, in their order; those that are set meanwhile are not."""
        if self._ended_at is None:
            self._ended_at = self._loop.time()
            self._most_s = HURRIED_MAX_S if self._giving_up.timed else BACKOFF_MAX_S
        self._ending.extend(sorted((due, key, name) for (key, name), due in self._set.items()))
        self._end()

    @property
    def ending(self) -> bool:
        """Whether some of those have not had their turn, or have failed, and come again."""
        return bool(self._ending) or (self._ended_at is not None and bool(self._later) and not self._draining)

    @property
    def untold(self) -> bool:
        """Whether there are some, and nobody has said that all inputs have ended: a predecessor may know."""
        return bool(self._set) and self._ended_at is None and not (self._draining or self._closed)

    def _ended_s(self) -> float | None:
        return self._loop.time() - self._ended_at if self._ended_at is not None else None

    def _end(self) -> None:
        """Puts some of those into the queue, and the others after a while."""
        if self._closed or self._draining:
            self._ending.clear()
        for _ in range(min(AT_ONCE, len(self._ending))):
            due, key, name = self._ending.popleft()
            if self._set.get((key, name)) == due:
                del self._set[key, name]
                self._put([self._tuple(Due(key, name, due))])
        if self._ending:
            self._loop.call_later(END_S, self._end)

    def drain(self) -> None:
        """What is not due yet stays in the state, for the next run. What waits to be sent again is sent now."""
        self._draining = True
        if self._handle is not None:
            self._handle.cancel()
        for pair, handle in [*self._waiting.items()]:
            handle.cancel()
            self._begin(pair)

    def close(self) -> None:
        """Nothing fires any more, and nothing is sent again."""
        self._closed = True
        for handle in (*self._waiting.values(), *([self._handle] if self._handle else [])):
            handle.cancel()

    def call(self, record: Due, state: StateValue) -> Any:
        """What the bolt makes of a timer that fires; that may be to set the same one again."""
        self._out.discard(record)
        self._latest = max(self._latest, record.due)
        return self._bolt.on_timer(values_of(record.key, self._fields), record.name, state)

    def _again(self, record: Due) -> None:
        self._later.discard(record)
        if not (self._closed or self._draining):
            self._put([self._tuple(record)])

    def _arm(self) -> None:
        if not self._heap or self._closed or self._draining:
            return
        at = self._loop.time() + min(max((self._heap[0][0] - self._now()) / 1e6, 0.0), LOOK_S)
        if self._handle is not None:
            if self._handle.when() <= at:
                return
            self._handle.cancel()
        self._handle = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        """Puts into the queue what is due, a bounded number at a time."""
        if self._closed or self._draining:
            return
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        now, due = self._now(), list[Tuple[Any]]()
        while self._heap and self._heap[0][0] <= now and len(due) < AT_ONCE:
            one, key, name = heapq.heappop(self._heap)
            if self._set.get((key, name)) == one:
                del self._set[key, name]
                due.append(self._tuple(Due(key, name, one)))
        if due:
            self._put(due)
        self._arm()

    def _now(self) -> int:
        return due_of(self._home.clock.utc())

    def _tuple(self, record: Due) -> Tuple[Any]:
        pair = timer_pair(self._topology_id, self._known_as, record.key, record.name, record.due)
        self._out.add(record)
        return Tuple(record, *pair, 0, (), self._source)

    # -- what they have put out

    def send(self, pair: Pair, entry: RememberedInput) -> None:
        """Begins a tree for what a timer has put out, which is durable; again and again until it is done."""
        if pair not in self._entries:
            self._entries[pair] = entry
            self._fired.trees[pair] = []
            self._fired.open += 1
        self._begin(pair)

    def _begin(self, pair: Pair) -> None:
        self._waiting.pop(pair, None)
        if self._closed:
            return
        root = self._home.roots.next_root()
        tup: Tuple[Any] = Tuple(Due(b"", "", 0), *pair, root, (), self._source)
        staged: Staged = []
        try:
            with entered(self._place):
                value = self._outbox.stage_all(staged, self._records_of(self._entries[pair]), tup)
        except BaseException as error:
            failure = Failure(Reason.EMIT, self.component, described(error), error)
            self._home.reported(failure)
            self._failed(pair, failure)
            return
        self._fired.trees[pair].append(message_of(root))
        if not value:  # nobody reads it
            self._done(pair)
            return
        self._home.ledger.begin(TimerTree(root, value, pair, self, self._loop.time()))
        self._outbox.send(staged)
        self._wake()

    def completed(self, trees: Iterable[TimerTree]) -> None:
        """These whole trees have been processed."""
        for tree in trees:
            self._done(tree.pair)

    def failed_tree(self, tree: TimerTree, failure: Failure) -> None:
        """The tree has failed, and begins again after a while: nobody else can replay it."""
        self._failed(tree.pair, failure)

    def removed(self, pair: Pair) -> None:
        """It is durable that this one is over."""
        self._fired.trees.pop(pair, None)

    def _done(self, pair: Pair) -> None:
        self._fired.open -= 1
        del self._entries[pair]
        self._attempts.pop(pair, None)
        self._own.pop(pair, None)
        self._failing.pop(pair, None)
        self._forgets(pair)

    def _failed(self, pair: Pair, failure: Failure) -> None:
        times = self._attempts[pair] = self._attempts.get(pair, 0) + 1
        own = self._own[pair] = self._own.get(pair, 0) + (failure.reason in OWN)
        now = self._loop.time()
        failing_s = now - self._failing.setdefault(pair, now)
        spent = self._giving_up.spent(
            failure, own, times - own, failing_s, ended_s=self._ended_s(), draining=self._draining
        )
        if failure.reason in DEAD_AT_ONCE or spent:
            self._give_up(pair)
        elif not self._closed:
            self._waiting[pair] = self._loop.call_later(self._back_off_s(times), self._begin, pair)

    def _give_up(self, pair: Pair) -> None:
        """One poison timer must not keep a run from its end. What it has put out stays where it is kept."""
        self._fired.open -= 1
        del self._entries[pair]
        self._told_given_up("what a timer has put out", self._attempts[pair])

    def _told_given_up(self, what: str, times: int) -> None:
        self._fired.given_up += 1
        text = "%s in %r was given up by this run after %d attempts, and is kept for the next (%s)"
        logger.error(text, what, self.component, times, TIMER_FAILED)

    def _back_off_s(self, times: int) -> float:
        return min(self._most_s, BACKOFF_FIRST_S * 2.0 ** min(times - 1, 20)) * (0.5 + self._random.random() / 2)
